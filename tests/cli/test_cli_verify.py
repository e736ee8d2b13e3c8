"""``binlog-core verify``: whole logs, cut ones, and logs in which a byte was changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.golden import Golden, golden_logs

pytest.importorskip("typer")
pytest.importorskip("rich")

from support.cli import run

LOGS = [g for g in golden_logs() if not g.open_arguments]
GTID = next(g for g in LOGS if g.name == "mysql97/gtid")
NO_CHECKSUM = next(g for g in LOGS if g.name == "mysql97/checksum_none")


def verify(*arguments: object) -> tuple[int, list[dict[str, Any]]]:
    ran = run("verify", "--json", *arguments)
    return ran.code, [json.loads(line) for line in ran.lines]


def spoiled(tmp_path: Path, golden: Golden, at: int, what: bytes) -> Path:
    data = bytearray(golden.data)
    assert data[at : at + len(what)] != what
    data[at : at + len(what)] = what
    path = tmp_path / "spoiled.binlog"
    path.write_bytes(data)
    return path


def event_at(golden: Golden, kind: str, number: int = 0) -> tuple[int, int]:
    """Begin and end of the number-th event of a type, by SHOW BINLOG EVENTS."""
    found = [e for e in golden.events if e["type"] == kind]
    return found[number]["pos"], found[number]["end"]


@pytest.mark.parametrize("golden", LOGS, ids=str)
def test_golden_logs(golden: Golden) -> None:
    code, (found,) = verify(golden.path)
    cut = golden.name.endswith("/truncated")
    assert found["state"] == ("cut" if cut else "whole")
    assert code == (1 if cut else 0)
    assert found["damages"] == []
    if not found["unreadable"]:
        assert found["rows"] == len(golden.truth)
    has_checksums = golden.meta["settings"].get("binlog_checksum") != "NONE"
    assert found["checksums"] == (found["events"] if has_checksums else 0)
    if cut:
        assert verify("--allow-cut", golden.path)[0] == 0


def test_encrypted_needs_its_key() -> None:
    for golden in golden_logs("*/encrypted"):
        assert run("verify", golden.path).code == 2
        code, (found,) = verify(golden.path, "--keys", golden.keys)
        assert (code, found["state"]) == (0, "whole")
        assert (found["rows"], found["unreadable"]) == (len(golden.truth), [])


def test_no_file_no_log(tmp_path: Path) -> None:
    assert run("verify", tmp_path / "none").code == 2
    (tmp_path / "text").write_text("hello, this is no log")
    assert run("verify", tmp_path / "text").code == 2
    code, found = verify(tmp_path / "none", GTID.path)
    assert code == 2
    assert [one["state"] for one in found] == ["whole"], "the others are looked at all the same"


@pytest.mark.parametrize("kind", ["Write_rows", "Table_map", "Xid", "Gtid"])
def test_a_changed_byte(kind: str, tmp_path: Path) -> None:
    begin, end = event_at(GTID, kind, 1)
    byte = GTID.data[end - 6]
    code, (found,) = verify(spoiled(tmp_path, GTID, end - 6, bytes([byte ^ 0x10])))
    assert code == 1
    assert [(d["begin"], d["end"]) for d in found["damages"]] == [(begin, end)]
    assert "checksum" in found["damages"][0]["reason"]
    listed = [e for e in GTID.events if e["pos"] != e["end"]]
    assert found["events"] == len(listed) - 1


@pytest.mark.parametrize("length", [0, 5, 18, 20, 60_000, 0xFFFFFFFF])
def test_a_wrong_length(length: int, tmp_path: Path) -> None:
    """The next whole event is found although the chain is broken."""
    begin, end = event_at(GTID, "Query", 3)
    path = spoiled(tmp_path, GTID, begin + 9, length.to_bytes(4, "little"))
    code, (found,) = verify(path)
    assert code == 1
    assert [(d["begin"], d["end"]) for d in found["damages"]] == [(begin, end)]


@pytest.mark.parametrize("length", [0, 5, 60_000])
def test_a_wrong_length_without_checksums(length: int, tmp_path: Path) -> None:
    begin, end = event_at(NO_CHECKSUM, "Query", 3)
    path = spoiled(tmp_path, NO_CHECKSUM, begin + 9, length.to_bytes(4, "little"))
    code, (found,) = verify(path)
    assert code == 1
    assert [(d["begin"], d["end"]) for d in found["damages"]] == [(begin, end)]


def test_two_damages_and_a_cut_tail(tmp_path: Path) -> None:
    first, second = event_at(GTID, "Query", 2), event_at(GTID, "Write_rows", 4)
    data = bytearray(GTID.data)
    data[first[0] + 25] ^= 1
    data[second[0] + 22] ^= 1
    last = GTID.events[-1]
    path = tmp_path / "bad.binlog"
    path.write_bytes(data[: last["pos"] + 7])
    code, (found,) = verify(path)
    assert code == 1
    assert [(d["begin"], d["end"]) for d in found["damages"]] == [first, second]
    assert found["tail"]["begin"] == last["pos"]


def test_an_incomplete_transaction(tmp_path: Path) -> None:
    """Cut between two events of a transaction: every event is whole, the transaction is not."""
    at = event_at(GTID, "Xid", 4)[0]
    begin = max(e["pos"] for e in GTID.events if e["type"].lower().startswith("gtid") and e["pos"] < at)
    path = tmp_path / "cut.binlog"
    path.write_bytes(GTID.data[:at])
    code, (found,) = verify(path)
    assert code == 1
    assert (found["state"], found["incomplete"], found["tail"]) == ("cut", [begin], None)
    assert f"{begin:,} has no end" in run("verify", path).text


def test_every_cut(tmp_path: Path) -> None:
    """Cut anywhere, a log is cut or whole, never damaged, and nothing is raised."""
    path = tmp_path / "cut.binlog"
    ends = {e["end"] for e in GTID.events}
    for size in range(140, len(GTID.data), 97):
        path.write_bytes(GTID.data[:size])
        _, (found,) = verify(path)
        assert found["damages"] == []
        assert (found["tail"] is not None) == (size not in ends)


def test_for_people(tmp_path: Path) -> None:
    begin, end = event_at(GTID, "Write_rows", 1)
    ran = run("verify", spoiled(tmp_path, GTID, end - 6, b"\xee"))
    assert "damaged" in ran.lines[0]
    assert f"damaged: {begin:,} to {end:,}" in ran.text


def test_compressed_file_and_standard_input(tmp_path: Path) -> None:
    import gzip

    path = tmp_path / "log.gz"
    path.write_bytes(gzip.compress(GTID.data))
    code, (found,) = verify(path)
    assert (code, found["state"], found["rows"]) == (0, "whole", len(GTID.truth))
    ran = run("verify", "-", "--json", stdin=GTID.data)
    assert json.loads(ran.text)["path"] == "<stdin>"
    assert ran.code == 0
