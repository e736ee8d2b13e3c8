"""Undo and history of exports give the same as those of the logs."""

from __future__ import annotations

import datetime as dt
import gzip
import io
import json
import shutil
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.cli import run
from support.exported import export
from support.golden import DATA, Golden, golden_logs
from support.s3 import CREDENTIALS, store
from support.writer import Log, Table

from binlog_core import BinlogError
from binlog_core.inspect.history import Version, history, row_as_of
from binlog_core.lake.exports import reading
from binlog_core.lake.exports.manifests import find_export
from binlog_core.replay import UndoPlan, plan_undo

pytestmark = pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")

UUID = "00112233-4455-6677-8899-aabbccddeeff"
LOG = DATA / "mysql97/dml_mixed.binlog"
COLUMNS = [("id", "INT"), ("a", "INT"), ("at", "DATETIME")]
T = Table("shop", "t", COLUMNS, primary_key=["id"])
TELLING = [
    g for g in golden_logs() if g.path.stem.startswith(("types_", "image_", "dml_")) and not g.open_arguments
]
ALL = {"partial": True, "ops": ["insert", "update", "delete"]}  # says what to reverse


def row(number: int, a: int = 0, at: Any = dt.datetime(2026, 1, 2)) -> dict[str, Any]:
    return {"id": number, "a": a, "at": at}


def write_log(path: Path, *transactions: list[tuple[Any, ...]]) -> Path:
    """Each transaction is a list of (operation, rows) or (statement,)."""
    log = Log("8.4.0")
    for number, changes in enumerate(transactions, 1):
        log.gtid(UUID, number)
        log.begin("shop")
        for operation, *rows in changes:
            if rows:
                getattr(log, operation)(T, *rows)
            else:
                log.query(operation, "shop")
        log.commit()
    path.write_bytes(log.getvalue())
    return path


def literals(plan: UndoPlan) -> list[tuple[Any, ...]]:
    return [(r.table, r.action, r.before and [*r.before], r.after and [*r.after]) for r in plan.rows]


def script(plan: UndoPlan) -> list[bytes]:
    file = io.BytesIO()
    plan.write(file)
    return [line for line in file.getvalue().splitlines() if not line.startswith(b"#")]


def without_dates(plan: UndoPlan) -> list[tuple[Any, ...]]:
    """Rows without the invalid dates, for which an export has NULL."""

    def image(values: Any, columns: Any) -> Any:
        dates = ("DATE", "DATETIME", "TIMESTAMP")
        return values and [v for v, c in zip(values, columns, strict=True) if c.kind.name not in dates]

    return [
        (r.table, r.action, image(r.before, r.plan.columns), image(r.after, r.plan.columns))
        for r in plan.rows
    ]


@pytest.mark.parametrize("golden", TELLING, ids=str)
def test_each_value_is_the_log_s_own(golden: Golden, tmp_path: Path) -> None:
    try:
        wanted = plan_undo(golden.path, **ALL)
    except BinlogError:
        pytest.skip("the log does not have the column names")
    out = export(golden.path, tmp_path / "out")
    found = plan_undo(str(out), **ALL)
    dated = json.loads((out / "_manifest.json").read_text())["logs"][0]["counts"].get("invalid_dates")
    if "charsets" in golden.name:  # of sjis not each code is known: see test_values
        assert [one[:2] for one in literals(found)] == [one[:2] for one in literals(wanted)]
    elif dated:
        assert without_dates(found) == without_dates(wanted)
    else:
        assert script(found) == script(wanted)
        assert literals(found) == literals(wanted)


def test_delta(tmp_path: Path) -> None:
    out = export(LOG, tmp_path / "out", format="delta")
    wanted = plan_undo(LOG, tables="shop.ledger_b", start=3735, stop=4166)
    found = plan_undo(str(out), tables="shop.ledger_b", start=3735, stop=4166)
    assert script(found) == script(wanted)
    assert len(found.ready()) == 4


@pytest.mark.parametrize("format", ["parquet", "delta"])
def test_in_an_object_store(format: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = plan_undo(LOG, tables="shop.ledger_b", start=3735, stop=4166)
    with store("lake") as endpoint:
        options = {**CREDENTIALS, "endpoint_override": endpoint}
        out = export(LOG, "s3://lake/out", format=format, storage_options=options)
        found = plan_undo(out, tables="shop.ledger_b", start=3735, stop=4166, storage_options=options)
        assert script(found) == script(wanted)
        (wanted_version,) = history(LOG, "shop.ledger_b", {"id": 1}, stop=4166)[-1:]
        (version,) = history(out, "shop.ledger_b", {"id": 1}, stop=4166, storage_options=options)[-1:]
        assert version.change.after == wanted_version.change.after
        for name, value in {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ACCESS_KEY_ID": CREDENTIALS["access_key"],
            "AWS_SECRET_ACCESS_KEY": CREDENTIALS["secret_key"],
            "AWS_REGION": CREDENTIALS["region"],
        }.items():
            monkeypatch.setenv(name, value)
        ran = run("undo", out, "--tables", "shop.ledger_b", "--start", "3735", "--stop", "4166")
        assert wanted.rows
        assert all(f"({one.key.removeprefix('id=')}, " in ran.text for one in wanted.rows)


def test_a_log_that_was_packed_since(shop: Path, tmp_path: Path) -> None:
    """It may be given by its packed name or by the former one."""
    packed = tmp_path / "bin.000001.gz"
    packed.write_bytes(gzip.compress(shop.read_bytes()))
    for log, name in ((packed, "bin.000001"), (shop, "bin.000001.gz"), (packed, "bin.000001.gz")):
        out = str(export(log, tmp_path / f"{log.name}-{name}"))
        found = plan_undo(out, tables="shop.t", start=(name, 4), partial=True)
        assert [one.key for one in found.rows] == ["id=1"]


def test_several_splits_and_logs(tmp_path: Path) -> None:
    """The later change of a row is in the next log."""
    first = write_log(tmp_path / "bin.000001", [("update", [(row(1), row(1, 5)), (row(2), row(2, 5))])])
    second = write_log(tmp_path / "bin.000002", [("update", [(row(2, 5), row(2, 6))])])
    out = export([first, second], tmp_path / "out", split_size=100)
    for start, stop in (
        ((str(first), 4), (str(second), 4)),
        (("bin.000001", 4), ("bin.000002", 4)),
    ):
        found = plan_undo(str(out), start=start, stop=stop)
        assert [(one.key, one.state) for one in found.rows] == [("id=2", "changed since"), ("id=1", "ready")]
        assert f"{second.name}:" in found.rows[0].why
    with pytest.raises(BinlogError, match=r"has 2 logs: expected FILE:POSITION"):
        plan_undo(str(out), start=4)
    with pytest.raises(BinlogError, match=r"does not contain the log bin\.000003"):
        plan_undo(str(out), start=("bin.000003", 4))


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return write_log(
        tmp_path / "bin.000001",
        [("insert", [row(1), row(2)])],
        [("update", [(row(1), row(1, 7)), (row(2), row(2, 8))])],
        [("delete", [row(2, 8)])],
        [("TRUNCATE TABLE t",)],
    )


@pytest.mark.parametrize(
    "options",
    [
        {"where": "after.a = 8"},
        {"where": "_change_type = 'delete'"},
        {"ops": "update"},
        {"ops": ["insert", "delete"]},
        {"tables": "shop.*", "exclude_tables": "nothing.*"},
        {"gtids": f"{UUID}:2"},
        {"exclude_gtids": f"{UUID}:2"},
        {"server_id": 1},
    ],
    ids=str,
)
def test_choices(shop: Path, tmp_path: Path, options: dict[str, Any]) -> None:
    out = str(export(shop, tmp_path / "out", metadata=("_gtid", "_server_id")))
    wanted = plan_undo(shop, partial=True, **options)
    assert literals(plan_undo(out, partial=True, **options)) == literals(wanted)
    assert [one.partition(", 20")[0] for one in plan_undo(out, partial=True, **options).transactions] == [
        one.partition(", 20")[0] for one in wanted.transactions
    ]


def test_times(shop: Path, tmp_path: Path) -> None:
    out = str(export(shop, tmp_path / "out"))
    late = dt.datetime(2100, 1, 1)
    assert plan_undo(out, stop=late, partial=True).rows
    assert not plan_undo(out, start=late, partial=True).rows


def test_statements_are_named(shop: Path, tmp_path: Path) -> None:
    out = str(export(shop, tmp_path / "out"))
    with pytest.raises(BinlogError, match=r"reversed.*TRUNCATE TABLE t"):
        plan_undo(out, tables="shop.t")
    assert any("TRUNCATE" in note for note in plan_undo(out, tables="shop.t", partial=True).notes)
    assert plan_undo(out, tables="other.t").notes == []


def test_statements_after_the_range_are_read_as_in_their_session(tmp_path: Path) -> None:
    log = Log("8.4.0")
    log.begin("shop")
    log.delete(T, [row(1)])
    log.commit()
    stop = len(log.getvalue())
    log.query('DROP TABLE "t"', "shop", status=b"\x01" + (4).to_bytes(8, "little"))  # sql_mode: ANSI_QUOTES
    (tmp_path / "bin.000001").write_bytes(log.getvalue())
    for logs in (tmp_path / "bin.000001", str(export(tmp_path / "bin.000001", tmp_path / "out"))):
        made = plan_undo(logs, stop=stop)
        assert [(one.state, one.why.endswith('use shop; DROP TABLE "t"')) for one in made.rows] == [
            ("refused", True)
        ]
        assert len(made.notes) == 1


def test_a_condition_that_fits_nothing(shop: Path, tmp_path: Path) -> None:
    out = str(export(shop, tmp_path / "out"))
    with pytest.raises(BinlogError, match="soup"):
        plan_undo(out, where="soup = 1")


def test_dates_that_no_calendar_has(tmp_path: Path) -> None:
    """In an export they are NULL: where the logs had some, a row that was NULL is not reversed."""
    zero, null = row(3, at="0000-00-00 00:00:00"), row(4, at=None)
    log = write_log(tmp_path / "bin.000001", [("delete", [row(1), zero, null])])
    out = export(log, tmp_path / "out")
    found = plan_undo(str(out), partial=True, tables="shop.t")
    assert {one.key: one.state for one in found.rows} == {
        "id=1": "ready",
        "id=3": "refused",
        "id=4": "refused",
    }
    assert "the log has no value of the column" in found.rows[0].why
    with pytest.raises(BinlogError, match=r"2 rows in the range"):
        plan_undo(str(out), tables="shop.t")
    clean = write_log(tmp_path / "bin.000002", [("delete", [null])])
    found = plan_undo(str(export(clean, tmp_path / "clean")), tables="shop.t")
    assert [one.state for one in found.rows] == ["ready"]


def test_what_is_not_enough(shop: Path, tmp_path: Path) -> None:
    after = export(shop, tmp_path / "after", images="after")
    with pytest.raises(BinlogError, match=r"has no update_preimage.*--images after"):
        plan_undo(str(after), tables="shop.t")
    whole = export(shop, tmp_path / "whole")
    with pytest.raises(BinlogError, match=r"no column _gtid"):
        plan_undo(str(whole), gtids=f"{UUID}:1")
    with pytest.raises(BinlogError, match=r"no column _thread_id"):
        plan_undo(str(whole), where="_thread_id = 5")
    with pytest.raises(ValueError, match=r"schema=: not for an export"):
        plan_undo(str(whole), tables="shop.t", schema={"shop.t": "create table t (id int)"})


def rewrite(out: Path, change: Any) -> None:
    for path in out.glob("shop.t/*.parquet"):
        pq.write_table(change(pq.read_table(path)), path)


def test_damaged_exports(shop: Path, tmp_path: Path) -> None:
    def without(name: str) -> Any:
        return lambda rows: rows.drop_columns([name])

    texts = lambda rows: pa.array(["x"] * rows.num_rows)  # noqa: E731
    for i, (change, why) in enumerate(
        (
            (without("_absent"), "no column _absent"),
            (without("_change_ordinal"), "no column _change_ordinal"),
            (lambda rows: rows.slice(0, rows.num_rows - 2), "an update's row image is missing"),
            (lambda rows: pa.concat_tables([rows, rows]), "duplicate changes"),
            (
                lambda rows: rows.set_column(1, "a", texts(rows)),
                "do not fit the column's type",
            ),
        )
    ):
        out = export(shop, tmp_path / str(i))
        rewrite(out, change)
        with pytest.raises(BinlogError, match=why):
            plan_undo(str(out), tables="shop.t", partial=True)
    rewrite(out, lambda _: pa.table({"x": [1]}))
    shutil.rmtree(out / "shop.t")
    with pytest.raises(BinlogError, match="cannot be read"):
        plan_undo(str(out), tables="shop.t")


def test_a_file_that_is_damaged(shop: Path, tmp_path: Path) -> None:
    out = export(shop, tmp_path / "out")
    (path,) = out.glob("shop.t/*.parquet")
    data = path.read_bytes()
    path.write_bytes(data[:4] + bytes(len(data) // 4) + data[4 + len(data) // 4 :])
    with pytest.raises(BinlogError, match="cannot be read") as caught:
        plan_undo(str(out), tables="shop.t", partial=True)
    assert caught.value.table == "shop.t"


def test_columns_of_the_table_that_are_called_as_metadata(tmp_path: Path) -> None:
    own = {"_position": 2, "_file": 3, "_server_id": 4, "_gtid": 5}
    table = Table("shop", "t", [("id", "INT"), *((name, "INT") for name in own)], primary_key=["id"])
    log = Log("8.4.0")
    log.begin("shop")
    log.delete(table, [{"id": 1, **own}])
    log.commit()
    (tmp_path / "bin.000001").write_bytes(log.getvalue())
    out = str(export(tmp_path / "bin.000001", tmp_path / "out"))
    (found,) = plan_undo(out, tables="shop.t").rows
    assert found.before is not None and [*found.before] == ["1", "2", "3", "4", "5"]
    for needed in ({"server_id": 4}, {"where": "_server_id = 4"}, {"gtids": []}):
        with pytest.raises(BinlogError, match="has no column"):
            plan_undo(out, tables="shop.t", **needed)  # type: ignore[arg-type]


def test_the_manifest_is_read_once(shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = str(export(shop, tmp_path / "out"))
    read = Mock(wraps=find_export)
    monkeypatch.setattr(reading, "find_export", read)
    assert plan_undo(out, ops="delete", partial=True).rows
    assert history(out, "shop.t", {"id": 2})
    row_as_of(out, "shop.t", {"id": 2}, 4)
    assert read.call_count == 3


def test_columns_that_an_image_lacks(tmp_path: Path) -> None:
    path = DATA / "mysql97/image_minimal.binlog"
    wanted, found = (
        plan_undo(one, tables="shop.uq", partial=True) for one in (path, str(export(path, tmp_path / "out")))
    )
    assert literals(found) == literals(wanted)
    assert [(one.state, one.why) for one in found.rows] == [(one.state, one.why) for one in wanted.rows]


def test_xa_transactions(tmp_path: Path) -> None:
    """A transaction that the log only prepares does not count as committed."""
    path = DATA / "mysql97/xa.binlog"
    out = str(export(path, tmp_path / "out"))
    with pytest.raises(BinlogError, match="cannot be reversed"):
        plan_undo(out, ops="insert")
    assert any("only prepared in the log" in note for note in plan_undo(out, **ALL).notes)
    found = [row_as_of(path, "shop.account_a", {"id": number}, 1 << 40) for number in (1, 2, 3)]
    # XA ROLLBACK of the deletion of 1 and the update of 3.
    assert [row and row["n"] for row in found] == [4716716783546786661, 0, 7310393111918566694]
    with pytest.raises(BinlogError, match="expected an export with --xa committed"):
        row_as_of(out, "shop.account_a", {"id": 3}, 1 << 40)
    assert row_as_of(out, "shop.account_a", {"id": 50}, 1 << 40) is not None


def facts_of(versions: list[Version]) -> list[tuple[Any, ...]]:
    return [(v.change.op, v.change.before, v.change.after, v.transaction.gtid) for v in versions]


def test_history(shop: Path, tmp_path: Path) -> None:
    out = str(export(shop, tmp_path / "out", metadata=("_gtid",)))
    for key in ({"id": 1}, {"id": 2}):
        assert facts_of(history(out, "shop.t", key)) == facts_of(history(shop, "shop.t", key))
    places = [one.transaction.begin_position for one in history(shop, "shop.t", {"id": 2})]
    assert [one.transaction.begin_position for one in history(out, "shop.t", {"id": 2})] == places
    for stop in (*places, 1 << 50):
        assert row_as_of(out, "shop.t", {"id": 2}, stop) == row_as_of(shop, "shop.t", {"id": 2}, stop)


def test_history_follows_keys_and_definitions(tmp_path: Path) -> None:
    out = str(export(LOG, tmp_path / "out"))
    for key in ({"k": 101}, {"k": 105}):
        assert [one[:3] for one in facts_of(history(out, "shop.keych", key))] == [
            one[:3] for one in facts_of(history(LOG, "shop.keych", key))
        ]


def test_from_the_command_line(shop: Path, tmp_path: Path) -> None:
    out = str(export(shop, tmp_path / "out"))
    ran = run("undo", out, "--op", "delete", "-t", "shop.t", "--partial")
    assert "INSERT INTO `shop`.`t`" in ran.text
    ran = run("history", "shop.t", "id=2", out, "-f", "jsonl")
    assert [json.loads(line)["op"] for line in ran.lines] == ["insert", "update", "delete"]
    ran = run("undo", out, "--include-gtids", f"{UUID}:1")
    assert ran.code == 1
    assert "no column _gtid" in ran.err
