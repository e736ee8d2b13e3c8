"""An object store of the world: it answers late, fails, does what it said had failed, and lists slowly."""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Callable
from random import Random
from typing import Any, TypeVar

import fsspec
from fsspec.spec import AbstractFileSystem

from .disk import Disk
from .server import EPOCH
from .world import SimulatedWorld

URL = "world://store/archive"
_PAGE = 3  # names that a list gets at once
T = TypeVar("T")


class Objects:
    """What a store holds.

    Parameters
    ----------
    world : SimulatedWorld
    seed : int
    rate : float
        How many requests fail, of those before `sound_from`.
    sound_from : float
        Seconds after the world's beginning.

    Attributes
    ----------
    held : dict
        Each object's bytes, and when it was written, by its path.
    stirred : bool
        Whether the archive is about to change; who looks at it unsets it.
    """

    def __init__(self, world: SimulatedWorld, seed: int, *, rate: float, sound_from: float) -> None:
        self.world = world
        self.held: dict[str, tuple[bytes, float]] = {}
        self.stirred = False
        self._chance = Random(f"objects {seed}")
        self._rate = rate
        self._sound_from = sound_from

    def options(self, disk: Disk | None = None) -> dict[str, Any]:
        """How a process reaches the store: one whose disk has died asks no more; None: no request fails."""
        return {"objects": self, "disk": disk}

    def asked(self, disk: Disk | None, work: Callable[[], T], requests: int = 1) -> T:
        """What a request gives; it is done at some moment between question and answer.

        One of several that stand for one fails so much more rarely.
        """
        chance, world = self._chance, self.world
        rate = self._rate / requests
        fails = disk is not None and world.now() < self._sound_from and chance.random() < rate
        fate = chance.choice(("refused", "answered wrongly", "late")) if fails else ""
        if disk is not None:
            disk.step()
        pauses = [chance.choice((0.0, 0.0, 0.001, 0.05, 0.4)) for _ in range(2)]
        if fate == "late":
            pauses[chance.randrange(2)] += chance.choice((3.0, 20.0))
        world.let(_never, pauses[0])
        if disk is not None and not disk.alive and chance.random() < 0.5:
            disk.step()  # its request never came; in other cases it was on its way
        if fate == "refused":
            raise OSError("503 Slow Down")
        answer = work()
        world.let(_never, pauses[1])
        if disk is not None and not disk.alive:
            disk.step()
        if fate == "answered wrongly":
            raise OSError("500 Internal Error")
        return answer

    def listed(self, disk: Disk | None, folder: str) -> list[str]:
        """Paths below a folder, page by page, each as it is when its turn comes."""
        begin, found = folder.rstrip("/") + "/", list[str]()
        # A real page has a thousand names: a list is one request there, and fails no more often than others.
        requests = 1 + sum(one.startswith(begin) for one in self.held) // _PAGE

        def page() -> list[str]:
            after = found[-1] if found else ""
            return sorted(one for one in self.held if one.startswith(begin) and one > after)[:_PAGE]

        while True:
            found += (more := self.asked(disk, page, requests))
            if len(more) < _PAGE:
                return found


class WorldStore(AbstractFileSystem):  # type: ignore[misc]
    """How a library sees it."""

    protocol, cachable = "world", False

    def __init__(self, objects: Objects, disk: Disk | None, **_: Any) -> None:
        super().__init__()
        self._objects, self._disk = objects, disk

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """What is at a path."""
        objects = self._objects

        def found() -> dict[str, Any]:
            if path in objects.held:
                return {"name": path, "type": "file", "size": len(objects.held[path][0])}
            if any(one.startswith(path.rstrip("/") + "/") for one in objects.held):
                return {"name": path, "type": "directory", "size": 0}
            raise FileNotFoundError(path)

        return objects.asked(self._disk, found)

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        """The objects of a folder, and the folders in it."""
        begin, files, folders = path.rstrip("/") + "/", [], dict[str, None]()
        for one in self._objects.listed(self._disk, path):
            name, slash, _rest = one[len(begin) :].partition("/")
            if slash:
                folders[begin + name] = None
            else:
                files.append(one)
        found = [{"name": one, "type": "file"} for one in files]
        found += [{"name": one, "type": "directory"} for one in folders]
        return found if detail else [one["name"] for one in found]

    def modified(self, path: str) -> dt.datetime:
        """When an object was written."""
        written = self._objects.asked(self._disk, lambda: self._held(path)[1])
        return dt.datetime.fromtimestamp(EPOCH + written, dt.UTC)

    def rm_file(self, path: str) -> None:
        """Remove an object; a store says nothing if it is not there."""
        self._stir(path)
        self._objects.asked(self._disk, lambda: self._objects.held.pop(path, None))

    def open(self, path: str, mode: str = "rb", **_: Any) -> Any:
        """An object to read, or one that is there when it is closed."""
        if mode == "wb":
            return _Writer(self, path)
        size = self.info(path)["size"]
        if path not in self._objects.held:
            raise FileNotFoundError(path)
        return _Reader(self, path, size)

    def put(self, path: str, data: bytes) -> None:
        """Write an object."""
        if "/.tail-" not in path:  # most are the growing log's: looking at each leaves no looks for the rest
            self._stir(path)
        objects = self._objects
        objects.asked(self._disk, lambda: objects.held.__setitem__(path, (data, objects.world.now())))

    def get(self, path: str, begin: int, end: int) -> bytes:
        """A range of an object."""
        return self._objects.asked(self._disk, lambda: self._held(path)[0][begin:end])

    def _stir(self, path: str) -> None:
        self._objects.stirred |= "/archiver/" not in path  # which are claims

    def _held(self, path: str) -> tuple[bytes, float]:
        if path not in self._objects.held:
            raise FileNotFoundError(path)
        return self._objects.held[path]


class _Writer(io.BytesIO):
    def __init__(self, store: WorldStore, path: str) -> None:
        super().__init__()
        self._store, self._path = store, path

    def close(self) -> None:
        if not self.closed:
            data = self.getvalue()
            super().close()
            self._store.put(self._path, data)


class _Reader:
    def __init__(self, store: WorldStore, path: str, size: int) -> None:
        self._store, self._path, self.size, self._at = store, path, size, 0

    def read(self, size: int = -1) -> bytes:
        end = self.size if size < 0 else min(self.size, self._at + size)
        data = self._store.get(self._path, self._at, end) if end > self._at else b""
        self._at += len(data)
        return data

    def seek(self, position: int, whence: int = 0) -> int:
        assert whence == 0
        self._at = position
        return position

    def tell(self) -> int:
        return self._at

    def close(self) -> None:
        """Nothing is left open."""


def _never() -> bool:
    return False


fsspec.register_implementation("world", WorldStore, clobber=True)
