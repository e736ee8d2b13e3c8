"""Logs in parts: the one that grows in a store's archive."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import zstandard

from binlog_core import BinlogError, MissingFileError
from binlog_core._sources.log_files import LogFile
from binlog_core._sources.places import LocalFiles
from binlog_core._sources.sources import Source
from binlog_core._sources.tails import TailPart, TailSource, chain_of, open_tail, without_parts

pytestmark = pytest.mark.sanitize_long

NAME = "mysql-bin.000042"
DATA = random.Random(15).randbytes(5000)


def part(folder: Path, begin: int, end: int) -> Path:
    path = folder / f".tail-{NAME}.{begin}-{end}"
    path.write_bytes(DATA[begin:end])
    return path


def opened(folder: Path) -> TailSource:
    source = open_tail(LocalFiles(), str(folder / NAME))
    assert isinstance(source, TailSource)
    return source


def rest(source: TailSource, size: int = 300) -> bytes:
    return b"".join(iter(lambda: source.read(size), b""))


def test_the_name_of_a_part() -> None:
    found = TailPart.of(f"s3://b/timeline-2/.tail-{NAME}.10-25")
    assert found == (f"s3://b/timeline-2/{NAME}", 10, 25)
    assert found.size == 15
    assert found.path == f"s3://b/timeline-2/.tail-{NAME}.10-25"
    for other in (NAME, ".tail-x", f".tail-{NAME}.1", f".tail-{NAME}.-1-5", f"tail-{NAME}.1-5"):
        assert TailPart.of(other) is None


def test_a_log_is_in_parts_where_no_closed_log_is() -> None:
    names = [f".tail-{n}" for n in ("a.1.0-9", "a.2.0-9", "a.3.0-9", "a.3.9-12", "a.4.5-9")]
    others, growing = without_parts([*names, "a.1", "a.2.zst", "timeline.json"])
    assert others == ["a.1", "a.2.zst", "timeline.json"]
    assert growing == {"a.3", "a.4"}


@pytest.mark.parametrize(
    ("parts", "end"),
    [
        ([(0, 10)], 10),
        ([(0, 10), (10, 20), (20, 21)], 21),
        ([(0, 10), (11, 20)], 10),
        ([(5, 10)], 0),
        ([(0, 10), (10, 20), (20, 30), (10, 30)], 30),  # merged; the old ones are still there
        ([(0, 30), (0, 10), (5, 8), (20, 40)], 40),
        ([(10, 5), (0, 0)], 0),
    ],
)
def test_the_parts_that_join(parts: list[tuple[int, int]], end: int, tmp_path: Path) -> None:
    names = [f".tail-{NAME}.{begin}-{stop}" for begin, stop in parts]
    chain = chain_of([*names, f".tail-other.000001.{end}-999"], NAME)
    assert (chain[-1].end if chain else 0) == end
    for begin, stop in parts:
        part(tmp_path, begin, stop)
    if (missing := {(11, 20): "10 to 11", (5, 10): "0 to 5"}.get(parts[-1])) is not None:
        with pytest.raises(BinlogError, match=f"bytes {missing} are missing"):
            open_tail(LocalFiles(), str(tmp_path / NAME))
    elif end:
        with opened(tmp_path) as source:
            assert (source.size, rest(source, 7)) == (end, DATA[:end])
    else:
        assert open_tail(LocalFiles(), str(tmp_path / NAME)) is None


def test_it_is_read_from_any_place(tmp_path: Path) -> None:
    for begin, end in ((0, 1000), (900, 2500), (2500, 5000)):
        part(tmp_path, begin, end)
    with opened(tmp_path) as source:
        for position in (4999, 0, 999, 1000, 950, 2500, 5000):
            source.seek(position)
            assert rest(source) == DATA[position:]
        with pytest.raises(BinlogError, match="outside the log of 5000 bytes"):
            source.seek(5001)
    with pytest.raises(BinlogError, match="closed"):
        source.read(1)


@pytest.mark.parametrize("later", ["part", "closed", "zst", "gone"])
def test_parts_that_go_while_it_is_read(tmp_path: Path, later: str) -> None:
    olds = [part(tmp_path, at, at + 1000) for at in range(0, 4000, 1000)]
    with opened(tmp_path) as source:
        assert source.peek(500) == DATA[:500]
        source.seek(500)
        if later == "part":
            part(tmp_path, 0, 1500)
            part(tmp_path, 1200, 5000)
        elif later == "closed":
            (tmp_path / NAME).write_bytes(DATA)
        elif later == "zst":
            (tmp_path / f"{NAME}.zst").write_bytes(zstandard.compress(DATA))
        for old in olds:
            old.unlink()
        if later == "gone":
            with pytest.raises(BinlogError, match="from 1000 on are gone"):
                rest(source)
        else:
            assert rest(source) == DATA[500:4000]  # as long as it was when it was opened
            source.seek(2000)
            assert rest(source) == DATA[2000:4000]


class _Requests(LocalFiles):
    """A store, where each read is a request: an object that is open can be gone."""

    def open(self, path: str, mmap: bool | None) -> Source:
        source = super().open(path, mmap)
        fetch = source._fetch

        def asked(size: int) -> bytes:
            if not Path(path).exists():
                raise BinlogError("NO_SUCH_KEY", path=path)
            return fetch(size)

        source._fetch = asked  # type: ignore[method-assign]
        return source


@pytest.mark.parametrize("later", ["part", "closed", "broken"])
def test_a_part_that_goes_while_it_is_open(tmp_path: Path, later: str) -> None:
    olds = [part(tmp_path, at, at + 1000) for at in range(0, 3000, 1000)]
    source = open_tail(_Requests(), str(tmp_path / NAME))
    assert isinstance(source, TailSource)
    with source:
        begin = source.read(300)
        assert DATA.startswith(begin)
        if later == "part":
            part(tmp_path, 0, 3000)
        elif later == "closed":
            (tmp_path / NAME).write_bytes(DATA)
        for old in olds[later == "broken" :]:
            old.unlink()
        if later == "broken":
            source._part._fetch = _broken  # type: ignore[union-attr, method-assign]
            with pytest.raises(BinlogError, match="a disk is broken"):
                rest(source)
        else:
            assert begin + rest(source) == DATA[:3000]


def _broken(size: int) -> bytes:
    raise BinlogError("a disk is broken")


def test_a_log_that_is_finished_between_two_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def finished(self: LocalFiles, path: str, mmap: bool | None) -> Source:
        monkeypatch.undo()
        (tmp_path / NAME).write_bytes(DATA)
        raise MissingFileError("not there yet", path=path)

    monkeypatch.setattr(LocalFiles, "open", finished)
    with LogFile(str(tmp_path / NAME), mmap=False).open_stored() as source:
        assert source.peek(5000) == DATA


def test_a_part_that_is_shorter_than_its_name_says(tmp_path: Path) -> None:
    part(tmp_path, 0, 1000).write_bytes(DATA[:900])
    with (
        opened(tmp_path) as source,
        pytest.raises(BinlogError, match="ends at 900: expected its bytes up to 1000"),
    ):
        rest(source)


def test_a_log_that_is_not_there_in_parts_is_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        LogFile(str(tmp_path / NAME)).open()
    part(tmp_path, 10, 1000)
    with pytest.raises(BinlogError, match="bytes 0 to 10 are missing from the store"):
        LogFile(str(tmp_path / NAME)).open()
    (tmp_path / NAME).write_bytes(DATA[:700])
    with LogFile(str(tmp_path / NAME), mmap=False).open_stored() as source:  # the closed log counts
        assert source.peek(5000) == DATA[:700]
