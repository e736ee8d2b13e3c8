"""Which archiver keeps a store: one at a time, whether or not the store can compare before it writes."""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import re
import socket
from collections.abc import Callable
from typing import Any, BinaryIO, Protocol

from .._base.redaction import shown_url
from ..errors import ArchiveError, BinlogError
from ..server.world import REAL, World

_FOLDER = "archiver"
_NAME = re.compile(r"(?P<number>[0-9]{1,18})-.+\.json")
_LEN = 1024
_LONGEST = 64 << 10
_TRIES = 8
_LONGEST_WATCH = 3600.0  # seconds; others may have written what a claim says
_LONGEST_PAUSE = 1.0  # seconds between two tries of archivers that started together


class ClaimedStore(Protocol):
    """What a claim needs from a store."""

    url: str

    def names(self, folder: str = "") -> list[str]:
        """Names of the objects in a folder."""

    def read_small(self, name: str, limit: int) -> bytes | None:
        """The first bytes of an object; None: there is none."""

    def write(self, name: str, source: BinaryIO, size: int, begin: int = 0) -> None:
        """Create an object from `size` bytes of a file, from `begin` on."""

    def remove(self, name: str) -> None:
        """Remove an object."""

    def wait(self, seconds: float) -> None:
        """Wait, unless the archiver is to stop."""


class Claim:
    """One archiver's claim to a store.

    Each archiver writes its own object (``archiver/NUMBER-ID.json``) and never another's, so that no claim is
    lost, however long an archiver was suspended. An archiver that takes over from a dead one takes a higher
    number. A new archiver writes first and then checks: if two start at once, at least one sees the other,
    and withdraws. The store must list new objects immediately, as those of Amazon, Google and Microsoft do.

    Parameters
    ----------
    store : ClaimedStore
    valid : float
        Seconds after which a claim that was not renewed counts as that of a dead archiver.
    world : World
        Its clock, and chance.
    """

    def __init__(self, store: ClaimedStore, valid: float, world: World = REAL) -> None:
        self._store = store
        self._valid = valid
        self._world = world
        self._id = f"{world.random.getrandbits(64):016x}"
        self._name = ""

    def begin(self) -> None:
        """Claim the store.

        Raises
        ------
        ArchiveError
            Another archiver keeps it.
        """
        for _ in range(_TRIES):
            before = self._names()
            for name in before:
                told = self._read(name)
                if told is not None and self._is_live(name, told):
                    raise self._error(
                        f"another archiver keeps this archive ({_who(told)}): stop it, or wait for"
                        f" {told['valid']:.0f} s if it is dead"
                    )
            number = 1 + max(map(_number, before), default=0)
            self._name = f"{number:06}-{self._id}.json"
            self.renew()
            others = [name for name in self._names() if name != self._name]
            if all(name in before for name in others):
                for name in others:
                    self._remove(name)
                return
            self.end()
            self._store.wait(self._world.random.uniform(0, _LONGEST_PAUSE))
        raise self._error("another archiver is starting at the same time: start this one again")

    def _is_live(self, name: str, told: dict[str, Any]) -> bool:
        """Whether the archiver of a claim still keeps the store, as far as that is known."""
        valid, ahead = told["valid"], told["updated"] - self._world.time()
        if ahead <= valid or valid > _LONGEST_WATCH:
            return bool(-ahead < valid)
        # Its clock is ahead of this one, or this one was set back: does anybody renew it?
        began = self._world.now()
        self._store.wait(valid)
        again = self._read(name)
        renewed = again is not None and again["updated"] != told["updated"]
        return renewed or bool(self._world.now() - began < valid)  # the waiting was cut short

    def renew(self) -> None:
        """Renew the claim."""
        told = {
            "process": os.getpid(),
            "host": socket.gethostname(),
            "updated": self._world.time(),
            "valid": self._valid,
        }
        # Always of the same length: a reader that knows the old length reads all of a rewritten one.
        data = json.dumps(told).encode().ljust(_LEN)
        self._store.write(f"{_FOLDER}/{self._name}", io.BytesIO(data), len(data))

    def check(self) -> None:
        """Refuse to write if another archiver has taken over, after this one was suspended too long.

        Raises
        ------
        ArchiveError
        """
        names = self._names()
        if self._name in names and _number(names[-1]) <= _number(self._name):
            return
        told = self._read(names[-1]) if names and names[-1] != self._name else None
        who = f" ({_who(told)})" if told is not None else ""
        raise self._error(f"another archiver has taken over this archive{who}")

    def end(self) -> None:
        """Give up the claim, so that another archiver can have the store."""
        self._remove(self._name)

    def _names(self) -> list[str]:
        """All claims, by number."""
        names = [name for name in self._store.names(_FOLDER) if _NAME.fullmatch(name)]
        return sorted(names, key=lambda name: (_number(name), name))

    def _read(self, name: str) -> dict[str, Any] | None:
        """The contents of a claim; None: it is gone, or is not a claim.

        Raises
        ------
        ArchiveError
            The claim cannot be read.
        """
        try:
            told = json.loads(self._store.read_small(f"{_FOLDER}/{name}", _LONGEST) or b"")
            claim = {key: kind(told[key]) for key, kind in _TOLD.items()}
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return None
        return claim if math.isfinite(claim["updated"]) and math.isfinite(claim["valid"]) else None

    def _remove(self, name: str) -> None:
        with contextlib.suppress(BinlogError):  # it ends by itself
            self._store.remove(f"{_FOLDER}/{name}")

    def _error(self, message: str) -> ArchiveError:
        return ArchiveError(message, path=shown_url(self._store.url))


def _number(name: str) -> int:
    found = _NAME.fullmatch(name)
    return int(found["number"]) if found else 0


def _shown(text: Any) -> str:
    """The owner in a claim, which others may have written, as part of a message."""
    return re.sub(r"[^ -~]", "?", str(text)[:255])


_TOLD: dict[str, Callable[[Any], Any]] = {
    "process": _shown,
    "host": _shown,
    "updated": float,
    "valid": float,
}


def _who(told: dict[str, Any]) -> str:
    return f"process {told['process']} on {told['host']}"
