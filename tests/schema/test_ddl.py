"""Definitions followed through DDL: against information_schema of the servers, and by hand."""

from __future__ import annotations

import pickle
import re
from typing import Any

import pytest
from support.definitions import START, charsets_of, column_by_server, shape, tracker_after
from support.golden import golden_logs
from support.growth import assert_linear

from binlog_core._format.event_types import EventType
from binlog_core._format.statements import may_change_definitions
from binlog_core._tables.tables import Column, Kind, Table
from binlog_core.errors import SchemaError
from binlog_core.events.base import EventHeader
from binlog_core.events.query import QueryEvent, QueryStatus
from binlog_core.limits import Limits
from binlog_core.schema.ddl import FLAG_ROLLBACK_ALTER, FLAG_START_ALTER, DdlTracker
from binlog_core.schema.given import Schema, apply
from binlog_core.schema.table_definitions import TableSchema


def statements(golden: Any) -> list[tuple[int, str, str, int]]:
    """Of each statement, from SHOW BINLOG EVENTS: position, default database, text, MariaDB's ALTER flags."""
    found = []
    flags = 0
    for event in golden.events:
        info = event["info"] or ""
        if event["type"] == "Gtid":
            flags = FLAG_START_ALTER if info.endswith("START ALTER") else 4 if "COMMIT ALTER" in info else 0
        elif event["type"].startswith("Query"):
            assert len(info) < 400
            use = re.match(r"use `([^`]*)`; ", info)
            found.append((event["pos"], use[1] if use else "", info[use.end() :] if use else info, flags))
    return found


@pytest.mark.parametrize("golden", golden_logs("*/ddl*"), ids=str)
def test_every_definition_is_that_of_information_schema(golden: Any) -> None:
    tracker = DdlTracker()
    history: dict[tuple[str, str], list[TableSchema]] = {}
    for position, database, sql, flags in statements(golden):
        tracker.apply_statement(
            database, sql, golden.path.parent.name.startswith("maria"), position, gtid_flags_extra=flags
        )
    assert tracker.unfollowed == []
    for change in tracker.timeline:
        if change.definition is not None:
            history.setdefault((change.database, change.table), []).append(change.definition)

    compared = 0
    for definition in sorted(golden.definitions, key=lambda d: int(d["from_row"])):
        wanted = [column_by_server(column) for column in definition["columns"]]
        # The servers wrote the definitions in this order; none may be missing between them.
        key = (definition["db"], definition["table"])
        while history[key]:
            table = history[key].pop(0)
            found = [{k: getattr(c, k) for k in w} for c, w in zip(table.columns, wanted, strict=False)]
            for column, truth in zip(found, wanted, strict=False):
                if column["charset"] is None:
                    column["charset"] = truth["charset"]  # of the database, which is not in the log
            if len(table.columns) == len(wanted) and found == wanted:
                break
        else:
            pytest.fail(f"no definition of {key} from row {definition['from_row']}")
        assert set(table.row_key or ()) == {c["name"] for c in definition["columns"] if c["key"] == "PRI"}
        compared += 1
    assert compared >= 5


def test_an_event_brings_its_status() -> None:
    def event(sql: bytes, status: QueryStatus) -> QueryEvent:
        header = EventHeader(77, 0, EventType.QUERY, 1, 0, 0, 0)
        return QueryEvent(*header, 1, 0, 0, status, "d", sql)

    tracker = DdlTracker()
    tracker.apply_event(event(b"CREATE DATABASE d", QueryStatus(collation_server=8)))
    # Character set of the client: latin1. ANSI_QUOTES: "x" is a name.
    tracker.apply_event(
        event(b'CREATE TABLE "t\xe9" (a text)', QueryStatus(sql_mode=4, character_set_client=8))
    )
    tracker.apply_event(
        event(b"ALTER TABLE t\xe9 ADD b int", QueryStatus(gtid_flags3=2, character_set_client=8))
    )
    table = tracker.definition("d", "té")
    assert table is not None
    assert [(c.name, c.charset) for c in table.columns] == [("a", "latin1")]
    assert [change.position for change in tracker.timeline] == [77]


def test_an_unknown_database_has_the_server_s_default() -> None:
    def charsets_after(*statements: str, server: int = 8) -> list[str | None]:
        tracker = DdlTracker()
        for sql in statements:
            tracker.apply_statement("d", sql, server_collation=server)
        table = tracker.definition("d", "t")
        assert table is not None
        return [column.charset for column in table.columns]

    create = "CREATE TABLE t (a text, b text CHARACTER SET cp1251)"
    assert charsets_after(create) == ["latin1", "cp1251"]
    assert charsets_after(create, server=45) == ["utf8mb4", "cp1251"]
    assert charsets_after(create + " CHARSET koi8r") == ["koi8r", "cp1251"]
    # Information in the log takes precedence over assumptions.
    assert charsets_after("ALTER DATABASE d CHARSET greek", create) == ["greek", "cp1251"]
    assert charsets_after(create, "ALTER TABLE t ADD c char(3)") == ["latin1", "cp1251", "latin1"]
    # The new default says nothing of the columns that were there.
    assert charsets_after(create, "ALTER TABLE t CHARSET greek, ADD c char(3)") == [None, "cp1251", "greek"]
    assert charsets_after(create, "ALTER TABLE t CONVERT TO CHARSET greek") == ["greek", "greek"]


def test_an_assumed_character_set_yields_to_the_lengths_of_the_log() -> None:
    def names_and_charsets(length: int) -> list[tuple[str, str | None]]:
        tracker = DdlTracker()
        tracker.apply_statement("d", "CREATE TABLE t (a varchar(10), b text)", server_collation=45)
        definition = tracker.definition("d", "t")
        assert definition is not None
        columns = (
            Column("c0", 0, 15, Kind.BINARY, named=False, length=length),
            Column("c1", 1, 252, Kind.BINARY, named=False, length=2),
        )
        merged = apply(Table("d", "t", columns), definition)
        return [(column.name, column.charset) for column in merged.columns]

    assert names_and_charsets(40) == [("a", "utf8mb4"), ("b", "utf8mb4")]  # four bytes a character
    assert names_and_charsets(10) == [("a", None), ("b", None)]  # one byte: the database had another set


# ---------------------------------------------------------------------------------------
# By hand: each case starts with `START`.


def test_the_character_set_of_a_database_is_that_of_its_new_tables() -> None:
    tracker = tracker_after(
        "CREATE DATABASE e DEFAULT CHARACTER SET = latin2",
        "CREATE TABLE e.x (a text)",
        "ALTER DATABASE e COLLATE greek_general_ci",
        "CREATE TABLE e.y (a text)",
        "CREATE DATABASE IF NOT EXISTS f CHARACTER SET latin1",
        "CREATE TABLE f.x (a text)",
        "ALTER SCHEMA CHARACTER SET ascii",
        "CREATE TABLE z (a text)",
    )
    found = [tracker.definition(*key) for key in (("e", "x"), ("e", "y"), ("f", "x"), ("d", "z"))]
    assert [charsets_of(t)[0][1] for t in found] == ["latin2", "greek", None, "ascii"]


def test_create_drop_rename() -> None:
    tracker = tracker_after(
        "CREATE TABLE IF NOT EXISTS t (z int)",
        "CREATE TABLE v LIKE `t`",
        "CREATE TABLE w (LIKE u)",
        "RENAME TABLE t TO swap, u TO t, swap TO u",
        "CREATE OR REPLACE TABLE `e``e`.n (q year)",
    )
    assert tracker.unfollowed == []
    assert shape(tracker.definition("d", "t")) == ["x date"]
    assert shape(tracker.definition("d", "u")) == ["a int", "b varchar", "c text"]
    assert shape(tracker.definition("d", "v")) == ["a int", "b varchar", "c text"]
    assert shape(tracker.definition("d", "w")) == ["x date"]
    assert shape(tracker.definition("e`e", "n")) == ["q year"]
    assert tracker.definition("d", "swap") is None
    v = tracker.definition("d", "v")
    assert v is not None
    assert v.full_name == "d.v"

    assert tracker.apply_statement("d", "DROP TABLE IF EXISTS t, `v` /* generated by server */") == {
        "d.t",
        "d.v",
    }
    assert tracker.apply_statement("x", "ALTER TABLE d.u ADD k int, RENAME TO moved") == {"d.u", "x.moved"}
    assert shape(tracker.definition("x", "moved")) == ["a int", "b varchar", "c text", "k int"]
    assert tracker.apply_statement("", "DROP DATABASE `d`") == {"d.w"}
    assert sorted(t.full_name for t in tracker) == ["e`e.n", "x.moved"]


def test_sequences_of_mariadb_are_tables() -> None:
    tracker = tracker_after(
        "CREATE SEQUENCE s START WITH 10 INCREMENT BY 3", "DROP SEQUENCE IF EXISTS r", mariadb=True
    )
    assert shape(tracker.definition("d", "s")) == [
        *(
            f"{name} bigint"
            for name in ("next_not_cached_value", "minimum_value", "maximum_value", "start_value")
        ),
        *("increment bigint", "cache_size bigint", "cycle_option tinyint", "cycle_count bigint"),
    ]
    tracker.apply_statement("d", "CREATE SEQUENCE i AS int unsigned START WITH 1", True)
    i = tracker.definition("d", "i")
    assert i is not None
    assert (i.columns[0].type_name, i.columns[0].unsigned) == ("int", True)


def test_mariadb_s_json_is_text() -> None:
    sql = "CREATE TABLE j (a json)"
    maria = tracker_after(sql, mariadb=True).definition("d", "j")
    mysql = tracker_after(sql, mariadb=False).definition("d", "j")
    assert (charsets_of(maria), charsets_of(mysql)) == ([("longtext", "utf8mb4")], [("json", None)])


def test_set_statement_is_looked_through() -> None:
    sql = "SET STATEMENT max_statement_time = 5, lock_wait_timeout=1 FOR ALTER TABLE t DROP b"
    assert shape(tracker_after(sql, mariadb=True).definition("d", "t")) == ["a int", "c text"]
    assert may_change_definitions(sql.encode())
    assert not may_change_definitions(b"SET PASSWORD FOR x = 'y'")


def test_sql_mode() -> None:
    ansi = tracker_after('ALTER TABLE "t" ADD "x y" int', sql_mode=4)
    assert shape(ansi.definition("d", "t")) == ["a int", "b varchar", "c text", "x y int"]
    plain = tracker_after("ALTER TABLE t ADD e enum('a\\','b')", sql_mode=1 << 20).definition("d", "t")
    assert plain is not None
    assert plain.columns[3].members == ("a\\", "b")
    assert shape(tracker_after("CREATE TABLE r (a real)", sql_mode=1).definition("d", "r")) == ["a float"]


@pytest.mark.parametrize(
    "sql",
    [
        "BEGIN",
        "INSERT INTO t VALUES ('ALTER TABLE t DROP a')",
        "CREATE TRIGGER g AFTER INSERT ON t FOR EACH ROW BEGIN DROP TABLE t; ALTER TABLE t DROP a; END",
        "CREATE DEFINER=`root`@`localhost` PROCEDURE p() BEGIN DROP TABLE t; END",
        "CREATE OR REPLACE VIEW t AS SELECT 1",
        "DROP VIEW t",
        "ALTER VIEW t AS SELECT 1",
        "CREATE USER t",
        "ALTER USER t",
        "CREATE INDEX t ON t (a)",
        "CREATE TEMPORARY TABLE t (z int)",
        "DROP /*!40005 TEMPORARY */ TABLE IF EXISTS t",
        "CREATE SERVER t FOREIGN DATA WRAPPER mysql OPTIONS (HOST 'x')",
        "DROP TRIGGER t",
    ],
)
def test_statements_that_do_not_change_a_table(sql: str) -> None:
    tracker = tracker_after()
    assert tracker.apply_statement("d", sql) is None
    assert (tracker.unfollowed, tracker.timeline) == ([], [])


def test_truncate_is_followed_and_changes_nothing() -> None:
    tracker = tracker_after()
    assert tracker.apply_statement("d", "TRUNCATE TABLE t") == frozenset()
    assert tracker.apply_statement("d", "/* why */ -- so\n truncate t") == frozenset()
    assert tracker.timeline == []


@pytest.mark.parametrize("flag", [FLAG_START_ALTER, FLAG_ROLLBACK_ALTER])
def test_an_announced_alter_changes_nothing_before_its_commit(flag: int) -> None:
    tracker = tracker_after()
    assert tracker.apply_statement("d", "ALTER TABLE t ADD d int", True, 1, gtid_flags_extra=flag) is None
    assert tracker.apply_statement("d", "ALTER TABLE t ADD d int", True, 2, gtid_flags_extra=4) == {"d.t"}
    assert shape(tracker.definition("d", "t")) == ["a int", "b varchar", "c text", "d int"]


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("CREATE TABLE t (z int) SELECT 1 AS y", "SELECT"),
        ("CREATE TABLE t AS SELECT 1 AS y", "SELECT"),
        ("CREATE TABLE t LIKE unknown", "not known"),
        ("ALTER TABLE t DROP nothing", "no such column"),
        ("ALTER TABLE t MODIFY nothing int", "no such column"),
        ("ALTER TABLE t RENAME COLUMN nothing TO x", "no such column"),
        ("ALTER TABLE t ADD d int AFTER nothing", "no column to go after"),
        ("ALTER TABLE t ADD b int", "same name"),
        ("ALTER TABLE t ADD PRIMARY KEY (nothing)", "no such column"),
        ("ALTER TABLE t ADD SYSTEM VERSIONING", "system versioning"),
        ("ALTER TABLE t CONVERT PARTITION p TO TABLE x", "partition"),
        ("ALTER TABLE t FROBNICATE THE COLUMNS", "not understood"),
        ("ALTER TABLE t ADD d", "expected"),
        ("SET STATEMENT max_statement_time=5 FOR ALTER TABLE t DROP nothing", "no such column"),
    ],
)
def test_a_table_whose_change_is_not_understood_is_forgotten_and_reported(sql: str, reason: str) -> None:
    tracker = tracker_after()
    assert tracker.apply_statement("d", sql, position=4711) == {"d.t"}
    assert tracker.definition("d", "t") is None
    assert shape(tracker.definition("d", "u")) == ["x date"]
    (unfollowed,) = tracker.unfollowed
    assert (unfollowed.position, unfollowed.table) == (4711, "d.t")
    assert reason in unfollowed.reason
    # A later complete definition is known again.
    tracker.apply_statement("d", "CREATE OR REPLACE TABLE t (n int)")
    assert shape(tracker.definition("d", "t")) == ["n int"]


def test_a_statement_that_cannot_be_tokenized_is_reported() -> None:
    tracker = tracker_after()
    assert tracker.apply_statement("d", "ALTER TABLE t ADD x enum('a", position=5) == {"d.t"}
    assert tracker.apply_statement("d", "DROP TABLE `u", position=6) == frozenset()
    assert [(u.position, u.table) for u in tracker.unfollowed] == [(5, "d.t"), (6, None)]


def test_unknown_tables_stay_unknown_without_a_word() -> None:
    tracker = tracker_after()
    assert tracker.apply_statement("d", "ALTER TABLE unknown ADD x int") == frozenset()
    assert tracker.apply_statement("d", "DROP TABLE unknown") == frozenset()
    assert tracker.unfollowed == []
    # What takes the name of a known table makes that one unknown too.
    assert tracker.apply_statement("d", "RENAME TABLE unknown TO t") == {"d.t"}
    assert tracker.apply_statement("d", "ALTER TABLE unknown ADD x int, RENAME u") == {"d.u"}


def test_the_timeline_survives_a_process_border() -> None:
    tracker = tracker_after("ALTER TABLE t DROP b", "DROP TABLE u")
    timeline = pickle.loads(pickle.dumps(tracker.timeline))
    assert [(c.position, c.database, c.table, shape(c.definition)) for c in timeline] == [
        (0, "d", "t", ["a int", "c text"]),
        (1, "d", "u", None),
    ]


def test_a_hidden_period_stays_last_or_the_table_is_forgotten() -> None:
    tracker = tracker_after(
        "CREATE TABLE p (a int) WITH SYSTEM VERSIONING", "ALTER TABLE p ADD b int FIRST", mariadb=True
    )
    assert shape(tracker.definition("d", "p")) == [
        "b int",
        "a int",
        "row_start timestamp",
        "row_end timestamp",
    ]
    tracker.apply_statement("d", "ALTER TABLE p ADD c int", True)
    assert tracker.definition("d", "p") is None
    assert len(tracker.unfollowed) == 1


def test_only_own_errors_come_out_of_damaged_statements() -> None:
    sql = "ALTER TABLE t ADD (d enum('x','y') CHARSET latin1, e decimal(9,2)), CHANGE b z int AFTER a"
    for cut in range(len(sql)):
        tracker = tracker_after()
        tracker.apply_statement("d", sql[:cut])  # never raises
        assert tracker.definition("d", "t") is not None or tracker.unfollowed
        try:
            Schema.load({"d.t": START["d.t"][:cut]})
        except SchemaError as error:
            assert error.table == "d.t"


# ---------------------------------------------------------------------------------------
# Hostile statements


def names(n: int) -> str:
    return ", ".join(f"c{i} int" for i in range(n))


def numbered(part: str, n: int) -> str:
    return ", ".join(part.format(i=i, j=max(i - 1, 0)) for i in range(n))


HOSTILE = {
    "columns": lambda n: [f"CREATE TABLE w ({names(n)})"],
    "DROP in one ALTER": lambda n: [
        f"CREATE TABLE w ({names(n)}, z int)",
        f"ALTER TABLE w {numbered('DROP c{i}', n)}",
    ],
    "AFTER in one ALTER": lambda n: [
        f"CREATE TABLE w ({names(n)})",
        f"ALTER TABLE w {numbered('MODIFY c{i} int AFTER c{j}', n)}",
    ],
    "ADD … AFTER in one ALTER": lambda n: [
        "CREATE TABLE w (x0 int)",
        f"ALTER TABLE w {numbered('ADD x{i} int AFTER x{j}', n)}",
    ],
    "UNIQUE in one CREATE": lambda n: [f"CREATE TABLE w (a int, {numbered('UNIQUE (a)', n)})"],
    "UNIQUE in one ALTER": lambda n: [
        "CREATE TABLE w (a int)",
        f"ALTER TABLE w {numbered('ADD UNIQUE (a)', n)}",
    ],
    "UNIQUE of many columns": lambda n: [f"CREATE TABLE w ({names(n)}, UNIQUE ({numbered('c{i}', n)}))"],
    "columns that are keys": lambda n: [f"CREATE TABLE w ({numbered('c{i} int PRIMARY KEY', n)})"],
    "databases that come and go": lambda n: [
        *(f"CREATE TABLE d{i}.t (a int)" for i in range(n)),
        *(f"DROP DATABASE d{i}" for i in range(n)),
    ],
    "brackets": lambda n: [f"CREATE TABLE w (a int DEFAULT {'(' * n}"],
    "brackets of an unknown table": lambda n: [f"ALTER TABLE unknown {'a(' * n}"],
    "statements in comments": lambda n: ["/*!" * n + "CREATE TABLE w (a int)", "/* " * n + "DROP TABLE w"],
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_the_time_of_a_statement_is_in_proportion_to_it(kind: str) -> None:
    def run(statements: list[str]) -> None:
        tracker = DdlTracker()
        for statement in statements:
            tracker.apply_statement("d", statement)

    assert_linear(run, HOSTILE[kind], 250)


def test_no_table_is_larger_than_a_server_makes_it() -> None:
    tracker = DdlTracker()
    tracker.apply_statement("d", f"CREATE TABLE w ({names(4096)})")
    assert len(shape(tracker.definition("d", "w")) or ()) == 4096
    tracker.apply_statement("d", "ALTER TABLE w ADD x int")
    tracker.apply_statement("d", f"CREATE TABLE v ({names(4097)})")
    tracker.apply_statement("d", f"CREATE TABLE u (a int, {numbered('UNIQUE (a)', 256)})")
    tracker.apply_statement("d", f"CREATE TABLE k ({names(65)}, PRIMARY KEY ({numbered('c{i}', 65)}))")
    assert list(tracker) == []
    assert [u.table for u in tracker.unfollowed] == ["d.w", "d.v", "d.u", "d.k"]


def test_definitions_share_the_columns_that_did_not_change() -> None:
    tracker = DdlTracker()
    tracker.apply_statement("d", "CREATE TABLE t (a int PRIMARY KEY, b varchar(9), c text) CHARSET latin1")
    first = tracker.definition("d", "t")
    tracker.apply_statement("d", "ALTER TABLE t ADD x int FIRST, CONVERT TO CHARACTER SET latin1")
    second = tracker.definition("d", "t")
    assert first is not None
    assert second is not None
    assert shape(second) == ["x int", "a int", "b varchar", "c text"]
    assert all(one is other for one, other in zip(first.columns, second.columns[1:], strict=True))


def test_definitions_are_bounded() -> None:
    tracker = DdlTracker(limits=Limits(definition_columns=100), keep_timeline=False)
    for i in range(200):  # one at a time: no bound is met
        tracker.apply_statement("d", f"CREATE TABLE t{i} ({names(40)})")
        tracker.apply_statement("d", f"DROP TABLE t{i}")
    assert tracker.unfollowed == []
    for i in range(5):
        tracker.apply_statement("d", f"CREATE TABLE t{i} ({names(40)})")
    assert [(t.name, len(t.columns)) for t in tracker] == [("t0", 40), ("t1", 40)]
    assert [u.table for u in tracker.unfollowed] == ["d.t2", "d.t3", "d.t4"]
    assert "Limits.definition_columns=100" in tracker.unfollowed[0].reason
    assert tracker.timeline == []
    # A table that grows beyond it is no longer known: never under names that it no longer has.
    assert tracker.apply_statement("d", f"ALTER TABLE t0 {numbered('ADD x{i} int', 60)}") == {"d.t0"}
    assert tracker.definition("d", "t0") is None


def test_what_a_timeline_keeps_is_bounded() -> None:
    tracker = DdlTracker(limits=Limits(definition_columns=1000))
    tracker.apply_statement("d", f"CREATE TABLE t ({numbered('c{i} char(1)', 100)}) CHARSET latin1")
    for charset in ["utf8mb4", "latin1"] * 10:
        tracker.apply_statement("d", f"ALTER TABLE t CONVERT TO CHARACTER SET {charset}")
    distinct = {id(c) for change in tracker.timeline if change.definition for c in change.definition.columns}
    assert 800 < len(distinct) <= 1000
    assert tracker.unfollowed[0].table == "d.t"


def test_a_statement_is_read_up_to_its_limit() -> None:
    tracker = DdlTracker(Schema.load(START), limits=Limits(statement_bytes=60))
    header = EventHeader(77, 0, EventType.QUERY, 1, 0, 0, 0)
    long = b"ALTER TABLE t ADD x int, ADD y int COMMENT '" + b"x" * 1000 + b"'"
    tracker.apply_event(QueryEvent(*header, 1, 0, 0, QueryStatus(), "d", long))
    assert [(u.table, "60" in u.reason or "not closed" in u.reason) for u in tracker.unfollowed] == [
        ("d.t", True)
    ]
    assert tracker.definition("d", "t") is None


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("ALTER TABLE t RENAME COLUMN v TO w", False),  # of a temporary table that hides this one, maybe
        ("CREATE UNIQUE INDEX u ON t (v)", False),
        ("DROP INDEX `PRIMARY` ON t", False),
        ("TRUNCATE t", True),
        ("CREATE TEMPORARY TABLE t (w int)", True),
        ("DROP TEMPORARY TABLE t", True),
        ("CREATE TABLE u LIKE t", True),
        ("ALTER TABLE other ADD x int", True),
    ],
)
def test_a_statement_that_depends_on_its_session(text: str, known: bool) -> None:
    tracker = DdlTracker()
    tracker.apply_statement("d", "CREATE TABLE t (id int PRIMARY KEY, v int)")
    before = tracker.definition("d", "t")
    header = EventHeader(77, 0, EventType.QUERY, 1, 0, 0, 4)
    tracker.apply_event(QueryEvent(*header, 1, 0, 0, QueryStatus(), "d", text.encode()))
    assert tracker.definition("d", "t") == (before if known else None)
    assert [one.table for one in tracker.unfollowed] == ([] if known else ["d.t"])
    assert (tracker.definition("d", "u") is not None) == (text == "CREATE TABLE u LIKE t")


def test_a_server_that_stores_names_in_lower_case_is_followed_however_they_are_written() -> None:
    """With lower_case_table_names=1: renames, and the databases that give tables their character set."""
    tracker = DdlTracker(lower_case=True)
    for sql in (
        "CREATE DATABASE Shop CHARACTER SET latin1",
        "CREATE TABLE Shop.Orders (note TEXT)",
        "ALTER TABLE shop.ORDERS RENAME TO SHOP.Bills",
        "ALTER DATABASE sHop CHARACTER SET koi8r",
        "CREATE TABLE shop.Notes (note TEXT)",
    ):
        tracker.apply_statement("", sql, server_collation=255)  # of utf8mb4
    assert {table.full_name: table.columns[0].charset for table in tracker} == {
        "shop.bills": "latin1",
        "shop.notes": "koi8r",
    }
    tracker.apply_statement("", "CREATE OR REPLACE DATABASE SHOP", mariadb=True)
    assert list(tracker) == []


@pytest.mark.parametrize("text", ["ALTER TABLE T ADD c INT", "DROP TABLE T", "ALTER TABLE T RENAME TO u"])
def test_a_table_that_capitals_may_mean_is_no_longer_known(text: str) -> None:
    """A log does not show whether its server distinguishes names by case."""
    for lower_case, unfollowed in ((None, ["d.t"]), (False, [])):
        tracker = DdlTracker(lower_case=lower_case)
        tracker.apply_statement("d", "CREATE TABLE t (a INT)")
        tracker.apply_statement("d", text)
        assert (tracker.definition("d", "t") is None) == bool(unfollowed)
        assert [one.table for one in tracker.unfollowed] == unfollowed
    tracker = DdlTracker()
    for sql in ("CREATE TABLE t (a INT)", "CREATE TABLE T (a INT)", text):
        tracker.apply_statement("d", sql)
    assert tracker.definition("d", "t") is not None and tracker.unfollowed == []
