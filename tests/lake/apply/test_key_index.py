"""The key index of a table: rounds that use it leave the rows that a simple model has, whatever happens."""

from __future__ import annotations

import datetime as dt
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
deltalake = pytest.importorskip("deltalake")

from binlog_core.lake.apply import key_index, key_runs, rewriting  # noqa: E402
from binlog_core.lake.apply.batch import apply_images  # noqa: E402
from binlog_core.lake.apply.file_target import FileTarget  # noqa: E402
from binlog_core.lake.apply.jobs import Folder  # noqa: E402
from binlog_core.lake.apply.key_index import KeyIndex  # noqa: E402
from binlog_core.lake.runner import HERE  # noqa: E402
from binlog_core.lake.tables.delta import DeltaLakeTable  # noqa: E402
from binlog_core.mirror import joining  # noqa: E402

Key = tuple[Any, ...]
# Types of keys, and a key for each number.
KEYS: dict[str, tuple[dict[str, Any], Callable[[int], Key]]] = {
    "number": ({"id": pa.int64()}, lambda n: (n * 7 - 500,)),
    "text": ({"id": pa.string()}, lambda n: (f"{'aü𠮷'[n % 3]}{n * 7919 % 1009}",)),
    "bytes": ({"id": pa.binary()}, lambda n: ((n * 7919 % 65_537).to_bytes(4, "little"),)),
    "decimal": ({"id": pa.decimal128(20, 0)}, lambda n: (Decimal(n << 50),)),
    "two": ({"a": pa.int32(), "b": pa.int64()}, lambda n: (n % 5, n // 5)),
    "four": (
        {"a": pa.int32(), "b": pa.string(), "c": pa.int8(), "d": pa.date32()},
        lambda n: (n % 5, str(n % 7), n % 100, None),
    ),
}


class Killed(BaseException):
    """The process is killed."""


class Model:
    """A table that is changed at random: batches of changes, and what it then has."""

    def __init__(self, kind: str, seed: int) -> None:
        self.types, make = KEYS[kind]
        self.names, self.chance, self.version = tuple(self.types), random.Random(f"{kind} {seed}"), 0
        day = dt.date(2020, 1, 1)
        self._key = lambda n: tuple(day + dt.timedelta(n) if one is None else one for one in make(n))
        self.rows: dict[Key, int] = {}

    def batch(self, count: int, *, filled: bool = False) -> pa.Table:
        out: list[tuple[str, Key, int, int]] = []
        for _ in range(count):
            self.version += 1
            key, value = self._key(self.chance.randrange(400)), self.chance.randrange(1000)
            if key not in self.rows:
                self.rows[key] = value
                out.append(("insert", key, value, 0))
                continue
            if filled:
                continue
            before = self.rows.pop(key)
            kind = self.chance.random()
            if kind < 0.3:
                out.append(("delete", key, before, 0))
                continue
            other = self._key(self.chance.randrange(400)) if kind < 0.5 else key
            other = key if other in self.rows else other
            self.rows[other] = value
            out += [("update_preimage", key, before, 0), ("update_postimage", other, value, 1)]
        columns = [[key[i] for _, key, _, _ in out] for i in range(len(self.names))]
        versions, now = [], self.version * 2
        for _, _, _, ordinal in out:
            now += ordinal == 0
            versions.append(now)
        self.version += count
        return pa.table(
            [
                *(pa.array(one, self.types[name]) for name, one in zip(self.names, columns, strict=True)),
                pa.array([value for _, _, value, _ in out], pa.int32()),
                pa.array([kind for kind, _, _, _ in out], pa.string()),
                pa.array(versions, pa.int64()),
                pa.array([ordinal for _, _, _, ordinal in out], pa.int64()),
            ],
            names=[*self.names, "v", "_change_type", "_commit_version", "_change_ordinal"],
        )


class Lake:
    """A table of a model, with its key index, and perhaps one that is written the other way."""

    def __init__(self, folder: Path, model: Model, *, both: bool = True) -> None:
        self.folder, self.model, self.both = folder, model, both
        self.path, self.copy, self.keys = folder / "t", folder / "copy", folder / "_mirror" / "keys" / "t"
        self.index = KeyIndex(str(self.keys), str(folder), b"id of the mirror")
        folder.mkdir(exist_ok=True)

    def apply(self, batch: pa.Table, *, copied: bool = True) -> None:
        names = self.model.names
        apply_images(batch, target(self.path, self.index), names, primary_key=names, same_key=True)
        if copied:
            self.apply_to_copy(batch)

    def apply_to_copy(self, batch: pa.Table) -> None:
        if self.both:
            names = self.model.names
            other = FileTarget(DeltaLakeTable(str(self.copy)), Folder(str(self.copy), delta=True))
            apply_images(batch, other, names, primary_key=names, same_key=True)

    def rows(self, path: Path) -> list[tuple[Any, ...]]:
        found = pa.table(deltalake.DeltaTable(str(path)).scan().read_all()).to_pylist()
        return sorted(tuple(one.values()) for one in found)

    def check(self) -> None:
        expected = sorted((*key, value) for key, value in self.model.rows.items())
        assert self.rows(self.path) == expected
        assert not self.both or self.rows(self.copy) == expected

    def runs(self) -> list[Path]:
        return sorted(self.keys.glob("*.keys"))


def target(path: Path, index: KeyIndex | None) -> FileTarget:
    return FileTarget(DeltaLakeTable(str(path)), Folder(str(path), delta=True), vectors=True, index=index)


@pytest.fixture(autouse=True)
def little_is_a_lot(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name, value in (
        (key_index, "_WORTH", 5),
        (key_index, "_ROWS_A_KEY", 1),
        (key_index, "_SPILLED", 60),
        (key_index, "_READ_ROWS", 17),
        (key_runs, "_GATHERED", 3),
        (key_runs, "_LEAST_TAKEN", 10),
        (key_runs, "_MERGED", 20),
        (joining, "_MOST_SMALL", 4),
    ):
        monkeypatch.setattr(module, name, value)


@contextmanager
def killed_after(steps: int) -> Iterator[None]:
    """Kill the process at something that an index does to its files, also while it writes one."""
    left = steps

    def step() -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise Killed

    class File:
        def __init__(self, file: Any) -> None:
            self._file = file

        def write(self, data: bytes) -> None:
            if left == 0:
                self._file.write(data[: len(data) // 2])
                self._file.flush()
            step()
            self._file.write(data)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._file, name)

        def __enter__(self) -> File:
            return self

        def __exit__(self, *_: object) -> None:
            self._file.close()

    def stepping(call: Any, wrap: Any = lambda one: one) -> Any:
        def called(*arguments: Any) -> Any:
            step()
            return wrap(call(*arguments))

        return called

    with pytest.MonkeyPatch.context() as patch:
        for name in ("remove", "rename", "make_folder"):
            patch.setattr(key_index, name, stepping(getattr(key_index, name)))
        patch.setattr(key_runs, "create", stepping(key_runs.create, File))
        yield


def disturb(lake: Lake, kept: list[Path], chance: random.Random) -> None:
    """What may happen between two rounds."""
    kind, runs = chance.randrange(9), lake.runs()
    if kind == 0:
        shutil.rmtree(lake.keys, ignore_errors=True)
    elif kind == 1 and lake.keys.exists():
        kept.append(lake.folder / f"old {len(kept)}")
        shutil.copytree(lake.keys, kept[-1], dirs_exist_ok=True)
    elif kind == 2 and kept:  # an old one, in place of the index or beside it
        if chance.random() < 0.5:
            shutil.rmtree(lake.keys, ignore_errors=True)
        shutil.copytree(chance.choice(kept), lake.keys, dirs_exist_ok=True)
    elif kind == 3 and runs:
        path = chance.choice(runs)
        data = bytearray(path.read_bytes())
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        path.write_bytes(data[: chance.choice((len(data), len(data), chance.randrange(len(data))))])
    elif kind == 4:
        joining.compact(HERE, DeltaLakeTable(str(lake.path)), Folder(str(lake.path), delta=True))
    elif kind == 5:  # another writer
        deltalake.DeltaTable(str(lake.path)).optimize.compact()
    elif kind == 6 and runs:
        chance.choice(runs).unlink()
    elif kind == 7 and len(lake.model.rows) > 100 and chance.random() < 0.3:
        before = dict(lake.model.rows)
        version = DeltaLakeTable(str(lake.path)).version
        lake.apply(lake.model.batch(20), copied=False)
        deltalake.DeltaTable(str(lake.path)).restore(version)  # of which the index knows nothing
        lake.model.rows = before


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("seed", range(3))
def test_random_histories_leave_the_rows_of_a_model(kind: str, seed: int, tmp_path: Path) -> None:
    run_history(kind, seed, tmp_path)


def run_history(kind: str, seed: int, folder: Path) -> int:
    model = Model(kind, seed)
    lake, kept, chance, used = Lake(folder, model, both=seed == 0), list[Path](), random.Random(seed), 0
    lake.apply(model.batch(300, filled=True))
    for _ in range(14):
        disturb(lake, kept, chance)
        before = dict(model.rows)
        batch = model.batch(chance.choice((1, 5, 30, 60)))
        if chance.random() < 0.3:
            try:
                with killed_after(chance.randrange(40)):
                    lake.apply(batch, copied=False)
            except Killed:
                assert lake.rows(lake.path) == sorted((*key, value) for key, value in before.items())
            else:
                lake.apply_to_copy(batch)
                lake.check()
                continue
        with pytest.MonkeyPatch.context() as patch:
            reads: list[str] = []
            patch.setattr(rewriting.Rewriter, "marked", counted(rewriting.Rewriter.marked, reads))
            lake.apply(batch)
        used += len(reads)
        lake.check()
    return used


def counted(call: Any, into: list[str]) -> Any:
    def called(self: Any, file: Any, *more: Any) -> Any:
        into.append(file.name)
        return call(self, file, *more)

    return called


def test_a_round_reads_no_file_that_the_index_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_index, "_WORTH", 100)
    model = Model("number", 1)
    lake = Lake(tmp_path, model)
    lake.apply(model.batch(500, filled=True))
    (large,) = (one.name for one in DeltaLakeTable(str(lake.path)).files())
    lake.apply(model.batch(20))
    runs = lake.runs()
    opened: list[str] = []
    call = rewriting.Rewriter.__call__
    with monkeypatch.context() as patch:
        patch.setattr(
            rewriting.Rewriter, "__call__", lambda s, file: opened.append(file.name) or call(s, file)
        )
        patch.setattr(key_index._Builder, "__call__", None)
        for _ in range(3):
            lake.apply(model.batch(5), copied=False)
    assert large not in opened
    assert (len(runs), lake.runs()) == (1, runs)
    assert lake.rows(lake.path) == sorted((*key, value) for key, value in model.rows.items())


def test_runs_become_fewer_and_those_of_no_file_go(tmp_path: Path) -> None:
    model = Model("number", 2)
    lake = Lake(tmp_path, model)
    lake.apply(model.batch(500, filled=True))
    for _ in range(15):
        lake.apply(model.batch(25))
        assert len(lake.runs()) <= 5
        assert not [*lake.keys.glob("*.new")]
    lake.check()
    table = DeltaLakeTable(str(lake.path))
    every = table.files()
    with_rows = sum(path.stat().st_size for path in lake.runs())
    assert with_rows < 40 * sum(one.rows for one in every) + 20_000
    deltalake.DeltaTable(str(lake.path)).optimize.compact()
    lake.apply(model.batch(3))
    lake.apply(model.batch(3))
    assert len(lake.runs()) <= 1
    lake.check()


def test_a_run_with_another_number_of_words_is_made_anew(tmp_path: Path) -> None:
    """Although all of its checksums are right."""
    model = Model("number", 3)
    lake = Lake(tmp_path, model)
    lake.apply(model.batch(500, filled=True))
    lake.apply(model.batch(20))
    (path,) = lake.runs()
    root, keyed = str(lake.keys), key_runs.Keyed(("id",), ("int64",), lake.index.salt)
    run = key_runs.Run(str(path), root, keyed)
    words, places = run.entries(0, run.count)
    wrong = lake.keys / "wrong.keys"
    key_runs.write(str(wrong), root, keyed, run.files, [[words, words, places]], 2)
    key_runs.Run(str(wrong), root, keyed).check()
    path.unlink()
    lake.apply(model.batch(5))
    (made,) = lake.runs()
    assert made != wrong
    assert key_runs.Run(str(made), root, keyed).words == 1
    lake.check()


def test_a_round_with_many_keys_reads_the_files_instead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_index, "_ROWS_A_KEY", 16)
    model = Model("text", 1)
    lake = Lake(tmp_path, model)
    lake.apply(model.batch(500, filled=True))
    lake.apply(model.batch(100))
    assert lake.runs() == []
    lake.apply(model.batch(3))
    assert len(lake.runs()) == 1
    lake.check()


def test_a_disk_that_is_full_costs_only_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model("two", 1)
    lake = Lake(tmp_path, model)
    lake.apply(model.batch(500, filled=True))

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(key_index, "rename", full)
        lake.apply(model.batch(20))
    with monkeypatch.context() as patch:
        patch.setattr(key_runs, "create", full)
        lake.apply(model.batch(20))
    lake.check()
    assert [*lake.keys.iterdir()] == []


def test_files_that_are_not_as_the_table_says_are_read(tmp_path: Path) -> None:
    model = Model("number", 4)
    lake = Lake(tmp_path, model)
    lake.apply(model.batch(500, filled=True))
    (file,) = DeltaLakeTable(str(lake.path)).files()
    builder = key_index._Builder(
        lake.index,
        key_runs.Keyed(("id",), ("int64",), b""),
        pa.schema({"id": pa.int64()}),
        Folder(str(lake.path)),
    )
    lake.keys.mkdir(parents=True)
    assert builder([replace(file, rows=file.rows + 1)]) == []
    assert replace(builder, key=pa.schema({"other": pa.int64()}))([file]) == []
    assert builder([replace(file, name="gone")]) == []
    assert len(builder([file])) > 2  # each of it with some of its keys


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    model = Model("number", 5)
    lake, elsewhere = Lake(tmp_path / "lake", model), tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "mine.keys").write_text("mine")
    lake.apply(model.batch(500, filled=True))
    lake.keys.parent.mkdir(parents=True)
    lake.keys.symlink_to(elsewhere)
    lake.apply(model.batch(20))
    lake.check()
    assert [one.name for one in elsewhere.iterdir()] == ["mine.keys"]
