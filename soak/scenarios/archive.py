"""Archives and indexes."""

from __future__ import annotations

import io
import os
import shutil
from copy import deepcopy
from pathlib import Path
from typing import Any

from fsspec import register_implementation
from fsspec.implementations.local import LocalFileSystem
from support import archive_store
from support.archive import FakeServer, archive, busy, ids

import binlog_core
from scenarios.scenario import Scenario, Wrong, expect, hidden, logs_into


class Archive(Scenario):
    """A server's logs, compressed, with an index."""

    def __init__(self, compress: bool) -> None:
        self._compress = compress
        self._before = busy(FakeServer("8.0.36"), 4)
        self._server = deepcopy(self._before)
        self._server.transaction()
        for _ in range(2):
            self._server.rotate()
            busy(self._server, 3)

    def _run(self, server: FakeServer, root: Path) -> None:
        archive(server, root / "archive", most=4, compress=self._compress, index=self._compress)

    def prepare(self, root: Path) -> None:
        (root / "archive").mkdir()
        self._run(self._before, root)

    def work(self, root: Path) -> None:
        self._run(self._server, root)

    def _logs(self, root: Path) -> dict[str, bytes]:
        import zstandard

        found = {}
        for path in sorted((root / "archive").iterdir()):
            name = path.name.removesuffix(".zst")
            if not name.startswith(".") and name.rpartition(".")[2].isdigit():
                data = path.read_bytes()
                unpacked = data if path.name == name else zstandard.decompress(data, 1 << 24)
                expect(found.get(name, unpacked), unpacked, name)
                found[name] = unpacked
        return found

    def look(self, root: Path) -> None:
        for name, data in self._logs(root).items():
            if not plain(self._server.bytes_of(name)).startswith(plain(data)):
                raise Wrong(f"{name} is not the server's")
        found = ids(root / "archive") if self._logs(root) else []
        expect(found, list(range(1, len(found) + 1)), "rows")

    def check(self, root: Path) -> None:
        logs = {name: self._server.bytes_of(name) for name in self._server.logs}
        expect(self._logs(root), logs, "logs")
        names = {path.name for path in (root / "archive").iterdir()}
        finished = [f"{name}.zst" if self._compress else name for name in list(logs)[:-1]]
        own = (
            {".lock", "timeline.json", "binlog-core-index"} if self._compress else {".lock", "timeline.json"}
        )
        expect(names - own, {*finished, list(logs)[-1]}, "files")
        expect(ids(root / "archive"), list(range(1, self._server.next_id)), "rows")
        if self._compress:
            indexed(root / "archive", finished)


class Objects(LocalFileSystem):
    """A directory whose files appear complete, like objects in a store."""

    protocol = "objects"

    def _open(self, path: str, mode: str = "rb", **_: Any) -> Any:
        return self.Object(path) if mode == "wb" else super()._open(path, mode)

    class Object(io.BytesIO):
        def __init__(self, path: str) -> None:
            super().__init__()
            self._path = path

        def close(self) -> None:
            if not self.closed:
                os.makedirs(os.path.dirname(self._path), exist_ok=True)
                unfinished = os.path.join(self._path.partition("/store/")[0], "unfinished")
                with open(unfinished, "wb") as file:
                    file.write(self.getvalue())
                os.replace(unfinished, self._path)
            super().close()


register_implementation(Objects.protocol, Objects)


class Stored(Scenario):
    """A server's logs in a store; the growing one is in parts."""

    kinds = ("ENOSPC", "EIO", "EINTR", "kill")  # uploads run in a thread, which Ctrl-C does not reach

    def __init__(self) -> None:
        self._before = busy(FakeServer("8.0.36"), 4)
        self._server = deepcopy(self._before)
        self._server.transaction()
        self._server.rotate()
        busy(self._server, 3)

    def _target(self, root: Path) -> tuple[str, dict[str, Any] | None]:
        return f"objects://{root}/store", None

    def _run(self, server: FakeServer, root: Path) -> None:
        archive_store.archive(server, self._target(root), root / "spool", patience=0.01)

    def prepare(self, root: Path) -> None:
        (root / "spool").mkdir()
        self._run(self._before, root)

    def work(self, root: Path) -> None:
        self._run(self._server, root)

    def pause(self, root: Path) -> None:
        shutil.rmtree(root / "store" / "archiver", ignore_errors=True)  # a claim ends after a minute

    def look(self, root: Path) -> None:
        for name, data in archive_store.logs_in(self._target(root)).items():
            if not plain(self._server.bytes_of(name)).startswith(plain(data)):
                raise Wrong(f"{name} is not the server's")
        found = archive_store.ids(self._target(root))
        expect(found, list(range(1, len(found) + 1)), "rows")

    def check(self, root: Path) -> None:
        logs = {name: self._server.bytes_of(name) for name in self._server.logs}
        expect(archive_store.logs_in(self._target(root)), logs, "logs")
        expect(archive_store.ids(self._target(root)), list(range(1, self._server.next_id)), "rows")


def plain(data: bytes) -> bytes:
    """A log as closed."""
    return data[:21] + bytes([data[21] & ~1]) + data[22:] if len(data) > 21 else data


class Index(Scenario):
    """Bring an index up to date."""

    def prepare(self, root: Path) -> None:
        from binlog_core.index.making import index

        logs_into(root / "logs", (1, 2))
        index(root / "logs")
        logs_into(root / "logs", (3,))

    def work(self, root: Path) -> None:
        from binlog_core.index.making import index

        index(root / "logs")

    def look(self, root: Path) -> None:
        with binlog_core.open(root / "logs", where="id = 322") as log:
            expect([change.after["id"] for change in log.rows("shop.t")], [322], "rows")

    def check(self, root: Path) -> None:
        self.look(root)
        indexed(root / "logs", [f"bin.{n:06}" for n in (1, 2, 3)])
        expect(hidden(root), [], "left over")


def indexed(folder: Path, logs: list[str]) -> None:
    from binlog_core.index.files import NAME, opened

    index = opened(str(folder / NAME), None)
    expect(index and sorted(entry.log for entry in index.entries), logs, "index")
    if index is not None:
        index.close()
