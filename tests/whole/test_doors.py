"""SECURITY.md, "What a hostile hand gets at most": for each door a test that fails if its sentence is false.

`watched` notes what Python opens, changes, runs, connects to and unpickles. The doors' own test files try
more inputs; each test here names them.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import struct
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.archive import FakeServer, archive, busy
from support.golden import golden_logs
from support.hostile_answers import SCENARIOS, asked, golden_events, had, hostile_run
from support.hostile_server import HostileServer
from support.watched import watched
from support.writer import Log, Table

import binlog_core
from binlog_core.errors import BinlogError
from binlog_core.index.making import index as make_index
from binlog_core.lake.tables.destination import directory_name
from binlog_core.limits import Limits
from binlog_core.server.address import Address
from binlog_core.server.option_files import read_options

UUID = "00112233-4455-6677-8899-aabbccddeeff"
ORDERS = Table("shop", "orders", [("id", "INT"), ("note", "VARCHAR(200)")], primary_key=["id"])

pytestmark = [pytest.mark.sanitize_long, pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")]


def _log(rows: list[dict[str, Any]], *, statements: tuple[str, ...] = (), checksum: bool = True) -> bytes:
    log = Log("8.0.36", checksum=checksum)
    for number, statement in enumerate(statements, 1000):
        log.gtid(UUID, number)
        log.query(statement, "shop")
    for number, row in enumerate(rows, 1):
        log.gtid(UUID, number)
        log.begin("shop")
        log.insert(ORDERS, [row])
        log.commit(number)
    return log.getvalue()


def _everything(path: Path, **options: Any) -> list[Any]:
    """All ways to read: rows, batches, events, with the definitions in the log."""
    found: list[Any] = []
    for schema in (None, "ddl"):
        with binlog_core.open(path, schema=schema, **options) as log:
            found += log.rows()
            found += [batch.to_arrow() for batch in log.batches()]
            found += [str(event) for event in log.events()]
    return found


def test_log_bytes(tmp_path: Path) -> None:
    """Also tests/whole/test_damage.py, test_security.py (memory, time) and the fuzz targets."""
    chance, ended = random.Random(30), set[str]()
    path = tmp_path / "bin.000001"
    goldens = [one.path.read_bytes() for one in golden_logs() if one.path.stat().st_size < 5000][:12]
    with watched() as acts:
        for number in range(150):
            data = bytearray(chance.choice(goldens))
            for _ in range(chance.randrange(1, 6)):
                data[chance.randrange(4, len(data))] = chance.choice((0, 1, 127, 128, 255))
            path.write_bytes(data)
            try:
                _everything(path, verify_checksum=bool(number % 2))
                ended.add("rows")
            except BinlogError as error:
                assert str(error).isprintable()
                ended.add("an error")
    assert ended == {"rows", "an error"}
    assert acts.reads <= {str(path)} and acts.changes == {str(path)}  # which this test writes itself
    assert not (acts.runs or acts.connections or acts.unpickled)


def test_log_bytes_with_right_checksums_give_the_rows_that_they_say(tmp_path: Path) -> None:
    """Wrong rows are what the hand gets: nothing tells them from those of a server."""
    data = bytearray(_log([{"id": 1, "note": "paid: no"}]))
    at = data.index(b"paid: no")
    data[at : at + 8] = b"paid:yes"
    begin = 4
    while begin + struct.unpack_from("<I", data, begin + 9)[0] <= at:
        begin += struct.unpack_from("<I", data, begin + 9)[0]
    end = begin + struct.unpack_from("<I", data, begin + 9)[0]
    struct.pack_into("<I", data, end - 4, zlib.crc32(data[begin : end - 4]))
    (tmp_path / "bin.000001").write_bytes(data)
    with binlog_core.open(tmp_path / "bin.000001") as log:
        assert [change.after for change in log.rows()] == [{"id": 1, "note": "paid:yes"}]


def test_statement_text(tmp_path: Path) -> None:
    """Also tests/schema, tests/whole/test_security.py (scripts), tests/replay/test_scripts.py (clients)."""
    secret = tmp_path / "secret"
    secret.write_text("geheim")
    harm = (
        f"LOAD DATA INFILE '{secret}' INTO TABLE orders",
        f"SOURCE {secret}",
        f"\\! touch {tmp_path}/made",
        f"SELECT 1 INTO OUTFILE '{tmp_path}/made'",
        "SET GLOBAL general_log = 1; DROP TABLE orders",
        "CREATE TABLE orders (" + "a INT, " * 100_000,
        "((((" * 50_000,
        "/*!" * 50_000,
        "CREATE TABLE pairs (price INT, secret INT)",  # names for what are a and b
    )
    log = Log("5.7.44")
    for statement in harm:
        log.query(statement, "shop")
    log.begin("shop")
    pairs = Table("shop", "pairs", [("a", "INT"), ("b", "INT")])
    log.table_map(pairs, with_metadata=False)
    log.insert(pairs, [{"a": 1, "b": 2}], mapped=True)
    log.commit()
    path = tmp_path / "bin.000001"
    path.write_bytes(log.getvalue())
    with watched() as acts:
        _everything(path)
        with binlog_core.open(path, schema="ddl") as opened:
            (change,) = opened.rows()
    assert change.after == {"price": 1, "secret": 2}  # at most wrong names and types
    assert acts.only_reads and acts.reads == {str(path)}
    assert sorted(os.listdir(tmp_path)) == ["bin.000001", "secret"]


def test_names(tmp_path: Path) -> None:
    """Also tests/whole/test_security.py: SQL, HTML, terminals."""
    chance = random.Random(30)
    parts = (
        "..",
        "/",
        "\\",
        "\0",
        "\n",
        "~",
        "x",
        ".",
        "%2e",
        "C:",
        "_",
        "\x1b[2J",
        "ü",
        "\u202e",
        "'",
        "`",
        "-",
    )
    seen: dict[str, tuple[str, str]] = {}
    for _ in range(5000):
        names = tuple("".join(chance.choices(parts, k=chance.randrange(1, 6))) for _ in range(2))
        folder = directory_name(*names)
        assert folder.isascii() and folder.isprintable() and not set("/\\\0'`%") & set(folder)
        assert folder not in ("", ".", "..") and folder[0] != "." and len(folder) <= 255
        assert seen.setdefault(folder.lower(), names) == names  # no table in the place of another
    log = Log("8.0.36")
    log.begin("../../x")
    log.insert(Table("../../x", "\x1b[2J\0../y", [("id", "INT")]), [{"id": 1}])
    log.commit()
    path = tmp_path / "in" / "bin.000001"
    path.parent.mkdir()
    path.write_bytes(log.getvalue())
    with watched() as acts:
        _everything(path)
    assert acts.only_reads and acts.reads == {str(path)}


@pytest.mark.parametrize("kind", ["claims", "unpacks to"])
def test_compressed_payloads(tmp_path: Path, kind: str) -> None:
    """Also tests/format/test_compression.py, and tests/whole/test_security.py, which measures the memory."""
    from support.hostile import _payload

    zeros = 64 << 20
    data = _payload(b"x", 4096, claimed=1 << 60) if kind == "claims" else _payload(b"x", zeros)
    path = tmp_path / "bin.000001"
    path.write_bytes(data)
    with (
        watched() as acts,
        pytest.raises(BinlogError),
        binlog_core.open(path, limits=Limits(payload_bytes=1 << 20)) as log,
    ):
        list(log.rows())
    assert acts.only_reads


def test_an_index(tmp_path: Path) -> None:
    """Also tests/index/test_files.py: damage, impossible claims, rights."""

    def rows(middle: int) -> list[dict[str, Any]]:
        return [{"id": middle if n == 150 else 1_000_000 + n, "note": "x" * 100} for n in range(300)]

    genuine, forged = (_log(rows(middle), checksum=False) for middle in (7, 8))
    assert (
        len(genuine) == len(forged) and genuine[:4096] == forged[:4096] and genuine[-4096:] == forged[-4096:]
    )
    path = tmp_path / "bin.000001"
    path.write_bytes(forged)
    make_index(path)
    path.write_bytes(genuine)

    def found(**options: Any) -> list[int]:
        with binlog_core.open(path, **options) as log:
            return [change.after["id"] for change in log.rows("shop.orders", where="id = 7")]

    with watched() as acts:
        assert found() == []  # rows that it leaves out
        assert found(index=False) == [7]
        with binlog_core.open(path) as log:
            assert sum(1 for _ in log.rows()) == 300  # none that it adds or changes
    assert acts.only_reads and all(one.startswith(f"{tmp_path}/") for one in acts.reads)


@pytest.mark.parametrize("folder", ["..", "../foreign", "/etc", "timeline-2/../../foreign", "timeline-2"])
def test_an_archive(tmp_path: Path, folder: str) -> None:
    """Also tests/sources/test_timeline.py, tests/archive/test_links.py."""
    foreign, mine = tmp_path / "foreign", tmp_path / "archive"
    foreign.mkdir()
    (foreign / "mysql-bin.000001").write_bytes(_log([{"id": 666, "note": "secret"}]))
    kept = (foreign / "mysql-bin.000001").read_bytes()
    server = busy(FakeServer(), 5)
    archive(server, mine)
    told = json.loads((mine / "timeline.json").read_text())
    first = told["segments"][0]
    told["segments"] = [
        first | {"until": ["mysql-bin.000001", 4]},
        first | {"folder": folder, "seam": "reset"},
    ]
    (mine / "timeline.json").write_text(json.dumps(told))
    with watched() as acts, contextlib.suppress(BinlogError):
        _everything(mine)
    if folder == "timeline-2":
        (mine / folder).symlink_to(foreign)  # readers follow links, as in any folder
    with watched() as archiver, contextlib.suppress(BinlogError):
        archive(server, mine)
    acts.reads |= archiver.reads
    acts.changes |= archiver.changes
    acts.runs += archiver.runs + archiver.connections + archiver.unpickled
    inside = {one for one in acts.reads | acts.changes if one.startswith(("/", "."))}
    assert not any(one.startswith("/etc") or f"{foreign}" in os.path.normpath(one) for one in inside)
    assert not (acts.runs or acts.connections or acts.unpickled)
    assert (foreign / "mysql-bin.000001").read_bytes() == kept and os.listdir(foreign) == ["mysql-bin.000001"]


@pytest.mark.parametrize(
    "name", ["/foreign/bin.000002", "/store/../foreign/bin.000002", "/store/sub/bin.000002"]
)
def test_a_store(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Also tests/sources/test_hostile_stores.py: ranges, redirects, listings over HTTP."""
    import fsspec

    memory = fsspec.filesystem("memory")
    for path, number in (("/store/bin.000001", 1), ("/foreign/bin.000002", 666)):
        memory.pipe_file(path, _log([{"id": number, "note": "a"}]))
    opened: list[str] = []
    real = type(memory)._open

    def noted(self: Any, path: str, *arguments: Any, **options: Any) -> Any:
        opened.append(path)
        return real(self, path, *arguments, **options)

    def listed(self: Any, path: str, detail: bool = True, **_: Any) -> Any:
        found = [{"name": one, "size": 9, "type": "file"} for one in ("/store/bin.000001", name)]
        return found if detail else [one["name"] for one in found]

    monkeypatch.setattr(type(memory), "_open", noted)
    monkeypatch.setattr(type(memory), "ls", listed)
    with pytest.raises(BinlogError), binlog_core.open("memory://store/") as log:
        list(log.rows())
    assert not any("foreign" in one or "sub" in one for one in opened)


def test_a_server() -> None:
    """Also tests/server: test_answers.py, test_authentication.py (password, key, file), test_floods.py."""
    ended = set[str | None]()
    for mariadb in (False, True):
        golden_events(mariadb=mariadb)  # reads them, once
    with watched() as acts, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in SCENARIOS:
            questions = len(_asked(name))
            for seed in range(12):
                ended.add(hostile_run(name, mariadb=seed % 2 == 0, at=seed % questions, seed=seed))
        file = asked(mariadb=False)
        asking = HostileServer(answers={"": b"\xfb/etc/passwd"})
        file.client.options["world"].server = asking  # type: ignore[index]
        with pytest.raises(BinlogError):
            SCENARIOS["ask"](file.client, had(mariadb=False))
        assert not any(b"root:" in got for got in asking.received)
    assert acts.only_reads and not acts.reads
    assert "ProtocolError" in ended


def _asked(name: str) -> list[str]:
    usual = asked(mariadb=False)
    SCENARIOS[name](usual.client, had(mariadb=False))
    return usual.noted


def test_a_lake(tmp_path: Path) -> None:
    """Also tests/mirror/test_state.py, tests/lake/tables/test_local_files.py (links)."""
    pytest.importorskip("pyarrow")
    from binlog_core.errors import MirrorError
    from binlog_core.mirror.lake import Lake
    from binlog_core.mirror.state import TableState, new_state

    (tmp_path / "foreign").mkdir()
    lake = Lake(str(tmp_path / "lake"))
    state = new_state("mysql://repl@db1", ("shop.*",), "archive")
    state.tables["x"] = TableState("../..", "../foreign", left=["../../../foreign"])
    lake.save(state)
    path = tmp_path / "lake" / "_mirror" / "state.json"
    path.write_text(path.read_text().replace("mysql://repl@db1", "mysql://repl@evil"))
    with watched() as acts:
        found = lake.load()
    assert found is not None and found.server == "mysql://repl@evil"  # it names the server to ask
    assert acts.only_reads
    table = found.tables["x"]
    assert Path(lake.table(table)).parent == tmp_path / "lake"
    assert os.path.normpath(lake.table(table)) == lake.table(table)
    lake.make("copies")
    for name in ("copies/../../../foreign", "copies/..", "..", "../../foreign"):
        with pytest.raises(MirrorError):
            lake.remove(name)
    assert (tmp_path / "foreign").is_dir() and path.exists()


def test_an_exports_manifest(tmp_path: Path) -> None:
    """Also tests/lake/exports/test_manifests.py, tests/lake/tables/test_parquet.py."""
    pytest.importorskip("pyarrow")
    from support.exported import export

    from binlog_core.lake.exports.manifests import find_export

    (tmp_path / "bin.000001").write_bytes(_log([{"id": 1, "note": "a"}]))
    out = export(tmp_path / "bin.000001", tmp_path / "out")
    manifest = json.loads((out / "_manifest.json").read_text())
    (table,) = manifest["tables"]
    changes: list[dict[str, Any]] = [
        {"directory": ".."},
        {"directory": "/etc"},
        {"directory": "shop.orders/../../foreign"},
        {"files": [{**table["files"][0], "name": "../../foreign/part.parquet"}]},
        {"files": [{**table["files"][0], "name": "/etc/passwd"}]},
        {"files": [{**table["files"][0], "name": ".."}]},
    ]
    for change in changes:
        (out / "_manifest.json").write_text(json.dumps({**manifest, "tables": [{**table, **change}]}))
        with watched() as acts:
            try:
                found = find_export(out)
            except BinlogError:
                continue
        assert acts.only_reads and found is not None
        for one in found.tables.values():  # whatever the manifest says, in folders of the export
            assert all(Path(file).parent.parent == out and ".." not in file for file in one.files)


def test_an_option_file(tmp_path: Path) -> None:
    """Also tests/server/test_option_files.py, tests/server/test_authentication.py."""
    secret = tmp_path / "secret"
    secret.write_text("root:$6$geheim\n[client]\nssl-cipher=geheim\n")
    options = tmp_path / "my.cnf"
    hand = "[client]\nhost=evil\nuser=other\nssl-mode=DISABLED\nplugin-dir=/tmp/evil\ninit-command=x\n"
    options.write_text(hand)
    with watched() as acts:
        found = Address.of("mysql://", defaults_file=options)
        assert (found.hosts, found.user, found.ssl_mode) == ((("evil", 3306),), "other", "DISABLED")
        given = Address.of("mysql://me@db1/?ssl_mode=VERIFY_IDENTITY", defaults_file=options)
        assert (given.hosts, given.user, given.ssl_mode) == ((("db1", 3306),), "me", "VERIFY_IDENTITY")
        options.write_text(f"{hand}!include {secret}\n")
        with pytest.raises(BinlogError) as refused:
            read_options(options)
    assert "geheim" not in refused.value.message and "root" not in refused.value.message
    assert acts.reads <= {str(options), str(secret)} and acts.changes <= {str(options)}
    assert not (acts.runs or acts.connections or acts.unpickled)


def test_every_door_has_its_sentence() -> None:
    text = (Path(__file__).resolve().parents[2] / "SECURITY.md").read_text()
    table = text.partition("## What a hostile hand gets at most")[2].partition("\n## ")[0]
    rows = [line.split("|") for line in table.splitlines() if line.startswith("| ") and "`" in line]
    named = {test.strip(" `") for *_, test, _ in rows for test in test.split(",")}
    tests: dict[str, Callable[..., None]] = {
        name: one for name, one in globals().items() if name.startswith("test_")
    }
    assert named == tests.keys() - {"test_every_door_has_its_sentence"}
