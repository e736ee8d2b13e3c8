"""What ROLLBACK TO a savepoint undoes: alone, and in a server's own logs against its SELECT."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from support.server import connect, logged, run

from binlog_core import SchemaError
from binlog_core._decode.savepoints import RowPlace, Savepoints
from binlog_core.inspect.history import row_as_of

pytestmark = pytest.mark.sanitize_logs

BEGIN = 4


def undone(*steps: str) -> list[int]:
    """The numbers of the steps that are undone; each is an event, and those without a text are rows."""
    savepoints = Savepoints(BEGIN)
    for number, text in enumerate(steps):
        if text:
            savepoints.note(text, RowPlace(10 + number, 0))
    ranges = savepoints.undone
    assert all(a[1] <= b[0] for a, b in pairwise(ranges))
    rows = [RowPlace(10 + number, 0) for number, text in enumerate(steps) if not text]
    return [row.position - 10 for row in rows if any(first <= row < last for first, last in ranges)]


# As MariaDB 10.11 logs them, with what is no longer in the table; MySQL 9.7 does the same.
@pytest.mark.parametrize(
    ("steps", "numbers"),
    [
        (["", "SAVEPOINT `a`", "", "ROLLBACK TO `a`", ""], [2]),
        (["", "SAVEPOINT `a`", "", "ROLLBACK TO `a`", "", "ROLLBACK TO `a`", ""], [2, 4]),
        (["", "SAVEPOINT `a`", "", "SAVEPOINT `b`", "", "SAVEPOINT `a`", "", "ROLLBACK TO `b`", ""], [4, 6]),
        (["", "SAVEPOINT `a`", "", "SAVEPOINT `a`", "", "ROLLBACK TO `a`", ""], [4]),
        (["", "SAVEPOINT `a`", "", "SAVEPOINT ` a`", "", "ROLLBACK TO `a`", ""], [2, 4]),
        (["", "SAVEPOINT `Ab`", "", "ROLLBACK TO `aB`", ""], [2]),
        (["", "SAVEPOINT `É`", "", "ROLLBACK TO `e`", ""], [2]),
        (["", 'SAVEPOINT `a``"b`', "", 'ROLLBACK TO "a`""b"', ""], [2]),  # SET sql_mode = ANSI_QUOTES
        (["", "SAVEPOINT `a`", "", "ROLLBACK TO a", ""], [2]),  # SET sql_quote_show_create = 0
        # MariaDB 11.8, for which these are two.
        (["", "SAVEPOINT `a`", "", "SAVEPOINT `ä`", "", "ROLLBACK TO `a`", ""], [2, 4]),
        # No server logs this; reading begins after the savepoint.
        (["", "ROLLBACK TO `a`", ""], [0]),
        (["", "SAVEPOINT `b`", "", "ROLLBACK TO `b`", "", "ROLLBACK TO `a`", ""], [0, 2, 4]),
        (["", "ROLLBACK TO `a`", "", "SAVEPOINT `b`", "", "ROLLBACK TO `b`", ""], [0, 4]),
    ],
)
def test_what_is_undone(steps: list[str], numbers: list[int]) -> None:
    assert undone(*steps) == numbers


def test_rows_of_one_event_are_told_apart() -> None:
    """All of a compressed transaction is at one position."""
    savepoints = Savepoints(BEGIN)
    savepoints.note("SAVEPOINT `a`", RowPlace(50, 2))
    savepoints.note("ROLLBACK TO `a`", RowPlace(50, 4))
    assert savepoints.undone == [(RowPlace(50, 2), RowPlace(50, 4))]


def test_under_which_name_a_savepoint_was_set() -> None:
    savepoints, place = Savepoints(BEGIN), RowPlace(50, 0)
    assert savepoints.note("DROP TABLE t", place) is None
    assert savepoints.note("SAVEPOINT `É`", place) == ("SAVEPOINT", "é")
    assert savepoints.note("ROLLBACK TO SAVEPOINT e", place) == ("ROLLBACK TO SAVEPOINT", "é")
    assert savepoints.note("RELEASE SAVEPOINT `b`", place) == ("RELEASE SAVEPOINT", None)


# On a server: each is a transaction, in which a row of `plain` makes the server log what it undoes.
TRANSACTIONS = {
    "to a savepoint": "+1; SAVEPOINT a; +2; plain; ROLLBACK TO a; +3",
    "the name in capitals": "+1; SAVEPOINT Ab; +2; plain; ROLLBACK TO aB; +3",
    "with an accent": "+1; SAVEPOINT `é`; +2; plain; ROLLBACK TO `É`; +3",
    "without its accent": "+1; SAVEPOINT `é`; +2; plain; ROLLBACK TO e; +3",
    "other quotes": '+1; SAVEPOINT `a`; +2; plain; SET sql_mode = ANSI_QUOTES; ROLLBACK TO "a"; +3',
    "no quotes": "+1; SAVEPOINT `a`; +2; plain; SET sql_quote_show_create = 0; ROLLBACK TO a; +3",
    "set before the first row": "SAVEPOINT a; +1; plain; ROLLBACK TO a; +2",
    "before the first row, another inside": (
        "SAVEPOINT a; +1; plain; SAVEPOINT b; +2; ROLLBACK TO b; +3; ROLLBACK TO a; +4"
    ),
    "before the first row, not that one": "SAVEPOINT a; +1; plain; SAVEPOINT b; +2; ROLLBACK TO b; +3",
    "twice": "+1; SAVEPOINT a; +2; plain; ROLLBACK TO a; +3; plain; ROLLBACK TO a; +4",
    "set anew": "+1; SAVEPOINT a; +2; SAVEPOINT b; +3; SAVEPOINT a; +4; plain; ROLLBACK TO b; +5",
}


@pytest.mark.server
@pytest.mark.parametrize("steps", TRANSACTIONS.values(), ids=TRANSACTIONS)
def test_a_servers_logs(steps: str, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    from binlog_core.lake.rows.reader import read_split
    from binlog_core.splits import plan_splits

    pymysql = pytest.importorskip("pymysql")

    create = "CREATE TABLE savepoints.t (id INT PRIMARY KEY) ENGINE=InnoDB"
    schema = tmp_path / "schema.sql"
    schema.write_text(f"{create};")

    def work() -> None:
        with connect() as session:
            run(session, "USE savepoints", "BEGIN")
            for step in steps.split("; "):
                values = {"+": f"INSERT INTO t VALUES ({step[1:]})", "p": "INSERT INTO plain VALUES (1)"}
                run(session, values.get(step[0], step))
            run(session, "COMMIT")

    with connect() as connection:
        run(
            connection,
            *("DROP DATABASE IF EXISTS savepoints", "CREATE DATABASE savepoints"),
            create,
            "CREATE TABLE savepoints.plain (id INT) ENGINE=MyISAM",
        )
        try:
            path = str(logged(connection, work, tmp_path / "bin.000001"))
        except pymysql.err.OperationalError as error:
            pytest.skip(f"this server tells the names apart: {error}")
        stayed = [one for (one,) in run(connection, "SELECT id FROM savepoints.t ORDER BY id")]

    def is_there(number: int) -> bool:
        try:
            return row_as_of(path, "savepoints.t", {"id": number}, 1 << 40, schema=str(schema)) is not None
        except SchemaError:  # MySQL logs only rows that stayed
            return False

    inserted = [int(step[1:]) for step in steps.split("; ") if step[0] == "+"]
    assert [i for i in inserted if is_there(i)] == stayed
    assert stayed == [
        i
        for split in plan_splits(path)
        for _, batch in read_split(split, tables="savepoints.t", schema=str(schema))
        for i in batch[0].to_pylist()
    ]
