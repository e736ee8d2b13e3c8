"""Where transactions begin in .ibb files: one file divided among workers, and read from any position."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from support.innodb_logs import made_of, one_file
from support.logs import all_rows
from support.splits import read, read_all
from support.writer import Log
from support.writer import innodb_binlog as ibb

import binlog_core
from binlog_core._sources import innodb_places
from binlog_core._sources.log_files import LogFile
from binlog_core.lake.rows.reader import read_split
from binlog_core.log import parts
from binlog_core.splits import check_seams, plan_splits, trust_splits

pytestmark = [pytest.mark.sanitize_long, pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")]


@pytest.fixture(autouse=True)
def many_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in files that are larger by far."""
    monkeypatch.setattr(innodb_places, "_STEP", 2000)
    monkeypatch.setattr(parts, "PART_BYTES", 3000)


def shapes(seed: int) -> list[list[dict[str, Any]]]:
    pick = random.Random(seed)
    return [
        [{"id": i, "note": "n" * pick.randrange(300)} for _ in range(pick.choice([1, 3, 40]))]
        for i in range(pick.choice([20, 60]))
    ]


def written(folder: Path, seed: int) -> tuple[list[Path], list[int]]:
    rows = shapes(seed)
    paths = ibb.write_files(folder, ibb.engine_files(made_of(rows), seed=seed))
    return paths, [row["id"] for one in rows for row in one]


@pytest.mark.parametrize("seed", range(8))
def test_seeking(seed: int, tmp_path: Path) -> None:
    """Every place has the bytes that reading from the beginning gives, and each transaction is found."""
    pick = random.Random(seed)
    for path in written(tmp_path, seed)[0]:
        with binlog_core.open(path) as log:
            headers = log.headers()
        begins = headers["position"][headers["type_code"] == 162].tolist()
        with LogFile(str(path)).open() as source:
            whole = b"".join(iter(lambda source=source: source.read(1 << 20), b""))  # type: ignore[misc]
        with LogFile(str(path), mmap=pick.random() < 0.5).open() as source:
            for _ in range(40):
                at = pick.randrange(len(whole) + 1)
                if pick.random() < 0.5:
                    source.seek(at)
                    assert source.position == at
                    size = pick.choice([1, 50, 3000])
                    assert source.peek(size) == whole[at : at + size]
                    read = source.read(pick.randrange(1, 3000))
                    assert read == whole[at : at + len(read)]
                    assert read or at == len(whole)
                else:
                    found = source.transaction_from(at)
                    assert found == next((begin for begin in begins if begin >= at), None)
                    if found is not None:
                        assert source.peek(40) == whole[found : found + 40]
            with pytest.raises(binlog_core.BinlogError, match=f"outside the log of {len(whole)} bytes"):
                source.seek(len(whole) + 1)


@pytest.mark.parametrize("seed", range(5))
def test_split_plans(seed: int, tmp_path: Path) -> None:
    """Each change once, in order and with the same versions, whatever the plan."""
    paths, expected = written(tmp_path, seed)
    whole = [place_of(change) for change in all_rows(tmp_path)]
    for size in (0, 700, 3000):
        splits = plan_splits(str(tmp_path), size)
        assert (len(splits) > len(paths)) == (size > 0)
        parts_read = [read(split) for split in splits]
        assert not check_seams(result for _, result in parts_read)  # at the first try
        changes = [change for some, _ in parts_read for change in some]
        assert [change.after["id"] for change in changes] == expected
        assert [place_of(change) for change in changes] == whole
        assert [c.after["id"] for c in read_all(trust_splits(splits))[0]] == expected


def place_of(change: Any) -> tuple[str, int]:
    return change.gtid, change.position


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("mmap", [True, False])
def test_threads(seed: int, mmap: bool, tmp_path: Path) -> None:
    _, expected = written(tmp_path, seed)
    with binlog_core.open(tmp_path, threads=3, mmap=mmap, limits=binlog_core.Limits(group_rows=20)) as log:
        groups = [
            (group.position, [i for batch in group.batches for i in batch.array["row"]["id"].tolist()])
            for group in log.groups()
        ]
    assert [i for _, ids in groups for i in ids] == expected
    read = 0
    for number, (position, ids) in enumerate(groups):
        read += len(ids)
        if number % 4 == 0:
            with binlog_core.open(tmp_path, start=position, threads=2) as rest:
                assert [c.after["id"] for c in rest.rows()] == expected[read:]


def test_threads_read_parts_of_one_file(tmp_path: Path) -> None:
    """Without this the other tests could pass by reading each file as a whole."""
    path = tmp_path / "binlog-000000.ibb"
    path.write_bytes(one_file(300))
    with LogFile(str(path)).open() as source:
        assert source.twin() is not None
        with binlog_core.open(path) as log:
            selection = log.settings.selection
        found = parts.parts_of(parts.ThreadPart(0, source=source), selection, 2)
        assert len(found) > 5
        places = [source.transaction_from(part.start) for part in found[1:] if part.start is not None]
        assert all(a is not None and b is not None and a < b for a, b in pairwise(places[:-1]))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("skip", [True, False])
def test_damage_in_parts(seed: int, skip: bool, tmp_path: Path) -> None:
    """Splits and threads give the rows and the errors of a reader that reads the whole."""
    pick = random.Random(seed)
    data = bytearray(one_file(150, interval=5))
    for _ in range(pick.choice([1, 3])):
        data[pick.randrange(512, len(data))] ^= 1 << pick.randrange(8)
    path = tmp_path / "binlog-000000.ibb"
    path.write_bytes(data)
    options: dict[str, Any] = {"on_error": "skip"} if skip else {}
    expected, error = rows_and_error(path, **options)
    assert (error is None) == skip
    for threads in (1, 3):
        assert rows_and_error(path, threads=threads, **options) == (expected, error)
    splits = plan_splits(str(path), 2000)
    assert len(splits) > 5
    if skip:
        assert [place_of(c) for c in read_all(splits, **options)[0]] == expected
    else:
        with pytest.raises(binlog_core.ChecksumError) as caught:
            read_all(splits)
        assert str(caught.value) == error


def test_damage_behind_the_descriptor(tmp_path: Path) -> None:
    """Whoever begins later looks at the log's head: it is damaged there, and can be passed."""
    data = bytearray(one_file(150))
    data[512 + 40] ^= 1
    path = tmp_path / "binlog-000000.ibb"
    path.write_bytes(data)
    options: dict[str, Any] = {"on_error": "skip"}
    whole = [place_of(change) for change in all_rows(path, **options)]
    assert 140 < len(whole) < 150
    assert [place_of(c) for c in read_all(plan_splits(str(path), 2000), **options)[0]] == whole
    with binlog_core.open(path, limits=binlog_core.Limits(group_rows=20), **options) as log:
        group = list(log.groups())[2]
    rest = [place_of(change) for change in all_rows(path, start=group.position, **options)]
    assert 0 < len(rest) < len(whole) and whole[-len(rest) :] == rest
    with pytest.raises(binlog_core.ChecksumError, match="page 1"):
        all_rows(path, start=group.position)


def rows_and_error(path: Path, **options: Any) -> tuple[list[tuple[str, int]], str | None]:
    found = []
    try:
        with binlog_core.open(path, **options) as log:
            for change in log.rows():
                found.append(place_of(change))
    except binlog_core.BinlogError as error:
        return found, str(error)
    return found, None


def test_positions_in_events_are_not_believed(tmp_path: Path) -> None:
    """Whatever a server leaves in end_log_pos: it is not a position in this log."""
    writer = ibb.Writer(shift=9, pages=1000)
    for number, events in enumerate(made_of([[{"id": i, "note": "x" * 40}] for i in range(150)])):
        wrong = bytearray(events)
        wrong[13:17] = (4711 * number).to_bytes(4, "little")
        writer.record(ibb.COMMIT, ibb.packed(0) + bytes(wrong))
    path = tmp_path / "binlog-000000.ibb"
    (data,) = writer.contents()
    path.write_bytes(data)
    for options in ({}, {"threads": 2}, {"on_error": "skip"}):
        assert [c.after["id"] for c in all_rows(path, **options)] == list(range(150))
    assert [c.after["id"] for c in read_all(plan_splits(str(path), 1000))[0]] == list(range(150))


def test_starting_at_a_commit_record(tmp_path: Path) -> None:
    """By the offset in the file itself, also with records out of band, and between two records."""
    pick = random.Random(3)
    writer = ibb.Writer(shift=9, pages=1000)
    offsets = []
    for events in made_of([[{"id": i, "note": "x" * 90}] for i in range(80)]):
        gtid = int.from_bytes(events[9:13], "little")
        tree = ibb.OutOfBand(writer)
        if pick.random() < 0.5:
            for begin in range(gtid, len(events), 60):
                tree.append(events[begin : begin + 60])
            events = events[:gtid]
        trees = tree.reference() + ibb.packed(0) if tree.places else ibb.packed(0)
        offsets.append(writer.record(ibb.COMMIT, trees + events)[1])
    path = tmp_path / "binlog-000000.ibb"
    (data,) = writer.contents()
    path.write_bytes(data)
    for at in range(80):
        for offset in (offsets[at], offsets[at - 1] + 1 if at else 0):
            for name in ("", path.name):
                start = binlog_core.CommitRecord(offset, name)
                assert [c.after["id"] for c in all_rows(tmp_path, start=start)] == list(range(at, 80))
    with pytest.raises(binlog_core.BinlogError, match="no commit record begins"):
        binlog_core.open(path, start=binlog_core.CommitRecord(offsets[-1] + 1))
    with pytest.raises(binlog_core.BinlogError, match="expected one file 'other'"):
        binlog_core.open(path, start=binlog_core.CommitRecord(0, "other"))
    with pytest.raises(binlog_core.BinlogError, match=r"not an \.ibb file"):
        binlog_core.open(Log("11.8.1-MariaDB-log").getvalue(), start=binlog_core.CommitRecord(0))
    for wrong in (-1, 1.5, True):
        with pytest.raises(ValueError, match="offset="):
            binlog_core.CommitRecord(wrong)  # type: ignore[arg-type]


def test_commit_versions(tmp_path: Path) -> None:
    """Total, and the same under every plan."""
    written(tmp_path, 3)

    def keys(size: int) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        for split in plan_splits(str(tmp_path), size):
            for _, batch in read_split(split, unnamed="positions"):
                versions = batch["_commit_version"].to_pylist()
                end = 1 << 40 if split.end is None else split.end
                assert all(split.start <= version - split.version_base < end for version in versions)
                found += zip(versions, batch["_change_ordinal"].to_pylist(), strict=True)
        return found

    whole = keys(0)
    assert len(whole) == len(set(whole)) == len(all_rows(tmp_path))
    assert whole == sorted(whole)
    for size in (700, 5000):
        assert keys(size) == whole
