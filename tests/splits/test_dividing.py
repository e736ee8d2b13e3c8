"""What walks over the headers of a log's splits say about the transactions that fill them."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.forged import UUID
from support.writer import Log, Table

from binlog_core._sources.log_files import LogFile
from binlog_core.splits import Split, plan_splits
from binlog_core.splits.dividing import Piece, PieceWalk, may_be_divided, open_before, put_together

pytestmark = pytest.mark.sanitize
TABLES = [Table("shop", f"t{i}", [("id", "INT")]) for i in range(2)]


def written(path: Path) -> tuple[Path, list[int]]:
    log = Log("8.0.36")
    log.previous_gtids()
    log.gtid(UUID, 1)
    log.begin()
    places = []
    for i in range(20):
        places.append(log.position)
        log.insert(TABLES[i % 2], [{"id": i}])
    log.query("SAVEPOINT `a`")
    log.query("ROLLBACK TO `a`")
    log.commit()
    log.gtid(UUID, 2)
    log.begin()
    log.insert(TABLES[0], [{"id": 1}])
    log.commit()
    path.write_bytes(log.getvalue())
    return path, places


def pieces_of(path: Path, splits: list[Split]) -> list[Piece | None]:
    return [None, *(PieceWalk(split, LogFile(str(path))).piece() for split in splits[1:])]


def test_pieces_fit_together(tmp_path: Path) -> None:
    path, places = written(tmp_path / "bin.000001")
    splits = plan_splits(path, 300)
    assert may_be_divided(splits) and not may_be_divided(splits[:2])
    pieces = pieces_of(path, splits)
    ((first, last),) = open_before(pieces)
    assert first == 0
    begun = PieceWalk(splits[0], LogFile(str(path)), last=True).piece()
    assert begun is not None and begun.head_end == places[0]
    inner = pieces[1]
    assert inner is not None and inner.plain and inner.cut == inner.first and len(inner.maps) == 2
    divided = put_together(splits[: last + 1], begun, pieces[1 : last + 1])
    assert divided is not None
    assert [one.start for one in divided] == [0, *(one.end for one in divided[:-1])]
    own = [one.within for one in divided if one.within is not None]
    assert {one.begin for one in own} == {begun.first}
    assert [one.ending is None for one in own] == [False] * (len(own) - 1) + [True]
    assert all(one.undone for one in own) and not any(one.rolled_back for one in own)


def test_a_piece_that_begins_elsewhere_leaves_it_whole(tmp_path: Path) -> None:
    path, _ = written(tmp_path / "bin.000001")
    splits = plan_splits(path, 300)
    pieces = pieces_of(path, splits)
    ((first, last),) = open_before(pieces)
    begun = PieceWalk(splits[first], LogFile(str(path)), last=True).piece()
    assert begun is not None and pieces[1] is not None and pieces[1].first is not None
    pieces[1].first += 1
    assert put_together(splits[: last + 1], begun, pieces[1 : last + 1]) is None


def test_where_transactions_fill_splits() -> None:
    short, filled = Piece(10, 20, True), Piece(10, 20)
    assert list(open_before([None, short, short])) == []
    assert list(open_before([None, filled, filled, short, short, filled, short])) == [(0, 3), (4, 6)]
    assert list(open_before([None, short, filled])) == [(1, 2)]
    assert list(open_before([None, None, filled])) == [(1, 2)]


@pytest.mark.parametrize("server", ["8.0.36", "10.11.6-MariaDB"])
def test_events_that_are_too_short(server: str, tmp_path: Path) -> None:
    log = Log(server, checksum=False)
    if log.mariadb:
        log.event(162, bytes(5))
    else:
        log.gtid(UUID, 1)
        log.begin()
    for i in range(20):
        log.insert(TABLES[i % 2], [{"id": i}])
    log.event(19, b"")  # a table map, at the end of the window
    path = tmp_path / "bin.000001"
    path.write_bytes(log.getvalue())
    for size in (120, 300):
        for split in plan_splits(path, size):
            PieceWalk(split, LogFile(str(path))).piece()
            PieceWalk(split, LogFile(str(path)), last=True).piece()


def test_the_plan_stays_small(tmp_path: Path) -> None:
    """Whatever a log has: pieces are sent to the driver, and parts to the workers."""
    for name, many in (("maps", True), ("savepoints", False)):
        log = Log("8.0.36", next_positions=False)
        log.gtid(UUID, 1)
        log.begin()
        log.insert(TABLES[0], [{"id": 0}])
        for i in range(3000):
            log.table_map(TABLES[0], i + 100) if many else log.query(f"SAVEPOINT `s{i}`")
        log.query(f"ROLLBACK TO `{'s' * 5000}`")
        log.insert(TABLES[0], [{"id": 1}])
        log.commit()
        path = tmp_path / f"{name}.000001"
        path.write_bytes(log.getvalue())
        splits = plan_splits(path, len(log.getvalue()) // 2)
        begun = PieceWalk(splits[0], LogFile(str(path)), last=True).piece()
        piece = PieceWalk(splits[1], LogFile(str(path))).piece()
        assert begun is not None and piece is not None
        for one in (begun, piece):
            assert len(one.maps) <= 1000 and len(one.savepoints) <= 1000
        assert not any(len(text) > 1024 for text, _ in piece.savepoints) and not piece.rolled_back
        assert put_together(splits, begun, [piece]) is None
