"""Columns that are left out or masked: in copies, in the log, in histories, and when they are compared."""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("deltalake")
pytest.importorskip("pymysql")

import pyarrow as pa
from support.lake_forms import Form
from support.refused import Sql

from binlog_core import BinlogWarning, MirrorError
from binlog_core.errors import SchemaError
from binlog_core.lake.tables.results import ReportedStatement
from binlog_core.mirror import TableStatus, mirror, resync, verify
from binlog_core.mirror.columns import ColumnRules, ColumnSettings, hashed, read_key
from binlog_core.mirror.state import MirrorState
from binlog_core.schema.given import parse_create_table
from binlog_core.schema.without_rows import table_without_rows

KEY = b"0123456789abcdef"


def mac(value: str | bytes, key: bytes = KEY) -> str:
    data = value.encode() if isinstance(value, str) else value
    return hmac.new(key, data, hashlib.sha256).hexdigest()


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    path.write_bytes(KEY + b"\n")
    return path


def rows(lake: Path, form: Form, folder: str = "refused.p") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = form.read(lake / folder).to_pylist()
    return sorted(found, key=lambda row: (row.get("_commit_version", 0), row["id"] or 0))


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        (pa.array(["ä", None, "", "ä"]), ["ä", None, "", "ä"]),
        (pa.array([b"\x00\xff", None]), [b"\x00\xff", None]),
        (pa.array([-5, 7], pa.int16()), ["-5", "7"]),
        (pa.array(["1.50"]).cast(pa.decimal128(5, 2)), ["1.50"]),
        (pa.array([0], pa.date32()), ["1970-01-01"]),
        (pa.array([0], pa.timestamp("us")), ["1970-01-01 00:00:00.000000"]),
        (pa.array([["r", "b"], []]), ['["r","b"]', "[]"]),
        (pa.array([True]), ["true"]),
        (pa.array([], pa.string()), []),
    ],
)
def test_a_hash_is_that_of_the_text(values: Any, texts: list[Any]) -> None:
    found = hashed(values, KEY)
    assert found.type == pa.string()
    assert found.to_pylist() == [None if one is None else mac(one) for one in texts]


def test_a_later_command_without_the_key_is_told() -> None:
    state = MirrorState("id", "mysql://db1", ("shop.*",), "archive", mask_columns=("shop.users.email",))
    with pytest.raises(MirrorError, match="needs a key: BINLOG_CORE_MASK_KEY in the environment"):
        state.column_settings(None)


@pytest.mark.parametrize(
    ("exclude", "mask", "given", "message"),
    [
        (("users.email",), (), None, r"exclude_columns='users\.email': expected database\.table\.column"),
        ((), ("shop..email",), KEY, "mask_columns="),
        ((), ("shop.users.email",), None, "needs a key: BINLOG_CORE_MASK_KEY"),
        ((), ("shop.users.email",), b"short", "too short: expected 16 bytes or more"),
    ],
)
def test_settings_are_checked(exclude: Any, mask: Any, given: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        ColumnSettings(exclude, mask, given)
    assert "short" not in str(raised.value).replace("too short", "")


def test_a_key_is_read_and_never_shown(tmp_path: Path, key: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_key(key) == KEY
    assert read_key(None) is None
    monkeypatch.setenv("BINLOG_CORE_MASK_KEY", "from the environment")
    assert read_key(None) == b"from the environment"
    with pytest.raises(MirrorError, match="the key of mask_columns cannot be read: No such file"):
        read_key(tmp_path / "none")
    assert "0123456789" not in repr(ColumnSettings((), ("a.b.c",), KEY))
    with pytest.raises(MirrorError, match="more than 65,536 bytes"):
        read_key("/dev/zero")


USERS = "CREATE TABLE users (ID INT PRIMARY KEY, Email TEXT, password TEXT, note TEXT)"
USERS_TABLE: Any = table_without_rows(parse_create_table(USERS, "shop", "users"), mariadb=True)


@pytest.mark.parametrize(
    ("exclude", "mask", "lacks", "masks"),
    [
        ("shop.users.PASSWORD", "shop.users.email", ("password",), ("email",)),
        ("*.*.pass*", "shop.*.[en]*", ("password",), ("email", "note")),
        ("shop.users.note", "shop.users.n*", ("note",), ()),
        ("other.users.note", "shop.other.none", (), ()),
    ],
)
def test_columns_are_found_by_their_names(exclude: str, mask: str, lacks: Any, masks: Any) -> None:
    rules = ColumnSettings((exclude,), (mask,), KEY).rules(parse_create_table(USERS, "shop", "users"))
    assert (rules.lacks, rules.masks) == (lacks, masks)


@pytest.mark.parametrize(
    ("pattern", "message"), [("shop.users.i?", "key can be neither"), ("shop.users.emial", "is not there")]
)
def test_a_key_or_a_wrong_name_is_an_error(pattern: str, message: str) -> None:
    definition = parse_create_table(USERS, "shop", "users")
    for settings in (ColumnSettings((pattern,)), ColumnSettings((), (pattern,), KEY)):
        with pytest.raises(SchemaError, match=message):
            settings.rules(definition)


def test_a_column_that_a_pattern_meant_does_not_disappear() -> None:
    """A pattern of many tables need not be in each; but where a column was masked, it may be renamed."""
    settings = ColumnSettings((), ("shop.*.email", "*.*.pass*"), KEY)
    before = settings.rules(parse_create_table(USERS, "shop", "users"))
    later = parse_create_table(USERS.replace("Email", "contact"), "shop", "users")
    assert settings.rules(later).masks == ("password",)
    with pytest.raises(SchemaError, match=r"not there any more.*column email") as raised:
        settings.rules(later, before)
    assert raised.value.column == "email"
    assert ColumnSettings((), ("*.*.pass*",), KEY).rules(later, before).masks == ("password",)


@pytest.mark.parametrize(
    ("names", "there"),
    [
        (("id", "email", "password", "_absent"), ("id", "email", "_absent")),
        (("id", "Email", "password", "n", "DB_ROW_HASH_1"), ("id", "Email", "n")),
        (("id", "contact", "password"), None),  # renamed
        (("id", "email"), None),
        (("id", "email", "password", "pass_hint"), None),  # new, and matches
    ],
)
def test_rows_of_another_definition_are_not_written(names: Any, there: Any) -> None:
    rules = ColumnRules(("password",), ("email",), (("pass*",), ("email",)))
    rows = pa.record_batch([pa.array(["x"])] * len(names), names=names)
    if there is None:
        with pytest.raises(SchemaError, match="added or removed since the copy"):
            rules.of_log(rows, USERS_TABLE, KEY)
        return
    found = rules.of_log(rows, USERS_TABLE, KEY)
    assert tuple(found.schema.names) == there
    assert found.column(1).to_pylist() == [mac("x")]


@pytest.mark.parametrize(
    ("sql", "concerned"),
    [
        ("ALTER TABLE users CHANGE `Email` contact TEXT", True),
        ("ALTER TABLE users ADD COLUMN pass_hint TEXT", True),
        ("ALTER TABLE users ADD COLUMN age INT DEFAULT 5 COMMENT ''", False),
        ("ALTER TABLE users ADD COLUMN emails INT", False),
        ("ALTER TABLE users ADD COLUMN `a", True),  # it cannot be read
    ],
)
def test_a_statement_that_names_such_a_column_leads_to_a_copy(sql: str, concerned: bool) -> None:
    rules = ColumnRules(("password",), ("email",), (("pass*",), ("email",)))
    statement = ReportedStatement(1, 1, "alter", ("shop.users",), None, False, sql)
    assert rules.concerned([statement]) is concerned
    assert not rules.concerned([statement._replace(kind="create")])
    assert not ColumnRules().concerned([statement])


def test_copied_replayed_and_compared(url: str, sql: Sql, form: Form, key: Path, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    sql("CREATE TABLE p (id INT PRIMARY KEY, secret TEXT, mail VARCHAR(50), born DATE, n INT)")
    sql("INSERT INTO p VALUES (1, 's1', 'a@x', '2000-01-02', 1), (2, 's2', NULL, NULL, 2)")

    def run(**settings: Any) -> TableStatus:
        given = {"tables": "refused.p", "until": "now", "compact": None, **form.settings, **settings}
        (one,) = mirror(url, lake, **given)
        return one

    columns = {
        "exclude_columns": "refused.p.secret",
        "mask_columns": ["refused.*.mail", "refused.p.born"],
        "mask_key_file": key,
        "history": True,
    }
    run(**columns)
    first = {"id": 1, "mail": mac("a@x"), "born": mac("2000-01-02"), "n": 1}
    second = {"id": 2, "mail": None, "born": None, "n": 2}
    assert rows(lake, form) == [first, second]

    sql("SET SESSION binlog_row_image = MINIMAL")  # images without the columns that stay
    sql("UPDATE p SET n = 3 WHERE id = 1")
    sql("UPDATE p SET secret = 'other', mail = 'b@x' WHERE id = 2")
    sql("SET SESSION binlog_row_image = FULL")
    sql("ALTER TABLE p ADD COLUMN later INT")
    sql("INSERT INTO p VALUES (3, 's3', 'a@x', '1999-09-09', 4, 5)")
    run(**columns)
    first, second = {**first, "n": 3, "later": None}, {**second, "mail": mac("b@x"), "later": None}
    third = {"id": 3, "mail": mac("a@x"), "born": mac("1999-09-09"), "n": 4, "later": 5}
    assert rows(lake, form) == [first, second, third]
    told = rows(lake, form, "history/refused.p")
    assert "secret" not in told[0] and {row["mail"] for row in told} == {None, mac("a@x"), mac("b@x")}
    (one,) = verify(lake, mask_key_file=key)
    assert (one.agrees, one.rows) == (True, 3), one
    form.spoil(lake / "refused.p", 1, 3, "mail")
    (one,) = verify(lake, mask_key_file=key)
    assert (one.changed, one.missing) == ([{"id": 1}], [{"id": 3}])
    resync(lake, "refused.p", mask_key_file=key)
    assert rows(lake, form) == [first, second, third]

    sql("ALTER TABLE p RENAME COLUMN secret TO hidden")  # it must not come into the lake under its new name
    assert "is not there" in (run(**columns).reason or "")
    assert rows(lake, form) == [first, second, third]
    found = run(**columns | {"exclude_columns": "refused.p.hid*", "history": False})
    assert (found.stage, rows(lake, form)) == ("following", [first, second, third])

    other = tmp_path / "other"
    other.write_text("another key, also long")
    settings = columns | {"exclude_columns": "refused.p.hid*", "history": False}
    with pytest.raises(MirrorError, match=r"not that of the hashes in refused\.p: give that key"):
        run(**settings | {"mask_key_file": other})
    resync(lake, "refused.p", mask_key_file=other)
    assert rows(lake, form)[0]["mail"] == mac("a@x", other.read_bytes())
    resync(lake, "refused.p", mask_key_file=key)

    still = run(**settings).version
    same = run(**settings | {"exclude_columns": "*.p.hidden"})  # other patterns, but the same columns
    assert same.version == still
    shown = run(**settings | {"mask_columns": "refused.p.mail"})
    assert [str(row["born"]) for row in rows(lake, form)] == ["2000-01-02", "None", "1999-09-09"]
    assert shown.stage == "following"
    run()
    assert [row["hidden"] for row in rows(lake, form)] == ["s1", "other", "s3"]
    kept = (lake / "_mirror" / "state.json").read_text()
    assert KEY.decode() not in kept and "another key" not in kept


@pytest.mark.parametrize(
    "statements",
    [
        ("CREATE TABLE g (id INT PRIMARY KEY, contact TEXT)", "RENAME TABLE p TO p_del, g TO p"),
        ("CREATE OR REPLACE TABLE p (id INT PRIMARY KEY, contact TEXT)",),
        ("ALTER TABLE p /*!50000 RENAME COLUMN mail TO contact */",),
    ],
)
def test_another_table_in_its_place_is_not_written_as_it_is(
    url: str, sql: Sql, form: Form, key: Path, tmp_path: Path, statements: tuple[str, ...]
) -> None:
    """Not to the history, and to no file of the lake, except for the archive."""
    lake = tmp_path / "lake"
    columns = {"mask_columns": "refused.p.mail", "mask_key_file": key, "history": True}
    given = {"tables": "refused.p", "until": "now", "compact": None, **form.settings, **columns}
    sql("CREATE TABLE p (id INT PRIMARY KEY, mail TEXT)")
    mirror(url, lake, archive=tmp_path / "archive", **given)
    for one in statements:
        sql(one)
    sql("INSERT INTO p VALUES (1, 'plain@value')")
    (told,) = mirror(url, lake, archive=tmp_path / "archive", **given)
    assert (told.stage, "is not there" in (told.reason or "")) == ("parked", True)
    files = [one for one in tmp_path.rglob("*") if one.is_file() and tmp_path / "archive" not in one.parents]
    assert files and not [one for one in files if b"plain@value" in one.read_bytes()]


def test_a_hash_of_the_server_is_not_in_the_history(
    url: str, sql: Sql, form: Form, key: Path, tmp_path: Path
) -> None:
    """MariaDB's own hash of a unique text has no key: whoever guesses the text can tell."""
    columns = {"mask_columns": "refused.p.mail", "mask_key_file": key, "history": True}
    given = {"tables": "refused.p", "until": "now", "compact": None, **form.settings, **columns}
    sql("SET GLOBAL binlog_row_metadata = FULL")
    try:
        sql("CREATE TABLE p (id INT PRIMARY KEY, mail TEXT, UNIQUE (mail))")
        mirror(url, tmp_path, **given)
        sql("INSERT INTO p VALUES (1, 'a@x')")
        mirror(url, tmp_path, **given)
    finally:
        sql("SET GLOBAL binlog_row_metadata = NO_LOG")
    found = form.read(tmp_path / "history" / "refused.p")
    assert mac("a@x") in found["mail"].to_pylist()
    assert not [name for name in found.schema.names if "HASH" in name]


@pytest.mark.filterwarnings("ignore:exclude_columns")
def test_patterns_of_columns_that_mean_none_are_told(url: str, sql: Sql, key: Path, tmp_path: Path) -> None:
    sql("CREATE TABLE p (id INT PRIMARY KEY, mail TEXT, n INT)")
    masked = ["refused.*.mail", "refused.P.n", "refused.*.nail"]
    with pytest.warns(BinlogWarning, match=r"nothing is refused\.\*\.nail, refused\.P\.n \(names of"):
        found = mirror(url, tmp_path, tables="refused.*", until="now", mask_columns=masked, mask_key_file=key)
    assert [one.stage for one in found] == ["following", "following"]
    sql("ALTER TABLE p CHANGE mail contact TEXT")
    found = mirror(url, tmp_path, tables="refused.*", until="now", mask_columns=masked, mask_key_file=key)
    assert [one.stage for one in found] == ["parked", "following"]
    found = resync(tmp_path, "refused.p", mask_key_file=key)  # it is known to be gone
    assert [one.stage for one in found] == ["following", "following"]


def test_a_masked_key_parks_the_table_alone(
    url: str, sql: Sql, form: Form, key: Path, tmp_path: Path
) -> None:
    sql("CREATE TABLE p (id INT PRIMARY KEY, v INT)")
    given = {"tables": "refused.*", "until": "now", **form.settings}
    found = mirror(url, tmp_path / "lake", mask_columns="*.p.id", mask_key_file=key, **given)
    assert [one.stage for one in found] == ["parked", "following"]
    assert "neither left out nor masked" in (found[0].reason or "")
    found = mirror(url, tmp_path / "lake", **given)
    assert [one.stage for one in found] == ["following", "following"]


def test_bigint_unsigned_as_bigint(url: str, sql: Sql, form: Form, tmp_path: Path) -> None:
    """Also as a key, also added by an ALTER; a value that does not fit parks the table alone."""
    lake = tmp_path / "lake"
    sql("CREATE TABLE p (id BIGINT UNSIGNED PRIMARY KEY, n BIGINT UNSIGNED, d DECIMAL(20, 0))")
    sql("INSERT INTO p VALUES (1, 5, 7), (2, NULL, NULL)")

    def run(kind: Any) -> TableStatus:
        given = {"tables": "refused.p", "until": "now", "compact": None, **form.settings}
        (one,) = mirror(url, lake, unsigned_bigint=kind, **given)
        return one

    run("bigint")
    sql("INSERT INTO p VALUES (3, 9223372036854775807, 1)")
    sql("DELETE FROM p WHERE id = 1")
    run("bigint")
    found = form.read(lake / "refused.p")
    assert [str(kind) for kind in found.schema.types] == ["int64", "int64", "decimal128(20, 0)"]
    assert [(row["id"], row["n"]) for row in rows(lake, form)] == [(2, None), (3, 9223372036854775807)]
    sql("ALTER TABLE p ADD COLUMN m BIGINT UNSIGNED DEFAULT 8")
    run("bigint")
    assert form.read(lake / "refused.p").schema.field("m").type == pa.int64()
    assert [row["m"] for row in rows(lake, form)] == [8, 8]
    (one,) = verify(lake)
    assert (one.agrees, one.rows) == (True, 2)

    sql("INSERT INTO p VALUES (4, 9223372036854775808, 1, 1)")
    found = run("bigint")
    assert (found.stage, len(rows(lake, form))) == ("parked", 2)
    assert "beyond BIGINT" in (found.reason or "")
    assert run("decimal").stage == "following"
    assert [row["n"] for row in rows(lake, form)][-1] == 9223372036854775808
    assert form.read(lake / "refused.p").schema.field("id").type == pa.decimal128(20, 0)


def test_columns_about_the_last_change(url: str, sql: Sql, form: Form, tmp_path: Path) -> None:
    """Null for rows as copied; one more needs no copy, one less does; they are no part of a comparison."""
    lake = tmp_path / "lake"
    sql("CREATE TABLE p (id INT PRIMARY KEY, n INT)")
    sql("INSERT INTO p VALUES (1, 1), (2, 2)")
    names = ("__commit_timestamp", "__gtid")

    def run(*metadata: str) -> list[list[Any]]:
        given = {"tables": "refused.p", "until": "now", "compact": None, **form.settings}
        (one,) = mirror(url, lake, metadata=metadata, **given)
        assert one.stage == "following", one.reason
        (compared,) = verify(lake)
        assert compared.agrees, compared
        return [[row.get(name, "none") for name in names] for row in rows(lake, form)]

    assert run("commit_timestamp") == [[None, "none"]] * 2
    sql("SET timestamp = 1600000000")
    sql("UPDATE p SET n = 3 WHERE id = 1")
    then = dt.datetime.fromtimestamp(1_600_000_000, dt.UTC)
    assert run("commit_timestamp") == [[then, "none"], [None, "none"]]
    sql("SET timestamp = DEFAULT")
    sql("ALTER TABLE p ADD COLUMN m INT")
    sql("INSERT INTO p VALUES (3, 3, 3)")
    gtid = sql("SELECT @@gtid_binlog_pos")[0][0]
    found = run("commit_timestamp", "gtid")
    assert (found[:2], found[2][1]) == ([[then, None], [None, None]], gtid)
    assert found[2][0] > then
    sql("DELETE FROM p WHERE id = 3")
    assert run("commit_timestamp", "gtid") == [[then, None], [None, None]]
    assert run("gtid") == [["none", None]] * 2  # copied again
    sql("CREATE TABLE q (id INT PRIMARY KEY, __gtid INT)")
    (_, one) = mirror(
        url, lake, tables=["refused.p", "refused.q"], metadata="gtid", until="now", **form.settings
    )
    assert (one.stage, "name of a column of metadata" in (one.reason or "")) == ("parked", True)
