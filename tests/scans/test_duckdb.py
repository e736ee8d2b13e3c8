"""SQL over logs: what DuckDB finds against the servers' truth, and which columns are decoded for it."""

from __future__ import annotations

import importlib
import sys
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from support.decoded import columns_decoded
from support.golden import DATA, Golden, golden_logs
from support.logs import GTID
from support.writer import Log as LogWriter
from support.writer import Table

import binlog_core
from binlog_core import Limits, Log, SchemaError
from binlog_core._base.change_columns import CHANGE_COLUMNS
from binlog_core._base.json_text import encode_plain

duckdb = pytest.importorskip("duckdb")
pytest.importorskip("pytz")

import binlog_core.scans.duckdb as sql_over_logs  # noqa: E402  (needs duckdb)
from binlog_core.scans.scans import find_tables  # noqa: E402

TABLE = "shop.naïve_table_a"


@pytest.fixture
def log() -> Iterator[Log]:
    with binlog_core.open(GTID.path) as found:
        yield found


def ask(log: Log, sql: str) -> list[tuple[Any, ...]]:
    return sql_over_logs.query(log, sql).fetchall()


SIMPLE = [
    g for g in golden_logs() if g.name.endswith(("/types_ints", "/dml_engines", "/gtid", "/maria_gtid"))
]


@pytest.mark.parametrize("golden", [g for g in SIMPLE if not g.name.startswith("mysql56")], ids=str)
def test_row_images_are_those_of_the_truth(golden: Golden) -> None:
    want: Counter[tuple[str, str]] = Counter()
    for change in golden.truth:
        name = f"{change['db']}.{change['table']}"
        kinds = {"update": ("update_preimage", "update_postimage")}.get(change["op"], (change["op"],))
        want.update((name, kind) for kind in kinds)
    got: Counter[tuple[str, str]] = Counter()
    with binlog_core.open(golden.path) as log:
        for name in find_tables(log):
            found = ask(log, f"select _change_type, count(*) from changes('{name}') group by all")
            got.update({(name, kind): count for kind, count in found})
    assert got == want


def test_who_deleted_this_row_when_in_which_transaction(log: Log) -> None:
    (delete,) = [c for c in GTID.truth if c["op"] == "delete"]
    event = next(e for e in GTID.events if e["type"] == "Delete_rows")
    begin = max(e["pos"] for e in GTID.events if e["type"] == "Gtid" and e["pos"] < event["pos"])
    gtid = next(e["info"] for e in GTID.events if e["pos"] == begin).split("'")[1]
    commit = next(e for e in GTID.events if e["type"] == "Xid" and e["pos"] > event["pos"])
    found = ask(
        log,
        "select c.id, c._gtid, c._position, c._server_id, t.begin_position, t.end_position, t.gtid, t.outcome"
        f" from changes('{TABLE}') c join transactions t on t.begin_position = c._transaction"
        " where c._change_type = 'delete'",
    )
    assert found == [
        (
            delete["before"]["id"],
            gtid,
            event["pos"],
            event["server_id"],
            begin,
            commit["end"],
            gtid,
            "committed",
        )
    ]


def test_a_table_goes_by_its_name(log: Log, tmp_path: Path) -> None:
    for name in (TABLE, '"shop"."naïve_table_a"', "shop.Route66_b", "SHOP.ROUTE66_B"):
        table = TABLE if "na" in name else "shop.Route66_b"
        want = ask(log, f"select count(*) from changes('{table}')")
        assert ask(log, f"select count(*) from {name}") == want
    con = duckdb.connect(tmp_path / "own.duckdb")
    sql_over_logs.register(con, log)
    sql_over_logs.register(con, log)
    assert con.sql("select count(*) from shop.Route66_b").fetchall() == [(3,)]
    assert (
        con.sql(
            "select schema_name from duckdb_schemas() where database_name = 'own' and not internal"
        ).fetchall()
        == []
    )
    with pytest.raises(SchemaError, match=r"'shop.rute66_b'.*near: shop.Route66_b"):
        ask(log, "from shop.rute66_b")
    with pytest.raises(SchemaError, match=r"'rute66_b'.*near: shop.Route66_b"):
        ask(log, f"from {TABLE} join shop.rute66_b using (id)")


def test_a_name_alone_is_enough_where_only_one_database_has_it(log: Log) -> None:
    want = ask(log, "select count(*) from changes('shop.Route66_b')")
    assert ask(log, "select count(*) from route66_b") == want
    assert ask(log, 'select count(*) from "Route66_b" join route66_b using (id) where false') == [(0,)]
    with binlog_core.open(hostile_names()) as opened:
        assert ask(opened, "select id from orders") == [(1,)]
        assert ask(opened, "select count(*) from events") == [(21,)]  # its own, not shop.events
        with pytest.raises(SchemaError, match=r"several tables are called 't': `a\.b`\.t, a\.t"):
            ask(opened, "select id from t")
    con = duckdb.connect()
    con.execute("create table route66_b as select 'mine' as whose")
    assert sql_over_logs.query(log, "select whose from route66_b", con).fetchall() == [("mine",)]


def test_names_of_the_user_come_first(log: Log) -> None:
    con = duckdb.connect()
    con.execute("create schema shop; create table shop.Route66_b as select 'mine' as whose")
    sql_over_logs.register(con, log)
    assert con.sql("select whose from shop.Route66_b").fetchall() == [("mine",)]
    assert con.sql("select count(*) from changes('shop.Route66_b')").fetchall() == [(3,)]


def test_changes_of_all_tables(log: Log) -> None:
    counts = Counter((f"{c['db']}.{c['table']}", c["op"]) for c in GTID.truth)
    found = ask(
        log, "select _table, replace(_change_type, '_postimage', ''), count(*) from changes()"
        " where _change_type <> 'update_preimage' group by all",
    )  # fmt: skip
    assert {(table, kind): count for table, kind, count in found} == counts
    ids = ask(log, "select (image->>'id')::int from changes() where _change_type = 'delete' order by 1")
    assert ids == [(c["before"]["id"],) for c in GTID.truth if c["op"] == "delete"]
    assert ask(log, "select count(image) from changes()") == [
        (sum(1 + (c["op"] == "update") for c in GTID.truth),)
    ]


def test_images_as_json_are_those_of_the_values() -> None:
    checked = 0
    for golden in golden_logs("mysql97/types_*"):
        if golden.needs_schema or golden.open_arguments:
            continue
        with binlog_core.open(golden.path) as log:
            want: Counter[tuple[str, str]] = Counter()
            for batch in log.batches():
                images = batch.to_pylist(change_columns=False)
                want.update((batch.table.full_name, encode_plain(image).decode()) for image in images)
        with binlog_core.open(golden.path) as log:
            assert Counter(ask(log, "select _table, image from changes()")) == want
        checked += want.total()
    assert checked > 100


def test_before_and_after_side_by_side(log: Log, decoded: set[str]) -> None:
    changes = [c for c in GTID.truth if f"{c['db']}.{c['table']}" == TABLE]
    found = ask(
        log, f"select _change_type, before_id, after_id, before_n, after_n from changed_rows('{TABLE}')"
        " order by _position, _row",
    )  # fmt: skip

    def value(change: dict[str, Any], side: str, name: str) -> Any:
        image = change[side]
        return None if image is None or image.get(name) is None else int(image[name])

    assert decoded == {"id", "n"}
    assert found == [
        (c["op"], *(value(c, side, name) for name in ("id", "n") for side in ("before", "after")))
        for c in changes
    ]
    assert {c["op"] for c in changes} == {"insert", "update", "delete"}
    assert ask(log, f"select count(*) from changed_rows('{TABLE}')") == [(len(changes),)]


def test_events(log: Log) -> None:
    want = [(e["pos"], e["type"]) for e in GTID.events if e["pos"] != e["end"]]
    assert ask(log, "select position, type from events order by all")[: len(want)] == want
    found = ask(log, "select distinct table_name from events where type = 'Delete_rows'")
    assert found == [(TABLE,)]


@pytest.mark.parametrize("rows", [1, 2, 1000])
def test_transactions(rows: int) -> None:
    commits = [(e["end"]) for e in GTID.events if e["type"] == "Xid"]
    images = sum(2 if c["op"] == "update" else 1 for c in GTID.truth)
    with binlog_core.open(GTID.path, limits=binlog_core.Limits(group_rows=rows)) as log:
        found = ask(log, "select end_position, row_images from transactions order by 1")
    assert [end for end, _ in found] == commits
    assert sum(count for _, count in found) == images


# What each query needs of naïve_table_a's columns; DuckDB counts by the first column.
QUERIES = [
    ("select id from changes('{}') where n > 0", {"id", "n"}),
    ("select count(*) from changes('{}')", {"id"}),
    ("select c.ID from changes('{}') as c order by c.s", {"id", "s"}),
    ("with x as (select id, d from changes('{}')) select sum(d) from x", {"d"}),
    ("select * from changes('{}')", {"id", "n", "s", "d", "extra"}),
    ("select * exclude (id) from changes('{}')", {"n", "s", "d", "extra"}),
    ("select c from changes('{}') c", {"id", "n", "s", "d", "extra"}),
    ("from changes('{}')", {"id", "n", "s", "d", "extra"}),
    ("select a.id from changes('{}') a join changes('{}') b using (n)", {"id", "n"}),
    ("select _gtid, _position from changes('{}') where _change_type = 'delete'", set()),
]


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    return columns_decoded(monkeypatch)


@pytest.mark.parametrize(("sql", "want"), QUERIES)
def test_only_needed_columns_are_decoded(log: Log, decoded: set[str], sql: str, want: set[str]) -> None:
    pytest.importorskip("pyarrow")
    con = duckdb.connect()
    sql_over_logs.register(con, log)
    assert con.sql(sql.format(TABLE, TABLE)).fetchall()
    assert decoded == want


def test_a_view_over_changes_decodes_what_is_asked_of_it(log: Log, decoded: set[str]) -> None:
    pytest.importorskip("pyarrow")
    con = duckdb.connect()
    sql_over_logs.register(con, log)
    con.execute(f"create temp view our_changes as from changes('{TABLE}')")
    assert con.sql("select max(n) from our_changes").fetchall()
    assert decoded == {"n"}


@pytest.mark.parametrize("sql", [sql for sql, _ in QUERIES])
def test_without_pyarrow(log: Log, monkeypatch: pytest.MonkeyPatch, sql: str) -> None:
    """The same answers; every column is decoded."""
    pytest.importorskip("pyarrow")
    want = Counter(map(str, ask(log, sql.format(TABLE, TABLE))))
    monkeypatch.delitem(sys.modules, "binlog_core.scans.dataset", raising=False)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(binlog_core.MissingExtraError, match="pyarrow"):
        importlib.import_module("binlog_core.scans.dataset")
    assert Counter(map(str, ask(log, sql.format(TABLE, TABLE)))) == want


TYPED = [
    g
    for pattern in ("mysql97/types_*", "maria118/types_*", "*/meta_full")
    for g in golden_logs(pattern)
    if not g.open_arguments
]


@pytest.mark.parametrize("golden", TYPED, ids=str)
def test_filters_find_what_the_rows_have(golden: Golden) -> None:
    """A filter on each column, which the scan applies, against DuckDB's own over a copy of the rows."""
    with binlog_core.open(golden.path) as log:
        con = duckdb.connect()
        for table in sql_over_logs.register(con, log):
            con.execute(f"create or replace temp table copied as from changes('{table}')")
            columns = [(row[0], row[1]) for row in con.execute("describe copied").fetchall()]
            if "types_" in golden.name:  # what each change has besides is alike in all logs
                columns = [(name, kind) for name, kind in columns if name not in CHANGE_COLUMNS]
            tests = []
            for name, kind in columns:
                quoted = '"' + name.replace('"', '""') + '"'
                some = con.execute(f"select {quoted}::varchar from copied where {quoted} is not null limit 1")
                tests.append(f"{quoted} is null")
                for (text,) in some.fetchall():
                    text = text.replace("'", "''")
                    tests += [f"{quoted} {sign} '{text}'::{kind}" for sign in ("=", "<")]
            got = [
                con.execute(f"select count(*) from changes('{table}') where {one}").fetchall()
                for one in tests
            ]
            counts = con.execute(
                f"select {', '.join(f'count(*) filter ({one})' for one in tests)} from copied"
            )
            assert [one for ((one,),) in got] == list(counts.fetchall()[0]), tests


def test_a_filter_of_text_that_was_replaced() -> None:
    """U+FFFD sorts before texts that the replaced bytes sort after."""
    pc = pytest.importorskip("pyarrow.compute")
    from support.writer import Log as Written
    from support.writer import Table

    from binlog_core import dataset

    written = Written("8.4.0")
    written.begin()
    written.insert(Table("a", "t", [("s", "VARCHAR(20)")]), [{"s": "ab"}, {"s": b"\xff"}, {"s": "😀😀"}])
    written.commit()
    with binlog_core.open(written.getvalue()) as opened:
        found = dataset.changes(opened, "a.t", text_errors="replace")
        some = found.to_table(columns=["s"], filter=pc.field("s") < "😀").to_pydict()
    assert some == {"s": ["ab", "\ufffd"]}


def test_decimals_that_duckdb_lacks_are_text() -> None:
    golden = next(g for g in golden_logs() if g.name == "mysql97/types_decimals")
    want = {c["after"]["Größe_d65_0"] for c in golden.truth if c["op"] == "insert"}
    with binlog_core.open(golden.path) as log:
        table = f"{golden.truth[0]['db']}.{golden.truth[0]['table']}"
        found = ask(log, f"select \"Größe_d65_0\" from changes('{table}') where _change_type = 'insert'")
    assert {text for (text,) in found} == want


def test_columns_of_all_definitions(log: Log) -> None:
    """`extra` was added by ALTER TABLE: null before, and the truth's values after."""
    want = [
        (c[side]["id"], c[side].get("extra"))
        for c in GTID.truth
        if f"{c['db']}.{c['table']}" == TABLE
        for side in ("before", "after")
        if c[side] is not None
    ]
    found = ask(log, f"select id, extra from changes('{TABLE}') order by _position, _row, _change_type desc")
    assert found == want
    assert {extra for _, extra in want} > {None}


def test_register(log: Log) -> None:
    con = duckdb.connect()
    tables = sql_over_logs.register(con, log)
    assert tables == ["shop.Route66_b", TABLE]
    for name in ("Route66_b", "shop.Route66_b"):
        for _ in range(2):  # read again each time
            assert con.execute(f"select count(*) from changes('{name}')").fetchall() == [(3,)]
    assert con.execute("select count(*) from transactions").fetchall() == [(11,)]
    con = duckdb.connect()
    assert sql_over_logs.register(con, GTID.path, tables="shop.Route66_b") == ["shop.Route66_b"]


def test_several_files(tmp_path: Path) -> None:
    for number, name in ((1, "mysql97/gtid"), (2, "mysql97/stop")):
        (tmp_path / f"bin.00000{number}").write_bytes((DATA / f"{name}.binlog").read_bytes())
    with binlog_core.open(tmp_path) as log:
        found = ask(log, "select file, count(*) from events group by all order by all")
    assert [Path(file).name for file, _ in found] == ["bin.000001", "bin.000002"]


def test_unknown_table_and_column(log: Log) -> None:
    with pytest.raises(SchemaError, match=r"'shop.rute66_b'.*near: shop.Route66_b"):
        ask(log, "select * from changes('shop.rute66_b')")
    known = {"evens": "events", "shop.rute66_b": "shop.Route66_b", "changes": r"changes\(\)"}
    for written, near in known.items():
        with pytest.raises(SchemaError, match=rf"'{written}'.*near: {near}"):
            ask(log, f"select * from {written}")
    with pytest.raises(SchemaError, match=r"'x'; known: .*events, .*shop.Route66_b, .*transactions"):
        ask(log, "select * from x")
    with pytest.raises(duckdb.BinderException, match="extra"):
        ask(log, f"select exta from changes('{TABLE}')")
    with pytest.raises(duckdb.ParserException):
        ask(log, "selec 1")


def test_a_type_that_was_widened_in_mid_log() -> None:
    writer = LogWriter("8.0.36")
    writer.begin()
    narrow = Table("shop", "t", [("id", "INT"), ("d", "DECIMAL(5,2)")])
    writer.insert(narrow, [{"id": -1, "d": Decimal("1.50")}])
    wide = Table("shop", "t", [("id", "BIGINT"), ("d", "DECIMAL(20,4)")])
    writer.insert(wide, [{"id": 2**40, "d": Decimal("2.5000")}])
    writer.insert(narrow, [{"id": 7, "d": None}])
    writer.commit()
    with binlog_core.open(writer.getvalue()) as opened:
        rows = ask(opened, "select id, d from changes('shop.t') order by _position")
        assert rows == [(-1, Decimal("1.5")), (2**40, Decimal("2.5")), (7, None)]
        table = binlog_core.dataset.changes(opened, "shop.t").to_table(columns=["id"])
        assert sorted(table["id"].to_pylist()) == [-1, 7, 2**40]


def many_tables(count: int, columns: int) -> bytes:
    log = LogWriter()
    for i in range(count):
        log.begin()
        log.insert(
            Table("wide", f"t{i}", [(f"c{k}", "INT") for k in range(columns)]),
            [dict.fromkeys((f"c{k}" for k in range(columns)), i)],
        )
        log.commit()
    return log.getvalue()


def test_a_query_knows_the_tables_that_it_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB keeps every column of each table that it knows: hundreds of wide ones took gigabytes."""
    made: list[str] = []
    real = sql_over_logs.ChangesScan

    def scan(log: Any, name: str, *arguments: Any, **options: Any) -> Any:
        made.append(name)
        return real(log, name, *arguments, **options)

    monkeypatch.setattr(sql_over_logs, "ChangesScan", scan)
    with binlog_core.open(many_tables(20, 50), limits=Limits(sql_columns=100)) as log:
        assert sql_over_logs.query(log, "SELECT c0 FROM changes('wide.t7')").fetchall() == [(7,)]
        assert set(made) == {"wide.t7"}
        # Also where no text of the query is the name.
        found = sql_over_logs.query(log, "SELECT c0 FROM changes('wide.' || 't' || 8)")
        assert found.fetchall() == [(8,)]
        assert set(made) == {"wide.t7", "wide.t8"}
        with pytest.raises(SchemaError, match=r"Limits\.sql_columns=100: choose some with tables="):
            sql_over_logs.register(sql_over_logs.connect(), log)
        with pytest.raises(SchemaError, match=r"wide\.t99"):
            sql_over_logs.query(log, "SELECT c0 FROM changes('wide.t99')")


def hostile_names() -> bytes:
    """Tables whose names differ in case only, and one that is called as a view is."""
    from support.writer import Log as Written
    from support.writer import Table

    written = Written("8.4.0")
    for number, (database, name) in enumerate(
        (("shop", "Orders"), ("shop", "orders"), ("shop", "events"), ("a", "t"), ("a.b", "t"))
    ):
        table = Table(database, name, [("id", "INT")])
        written.begin(database)
        written.insert(table, [{"id": number}])
        written.commit()
    return written.getvalue()


@pytest.mark.parametrize(
    ("name", "want"), [("shop.Orders", 0), ("shop.orders", 1), ("orders", 1), ("Orders", 0), ("events", 2)]
)
def test_names_are_exact(name: str, want: int) -> None:
    with binlog_core.open(hostile_names()) as opened:
        assert sql_over_logs.query(opened, f"SELECT id FROM changes('{name}')").fetchall() == [(want,)]
        assert sql_over_logs.query(opened, "SELECT count(*) FROM events").fetchall() == [(21,)]
        with pytest.raises(binlog_core.SchemaError, match=r"'shop\.ORDERS'"):
            sql_over_logs.query(opened, "FROM changes('shop.ORDERS')")


def test_a_database_is_not_the_beginning_of_another_name() -> None:
    with binlog_core.open(hostile_names(), tables="a.*") as opened:
        assert [change.after for change in opened.rows()] == [{"id": 3}]
    with binlog_core.open(hostile_names(), tables="a.b.*") as opened:
        assert [change.after for change in opened.rows()] == [{"id": 4}]


def test_a_name_is_never_a_python_variable(log: Log) -> None:
    tables = [1, 2]
    with pytest.raises(SchemaError, match="'tables'"):
        sql_over_logs.query(log, "SELECT * FROM tables")
    assert tables


def test_transactions_of_mariadb_have_a_commit_time() -> None:
    """It is that of their rows."""
    with binlog_core.open(DATA / "maria118" / "types_ints.binlog") as opened:
        found = sql_over_logs.query(
            opened,
            "SELECT count(*), count(commit_timestamp), min(commit_timestamp = timestamp) FROM transactions",
        ).fetchall()
    assert found[0][0] == found[0][1] > 0
    assert found[0][2]


def test_forms_of_the_command_line() -> None:
    pytest.importorskip("typer")
    from support.cli import run

    path = DATA / "mysql97" / "types_ints.binlog"
    wide = "select " + ", ".join(f"{i} as column_{i}" for i in range(40))
    ran = run("sql", wide, path, "-f", "vertical")
    assert [line.strip() for line in ran.lines] == ["-- row 1"] + [f"column_{i}: {i}" for i in range(40)]
    ran = run("sql", wide, path, "-f", "table")
    assert "of 40 columns are left out" in ran.text
    ran = run("sql", "select nope\nfrom nowhere", path)
    assert ran.code == 1
    assert "\\n" not in ran.err
    assert len(ran.err.splitlines()) == 1
