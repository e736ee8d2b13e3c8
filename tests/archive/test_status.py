"""How an archive is doing, as programs and Prometheus read it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from binlog_core.archive import _ThrottledStatus
from binlog_core.archive.files import Files
from binlog_core.archive.status import Status, write_status
from binlog_core.errors import ArchiveError


def status() -> Status:
    return Status(
        's3://b/"a\\b"',
        "db1:3306",
        "waiting",
        file="mysql-bin.000042",
        position=1234,
        received_bytes=1 << 40,
        reconnects=2,
        damaged_logs=["mysql-bin.000007"],
        updated=1.5,
    )


def samples(text: bytes) -> dict[str, str]:
    """Values by the name of their metric, without prefix and labels."""
    lines = [line for line in text.decode().splitlines() if not line.startswith("#")]
    return {
        line.partition("{")[0].removeprefix("binlog_core_archive_"): line.rpartition(" ")[2] for line in lines
    }


def test_metrics() -> None:
    text = status().to_prometheus()
    found = {name: float(value) for name, value in samples(text).items()}
    assert found == {
        "position_bytes": 1234,
        "log_number": 42,
        "received_bytes_total": 1 << 40,
        "received_events_total": 0,
        "reconnects_total": 2,
        "closed_logs_total": 0,
        "damaged_logs_total": 1,
        "connected": 1,
        "updated_seconds": 1.5,
    }  # not seconds_behind, which is not known
    assert rb'{archive="s3://b/\"a\\b\"",server="db1:3306"} 1234' in text
    assert b"# TYPE binlog_core_archive_received_bytes_total counter\n" in text


@pytest.mark.parametrize(
    ("state", "connected"),
    [("connecting", 0), ("comparing", 1), ("archiving", 1), ("waiting", 1), ("stopped", 0), ("failed", 0)],
)
def test_who_has_a_connection(state: str, connected: int) -> None:
    assert float(samples(Status("a", "s", state).to_prometheus())["connected"]) == connected


def test_before_the_first_log_there_is_no_number() -> None:
    assert "log_number" not in samples(Status("a", "s").to_prometheus())
    assert float(samples(Status("a", "s", seconds_behind=0.0).to_prometheus())["seconds_behind"]) == 0


def test_the_file_is_what_its_name_says(tmp_path: Path) -> None:
    write_status(Files(), str(tmp_path / "status.json"), status())
    found = json.loads((tmp_path / "status.json").read_text())
    assert found["archive"] == 's3://b/"a\\b"' and found["seconds_behind"] is None
    assert (found["file"], found["position"], found["damaged_logs"]) == (
        "mysql-bin.000042",
        1234,
        ["mysql-bin.000007"],
    )
    write_status(Files(), str(tmp_path / "status.prom"), status())
    assert (tmp_path / "status.prom").read_bytes() == status().to_prometheus()
    assert {path.name for path in tmp_path.iterdir()} == {"status.json", "status.prom"}
    with pytest.raises(ArchiveError, match="cannot write the status"):
        write_status(Files(), str(tmp_path / "nowhere" / "status.json"), status())


def test_a_clock_that_is_set_back_stops_no_status() -> None:
    told: list[float] = []
    pass_on = _ThrottledStatus(Files(), [], lambda one: told.append(one.updated))
    for updated in (10_000.0, 10_000.1, 6_400.0, 6_400.1, 6_402.0):
        one = status()
        one.updated = updated
        pass_on(one)
    assert told == [10_000.0, 6_400.0, 6_402.0]
