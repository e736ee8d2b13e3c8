"""The formats of ``binlog-core rows`` against the servers' truth, and what they must not keep in memory."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.golden import DATA, golden_logs

pytest.importorskip("typer")

from support.cli import run, start

LOG = DATA / "mysql97" / "gtid.binlog"
SIMPLE = ("mysql97/types_ints", "maria118/types_ints", "mysql97/types_decimals", "maria1011/types_decimals")


def rows(*arguments: object) -> list[dict[str, Any]]:
    ran = run("rows", *arguments)
    assert ran.code == 0, ran.err
    return [json.loads(line) for line in ran.lines]


@pytest.mark.parametrize("name", SIMPLE)
def test_jsonl(name: str) -> None:
    """The truth has integers and decimals as this JSON has them."""
    golden = next(g for g in golden_logs() if g.name == name)
    want = [(c["op"], c["db"], c["table"], c["before"], c["after"]) for c in golden.truth]
    got = [(c["op"], c["database"], c["table"], c["before"], c["after"]) for c in rows(golden.path)]
    assert got == want


@pytest.mark.parametrize("name", SIMPLE)
def test_csv(name: str) -> None:
    golden = next(g for g in golden_logs() if g.name == name)
    table = golden.truth[0]["table"]
    want = []
    for change in golden.truth:
        if change["table"] == table:
            want += [change[side] for side in ("before", "after") if change[side] is not None]
    ran = run("rows", golden.path, "-t", table, "-f", "csv", "--no-change-columns")
    assert ran.code == 0, ran.err
    got = list(csv.DictReader(io.StringIO(ran.text, newline="")))
    assert got == [{k: "" if v is None else str(v) for k, v in row.items()} for row in want]


@pytest.mark.parametrize("form", ["arrow", "parquet"])
def test_arrow_and_parquet(form: str, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    golden = next(g for g in golden_logs() if g.name == "mysql97/types_ints")
    table = golden.truth[0]["table"]
    path = tmp_path / "out"
    ran = run("rows", golden.path, "-t", table, "-f", form, "-o", path)
    assert ran.code == 0, ran.err
    found = parquet.read_table(path) if form == "parquet" else pyarrow.ipc.open_stream(path).read_all()
    images = []
    for change in golden.truth:
        if change["table"] == table:
            images += [change[side] for side in ("before", "after") if change[side] is not None]
    assert found.select(list(images[0])).to_pylist() == images
    assert set(found.column("_change_type").to_pylist()) <= {
        "insert",
        "delete",
        "update_preimage",
        "update_postimage",
    }


def test_one_table_formats_say_so(tmp_path: Path) -> None:
    for form in ("csv", "parquet"):
        ran = run("rows", LOG, "-f", form, "-o", tmp_path / "out")
        assert ran.code == 1
        assert "--table" in ran.err
    assert list(tmp_path.iterdir()) == []


def test_binary_formats_not_to_a_terminal() -> None:
    master, slave = pty.openpty()
    process = start("rows", LOG, "-t", "Route66_b", "-f", "arrow", stdout=slave, stderr=subprocess.PIPE)
    os.close(slave)
    _, said = process.communicate(timeout=60)
    os.close(master)
    assert process.returncode == 2
    assert b"--output" in said


@pytest.mark.parametrize("form", ["arrow", "parquet"])
def test_errors_of_pyarrow_are_one_line(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For example, where pyarrow refuses a batch's stream, or Parquet a type."""
    pyarrow = pytest.importorskip("pyarrow")

    def broken(_self: object, **_options: object) -> None:
        raise pyarrow.ArrowNotImplementedError("no such\nlayout")

    monkeypatch.setattr("binlog_core.batch.change_batch.ChangeBatch.to_arrow", broken)
    out = tmp_path / "rows"
    ran = run("rows", LOG, "-t", "shop.Route66_b", "-f", form, "-o", out)
    assert ran.code == 1
    assert ran.err.count("\n") == 1
    assert f"error: {form} cannot hold it: no such layout" in ran.err
    assert "table shop.Route66_b" in ran.err
    assert not out.exists()


@pytest.mark.parametrize("form", ["arrow", "parquet"])
def test_errors_of_pyarrow_at_the_end_are_one_line(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")

    class Broken:
        def write_table(self, _table: object) -> None:
            pass

        def close(self) -> None:
            raise pyarrow.ArrowInvalid("no such\nfooter")

    monkeypatch.setattr(pyarrow.ipc, "new_stream", lambda *_: Broken())
    monkeypatch.setattr(parquet, "ParquetWriter", lambda *_, **_more: Broken())
    out = tmp_path / "rows"
    ran = run("rows", LOG, "-t", "shop.Route66_b", "-f", form, "-o", out)
    assert ran.code == 1
    assert ran.err.count("\n") == 1
    assert f"error: {form} cannot hold it: no such footer" in ran.err
    assert not out.exists()


@pytest.mark.parametrize("form", ["jsonl", "csv", "sql"])
def test_long_members_do_not_fill_memory(form: str, tmp_path: Path) -> None:
    """Each value written out would make 56 MB of text out of 5 kB."""
    import tracemalloc

    from support.writer import Log, Table

    table = Table("d", "t", [("id", "INT"), ("e", "ENUM()", {"members": ("a" * 65000, "b")})])
    log = Log("8.4.0")
    log.begin("d")
    log.insert(table, [{"id": i, "e": 2 if i % 7 == 0 else 1} for i in range(1000)])
    log.commit()
    path, out = tmp_path / "bin.000001", tmp_path / "out"
    path.write_bytes(log.getvalue())
    run("rows", path, "-n", "1", "-f", form)  # what is imported once
    tracemalloc.start()
    try:
        ran = run("rows", path, "-f", form, "-o", out)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert ran.code == 0, ran.err
    assert peak < 40 << 20
    others, *rest = out.read_text().split("a" * 65000)
    assert (len(rest), len(re.findall(r"\bb\b", " ".join([others, *rest])))) == (857, 143)


def test_an_image_is_not_much_longer_as_text_than_in_the_log(tmp_path: Path) -> None:
    """A control character is six in JSON, a byte two in SQL; names come once for each image."""
    from support.writer import Log, Table

    table = Table("d", "t" * 60, [("id", "INT"), ("v" * 60, "LONGTEXT"), ("b", "LONGBLOB")])
    value = {"id": 1, "v" * 60: "\x01" * 50_000, "b": b"\xff" * 100_000}
    log = Log("8.4.0")
    log.begin("d")
    log.update(table, [(value, value | {"id": 2})])
    log.commit()
    path = tmp_path / "bin.000001"
    path.write_bytes(log.getvalue())
    assert len(run("rows", path, "-f", "jsonl").out) < 2 * (6 * 50_000 + 2 * 100_000 + 400)
    assert len(run("rows", path, "-f", "sql").out) < 2 * (2 * 150_000 + 400) + 2000
