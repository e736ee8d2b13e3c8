"""Archives in object stores, for tests of what is kept in them."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import binlog_core
from binlog_core._sources.places import place_of
from binlog_core.archive.archiver import Archiver
from binlog_core.archive.keeper import Keeper
from binlog_core.archive.store import Store, Uploader

from .archive import FakeServer


def archive(
    server: FakeServer, target: tuple[str, dict[str, Any] | None], spool: Path, **settings: Any
) -> Archiver:
    """Archive a server's logs into a store; return the archiver after it has run."""
    keep = {key: settings.pop(key) for key in ("compress", "keep") if key in settings}
    store = Store(*target, patience=settings.pop("patience", 1.0), stop=threading.Event())
    uploader = Uploader(store, str(spool), settings.pop("interval", 0.05))
    settings.setdefault("connect", server.connect)
    settings.setdefault("until_now", True)
    archiver = Archiver(folder=str(spool), keeper=Keeper(**keep), uploader=uploader, **settings)
    archiver.run()
    return archiver


def held(target: tuple[str, dict[str, Any] | None], folder: str = "") -> dict[str, bytes]:
    """The objects in a folder of a store."""
    place = place_of(*target)
    found = {}
    for path in sorted(place.files(f"{target[0]}/{folder}") or ()):
        name = path.rpartition("/")[2]
        with place.open(path, None) as source:
            found[name] = b"".join(iter(lambda: source.read(1 << 20), b""))
    return found


def logs_in(target: tuple[str, dict[str, Any] | None], folder: str = "") -> dict[str, bytes]:
    """The logs among them; the growing one is joined from its parts."""
    logs, parts = {}, []
    for name, data in held(target, folder).items():
        if name.startswith(".tail-"):
            log, _, numbers = name.removeprefix(".tail-").rpartition(".")
            begin, end = map(int, numbers.split("-"))
            assert end - begin == len(data)
            parts.append((begin, log, data))
        elif "json" not in name:
            logs[name] = data
    growing: dict[str, bytes] = {}
    for begin, log, data in sorted(parts):
        so_far = growing.get(log, b"")
        assert data.startswith(so_far[begin:])
        growing[log] = so_far[:begin] + data if begin <= len(so_far) else so_far
    return {**growing, **logs}


def ids(target: tuple[str, dict[str, Any] | None], **options: Any) -> list[int]:
    """The keys of the rows of an archive in a store, in order."""
    with binlog_core.open(target[0], storage_options=target[1], **options) as log:
        return [change.after["id"] for change in log.rows()]
