"""What a login may give to whoever answers: which methods of authentication are followed, and over what.

Source: MySQL Reference Manual, "Client-Side Cleartext Pluggable Authentication", "Caching SHA-2 Pluggable
Authentication", "SHA-256 Pluggable Authentication".
"""

from __future__ import annotations

import ssl
from typing import Any

from ..errors import AuthenticationError, ProtocolError
from .address import Address

_CLIENT_SSL = 1 << 11
_VERIFIED = ("VERIFY_CA", "VERIFY_IDENTITY")
_NO_TLS = "set it up there (ssl_cert, ssl_key), or ssl_mode=DISABLED"
_KEY_OF_PEER, _FULL, _FAST = b"\2", 4, 3
# These send a scramble or a signature, from which the password cannot be read.
_SCRAMBLED = (b"mysql_native_password", b"client_ed25519")
_WITH_KEY = (b"caching_sha2_password", b"sha256_password")
_CLEARTEXT = (b"mysql_clear_password", b"dialog")


def guarded(kind: Any, address: Address, public_key: bytes | None) -> Any:
    """A class of PyMySQL connections that check what the server asks for before they answer.

    Parameters
    ----------
    kind : type
        The class of connections to derive from.
    address : Address
        Its ssl_mode, cleartext and get_server_public_key say what is allowed.
    public_key : bytes or None
        The server's key, in PEM; then no other is used.
    """
    from pymysql import _auth

    class Guarded(kind):  # type: ignore[misc]
        def _get_server_information(self) -> None:
            super()._get_server_information()
            wanted = address.ssl_mode not in ("DISABLED", "PREFERRED")
            if wanted and not self.server_capabilities & _CLIENT_SSL:
                raise AuthenticationError(
                    f"the server does not support TLS, and ssl_mode is {address.ssl_mode}: {_NO_TLS}"
                )

        def _create_ssl_ctx(self, given: ssl.SSLContext | dict[str, Any]) -> ssl.SSLContext:
            return given if isinstance(given, ssl.SSLContext) else unverified()

        def _get_auth_plugin_handler(self, plugin_name: bytes) -> Any:
            return _Sha2(self, plugin_name) if plugin_name in _WITH_KEY else None

        def _process_auth(self, plugin_name: bytes, auth_packet: Any, handler: Any = None) -> Any:
            if plugin_name in _CLEARTEXT:
                _check_cleartext(address, plugin_name.decode())
            elif plugin_name not in _SCRAMBLED + _WITH_KEY:
                raise AuthenticationError("the server asks for a method of authentication that is not known")
            return super()._process_auth(plugin_name, auth_packet, handler)

    class _Sha2:
        """The two methods that send the password itself, over TLS or encrypted with the server's key."""

        def __init__(self, connection: Any, name: bytes) -> None:
            self._connection, self._name = connection, name

        def authenticate(self, packet: Any) -> Any:
            connection = self._connection
            if packet.is_auth_switch_request():
                connection.salt = packet.read_all().removesuffix(b"\0")
                if not connection.password:
                    return self._send(b"")
                if self._name == b"caching_sha2_password":
                    return self._send(_auth.scramble_caching_sha2(connection.password, connection.salt))
                if isinstance(connection._sock, ssl.SSLSocket):
                    return self._send(connection.password + b"\0")
                return self._encrypted(None, b"\1")
            data = packet.get_all_data()[1:]
            if self._name == b"sha256_password":  # the request for the key was part of the login
                return self._encrypted(data, b"")
            if data[0] == _FAST:
                return connection._read_packet()
            if data[0] != _FULL:
                raise ProtocolError("the answer to a login is not valid")
            if isinstance(connection._sock, ssl.SSLSocket) or address.socket:
                return self._send(connection.password + b"\0")
            return self._encrypted(None, _KEY_OF_PEER)

        def _encrypted(self, received: bytes | None, request: bytes) -> Any:
            """Send the password, encrypted with the given key, or with the server's if that is allowed."""
            key = public_key
            if key is None:
                _check_key(address, self._name.decode())
                key = received or self._send(request).get_all_data()[1:]
            connection = self._connection
            return self._send(_auth.sha2_rsa_encrypt(connection.password, connection.salt, key))

        def _send(self, data: bytes) -> Any:
            self._connection.write_packet(data)
            return self._connection._read_packet()

    return Guarded


def unverified() -> ssl.SSLContext:
    """TLS with whoever answers. It does not read the machine's certificates, which takes 0.1 s."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _check_cleartext(address: Address, method: str) -> None:
    """Raise unless the password may be sent as it is."""
    asks = f"the server asks for the password in clear text ({method})"
    if not address.cleartext:
        raise AuthenticationError(
            f"{asks}, which is refused: cleartext=true allows it, over TLS with ssl_mode=VERIFY_IDENTITY or"
            " VERIFY_CA, or over a Unix socket; then the server reads the password"
        )
    if not address.socket and address.ssl_mode not in _VERIFIED:
        raise AuthenticationError(
            f"{asks}, and ssl_mode={address.ssl_mode} does not verify who that is: cleartext=true needs"
            " ssl_mode=VERIFY_IDENTITY or VERIFY_CA, or a Unix socket"
        )


def _check_key(address: Address, method: str) -> None:
    """Raise unless the password may be encrypted with the key that the other side sends."""
    if address.get_server_public_key or address.socket:
        return
    raise AuthenticationError(
        f"{method} without TLS needs the server's public key: use TLS (ssl_mode=VERIFY_IDENTITY),"
        " server_public_key=FILE, or get_server_public_key=true, which takes the key from whoever answers:"
        " a man in the middle can then read the password"
    )
