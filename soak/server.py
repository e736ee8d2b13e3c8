"""A separate MariaDB server, for as long as a command runs:

    python soak/server.py COMMAND [ARGUMENTS…]

The command finds it by the URL in BINLOG_CORE_TEST_SERVER. If the machine has no server, the command still
runs, without that variable, and whatever needs it says so. Needs only Python and the machine's mariadbd
(Debian, Ubuntu: mariadb-server-core); listens only on the loopback interface.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

OPTIONS = [
    "--log-bin=bin",
    "--binlog-format=ROW",
    "--server-id=1",
    "--max-binlog-size=1048576",
    "--binlog-row-metadata=FULL",
    "--sync-binlog=0",
    "--innodb-flush-log-at-trx-commit=0",
    "--bind-address=127.0.0.1",
]
_PATIENCE = 60  # seconds until it answers
_PLACES = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"))


@dataclass(frozen=True)
class Server:
    """A server that runs.

    Parameters
    ----------
    port : int
        On 127.0.0.1; root has no password.
    logs : str
        The index file of its binary logs.
    """

    port: int
    logs: str

    @property
    def url(self) -> str:
        """The URL for BINLOG_CORE_TEST_SERVER."""
        return f"mysql://root@127.0.0.1:{self.port}"


@contextmanager
def port_of(given: int | None) -> Iterator[int]:
    """The port of a running server: the given one, or that of a server started here.

    Raises
    ------
    SystemExit
        The machine has no server.
    """
    if given:
        yield given
        return
    with server() as running:
        if running is None:
            print("no MariaDB server here (mariadb-server-core)")
            sys.exit(2)
        yield running.port


@contextmanager
def server() -> Iterator[Server | None]:
    """Start a server in a temporary folder, and stop it at the end; None if the machine has none."""
    program = shutil.which("mariadbd", path=_PLACES)
    install = shutil.which("mariadb-install-db", path=_PLACES)
    if program is None or install is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="server") as name:
        folder = Path(name)
        data = folder / "data"
        user = ["--user=root"] if os.geteuid() == 0 else []  # it would refuse
        # Two servers that are made at the same time must not collide in /tmp.
        common = ["--no-defaults", f"--datadir={data}", f"--tmpdir={folder}", *user]
        subprocess.run(
            [install, *common, "--auth-root-authentication-method=normal", "--skip-test-db"],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        with (folder / "log").open("wb") as log:
            places = [f"--port={port}", f"--socket={folder / 's'}"]
            running = subprocess.Popen([program, *common, *places, *OPTIONS], stderr=log)
        try:
            if not _answers(running, port):
                sys.exit(
                    "the server does not come up: " + (folder / "log").read_text(errors="replace")[-2000:]
                )
            yield Server(port, str(data / "bin.index"))
        finally:
            running.terminate()
            try:
                running.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                running.kill()
                running.wait()


def _answers(running: subprocess.Popen[bytes], port: int) -> bool:
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end and running.poll() is None:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
                if connection.recv(5):  # its greeting
                    return True
        except OSError:  # not up yet
            pass
        time.sleep(0.1)
    return False


def main() -> int:
    with server() as running:
        environment = dict(os.environ)
        if running is None:
            print("no MariaDB server here (mariadb-server-core): tests that need one are skipped", flush=True)
        else:
            environment["BINLOG_CORE_TEST_SERVER"] = running.url
        return subprocess.run(sys.argv[1:], env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
