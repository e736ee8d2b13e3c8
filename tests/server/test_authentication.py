"""A hostile server gets no password by any method that the options do not allow."""

from __future__ import annotations

import os
import ssl
from hashlib import sha1
from pathlib import Path
from random import Random
from typing import Any

import pytest

pytest.importorskip("pymysql")
pytest.importorskip("cryptography")

from support.direct import Direct
from support.hostile_server import OK, SALT, HostileServer, certified, hostile, public_key
from support.talk import GREETING

from binlog_core.errors import (
    AuthenticationError,
    MissingExtraError,
    ProtocolError,
    ServerError,
    UnreachableError,
)
from binlog_core.server.address import Address
from binlog_core.server.connection import Connection

_CLEARTEXT = ("mysql_clear_password", "dialog")
_SHA2 = ("caching_sha2_password", "sha256_password")


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, str]:
    return certified(tmp_path_factory.mktemp("tls"))


def connect(url: str, **options: Any) -> None:
    Connection(Address.of(url, {"connect_timeout": 5, **options})).close()


def by(method: str, way: str) -> dict[str, str]:
    """A server that asks for a method in its greeting, or by a switch."""
    return {"plugin": method} if way == "greeting" else {"switch": method}


@pytest.mark.parametrize("method", _CLEARTEXT)
@pytest.mark.parametrize("mode", ["PREFERRED", "DISABLED"])
@pytest.mark.parametrize("allowed", [False, True])
def test_no_clear_text_without_tls(method: str, mode: str, allowed: bool) -> None:
    with hostile(switch=method) as (server, url), pytest.raises(AuthenticationError, match="cleartext=true"):
        connect(url, ssl_mode=mode, cleartext=allowed)
    assert not server.got_password()


@pytest.mark.parametrize("method", _CLEARTEXT)
def test_clear_text_only_over_tls_that_is_verified(method: str, tls: tuple[ssl.SSLContext, str]) -> None:
    context, ca = tls
    for options in (
        {},
        {"ssl_mode": "REQUIRED"},
        {"ssl_mode": "REQUIRED", "cleartext": True},
        {"cleartext": True},
        {"ssl_mode": "VERIFY_IDENTITY", "ssl_ca": ca},
    ):
        with hostile(switch=method, tls=context) as (server, url):
            with pytest.raises(AuthenticationError, match="cleartext=true"):
                connect(url, **options)
            assert not server.got_password()
    with hostile(switch=method, tls=context) as (server, url):
        connect(url, ssl_mode="VERIFY_IDENTITY", ssl_ca=ca, cleartext=True)
        assert server.got_password()


@pytest.mark.parametrize("way", ["greeting", "switch"])
@pytest.mark.parametrize("method", _SHA2)
@pytest.mark.parametrize("mode", ["PREFERRED", "DISABLED"])
def test_no_key_of_the_peer_without_tls(method: str, way: str, mode: str, tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric import rsa

    with (
        hostile(**by(method, way)) as (server, url),
        pytest.raises(AuthenticationError, match="get_server_public_key=true"),
    ):
        connect(url, ssl_mode=mode)
    assert not server.got_password()

    with hostile(**by(method, way)) as (server, url):
        connect(url, ssl_mode=mode, get_server_public_key=True)
    assert server.got_password()

    other = rsa.generate_private_key(65537, 2048).public_key()
    (tmp_path / "other.pem").write_bytes(
        other.public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo)
    )
    (tmp_path / "own.pem").write_bytes(public_key())
    for name, reads in (("other.pem", False), ("own.pem", True)):
        with hostile(**by(method, way)) as (server, url):
            connect(url, ssl_mode=mode, server_public_key=tmp_path / name)
        assert server.got_password() == reads


@pytest.mark.parametrize("method", ["mysql_old_password", "authentication_ldap_sasl_client", "x", "\x1b[31m"])
def test_methods_that_are_not_known_get_nothing(method: str) -> None:
    with hostile(switch=method) as (server, url), pytest.raises(AuthenticationError, match="not known"):
        connect(url, cleartext=True)
    assert len(server.received) == 1


@pytest.mark.parametrize("compression", ["none", "zstd"])
@pytest.mark.parametrize("mode", ["REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY"])
def test_where_tls_is_stripped_nothing_is_sent(mode: str, compression: str) -> None:
    with hostile(switch="mysql_clear_password") as (server, url):
        with pytest.raises(ServerError) as refused:
            connect(url, ssl_mode=mode, compression=compression)
        if compression == "none":
            assert isinstance(refused.value, AuthenticationError)
            assert mode in str(refused.value)
    assert server.received == []


@pytest.mark.parametrize("mode", [None, "PREFERRED", "REQUIRED"])
def test_a_ca_is_used_whatever_the_mode(mode: str | None, tls: tuple[ssl.SSLContext, str]) -> None:
    context, ca = tls
    with hostile(tls=context) as (_, url):
        connect(url, ssl_ca=ca, ssl_mode=mode)
    with hostile(tls=context) as (server, url):
        with pytest.raises(AuthenticationError, match="ssl_mode is VERIFY_CA"):
            connect(url, ssl_ca=_other_ca(Path(ca).parent), ssl_mode=mode)
        assert len(server.received) == 1  # the request for TLS, which has no user in it
    with hostile() as (server, url), pytest.raises(AuthenticationError, match="does not support TLS"):
        connect(url, ssl_ca=ca, ssl_mode=mode)
    assert server.received == []


def _other_ca(folder: Path) -> str:
    """A certificate that did not sign the server's."""
    from support import hostile_server

    (folder / "other").mkdir(exist_ok=True)
    hostile_server._key.cache_clear()
    return certified(folder / "other")[1]


def test_each_of_several_hosts_obeys_the_same_rules() -> None:
    with hostile(switch="dialog") as (first, one), hostile(switch="dialog") as (second, two):
        url = f"{one},{two.rpartition('@')[2]}"
        with pytest.raises(AuthenticationError, match="cleartext=true"):
            connect(url)
        with pytest.raises(AuthenticationError, match="cleartext=true"):
            connect(f"mysql://me:geheim@127.0.0.1:1,{two.rpartition('@')[2]}")
    assert not first.got_password()
    assert not second.got_password()
    assert second.received


def test_a_local_file_is_not_given() -> None:
    with (
        hostile(answers={"SELECT": b"\xfb/etc/passwd"}) as (server, url),
        Connection(Address.of(url)) as connection,
        pytest.raises(ProtocolError),
    ):
        connection.query("SELECT 1")
    assert not any(b"root:" in one for one in server.received)


def test_a_pymysql_that_would_use_any_key_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pymysql.VERSION", (1, 2, 0, "final"))
    with (
        hostile(plugin="caching_sha2_password") as (server, url),
        pytest.raises(MissingExtraError, match=r"PyMySQL 1\.2\.1"),
    ):
        connect(url)
    assert server.received == []


@pytest.mark.parametrize("mode", ["PREFERRED", "REQUIRED"])
def test_the_machines_certificates_are_read_only_to_verify(
    mode: str, tls: tuple[ssl.SSLContext, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading them takes 0.1 s of each connection."""

    def read(*_: object) -> None:
        raise AssertionError("the certificates are read")

    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", read)
    with hostile(tls=tls[0]) as (server, url):
        connect(url, ssl_mode=mode)
    assert len(server.received[0]) == 32  # the request for TLS


_SWITCH = b"\xfemysql_native_password\0" + SALT + b"\0"


@pytest.mark.parametrize(
    "said",
    [
        [OK],
        [b""],
        [b"\0"],
        [b"\x0a"],
        [GREETING[:20]],
        [GREETING.replace(b"mysql_native_password", b"\xff\x1b[2J")],
        [GREETING, _SWITCH, _SWITCH],
        [GREETING, _SWITCH, b"\xfemysql_clear_password\0"],
        [GREETING, b"\xfecaching_sha2_password\0", b"\1\4"],
        [GREETING, b"\xfecaching_sha2_password\0" + SALT, b"\1"],
        [GREETING, b"\xfesha256_password\0" + SALT],
        [GREETING, b"\xfe"],
        [GREETING, b"\xfe\0" + SALT],
        [GREETING, b"\1" + b"x" * 70_000],
        [GREETING, b"\xfb/etc/passwd"],
        [GREETING, GREETING],
    ],
    ids=[
        *("OK", "nothing", "0", "10", "half a greeting", "an unknown method"),
        *("two switches", "two switches, the last to clear text", "no salt", "no reason", "a key is needed"),
        *("the old switch", "no method", "much more data", "a file", "a greeting again"),
    ],
)
def test_a_login_that_no_server_asks_for_gets_no_password(said: list[bytes]) -> None:
    server, packets = HostileServer(), iter(said)
    world = Direct(server, Random(1), lambda _: next(packets, OK))
    with pytest.raises((ProtocolError, AuthenticationError, UnreachableError)) as refused:
        connect("mysql://me:geheim@db1", ssl_mode="DISABLED", world=world)
    assert str(refused.value).isprintable()
    assert next(packets, None) is None  # it came to the last of them
    assert not server.got_password()


def test_salt_longer_than_any_gives_a_scramble() -> None:
    server = HostileServer()
    packets = iter([GREETING, b"\xfemysql_native_password\0" + b"x" * 60_000 + b"\0"])
    world = Direct(server, Random(1), lambda _: next(packets, OK))
    connect("mysql://me:geheim@db1", ssl_mode="DISABLED", world=world)
    assert len(server.received[1]) == 20 and not server.got_password()


def test_a_password_of_any_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The vendors' clients send what MYSQL_PWD has; the scramble is SHA1(p) ^ SHA1(salt + SHA1(SHA1(p)))."""
    monkeypatch.setitem(os.environb, b"MYSQL_PWD", b"geh\xffeim")
    server = HostileServer(switch="mysql_native_password")
    connect("mysql://me@db1", ssl_mode="DISABLED", world=Direct(server, Random(1)))
    one = sha1(b"geh\xffeim").digest()
    mask = sha1(SALT + sha1(one).digest()).digest()
    assert server.received[1] == bytes(a ^ b for a, b in zip(one, mask, strict=True))
    with pytest.raises(ValueError, match="password: expected Unicode") as refused:
        Address.of("mysql://me@db1", {"password": "geh\ud800eim"})
    assert "d800" not in str(refused.value)
