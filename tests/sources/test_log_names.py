"""Names of numbered logs, taken apart by hand."""

from __future__ import annotations

import pytest

from binlog_core._sources.log_names import (
    Gap,
    LeftOut,
    LogName,
    find_gaps,
    name_key,
    name_within,
    order_logs,
    unpacked,
)

pytestmark = pytest.mark.sanitize_long


@pytest.mark.parametrize(
    ("path", "parts"),
    [
        ("/d/mysql-bin.000042", ("/d/mysql-bin", 42, "000042", "")),
        ("bin.000042.gz", ("bin", 42, "000042", ".gz")),
        ("s3://b/a.b.1000000.zst", ("s3://b/a.b", 1_000_000, "1000000", ".zst")),
        ("new\nline.000001", ("new\nline", 1, "000001", "")),
        ("bin.0000001.xz", ("bin", 1, "0000001", ".xz")),
        ("alone.binlog", None),
        ("bin.", None),
        ("bin.000001.bz2", None),
        ("bin.00000000000000000001", None),  # 20 digits: more than 64 bits hold
        ("bin.00000١", None),  # a digit that servers do not write
    ],
)
def test_a_name_taken_apart(path: str, parts: tuple[str, int, str, str] | None) -> None:
    assert LogName.of(path) == parts


def test_the_servers_own_name_is_in_least_doubt() -> None:
    names = ["bin.01.gz", "bin.01", "bin.000001.gz", "bin.000001"]
    ordered = sorted(names, key=lambda name: LogName.of(name).doubt)
    assert ordered == ["bin.000001", "bin.000001.gz", "bin.01", "bin.01.gz"]
    assert LogName.of("bin.1000000").doubt == (False, False)


def test_logs_are_in_the_order_of_their_numbers() -> None:
    names = ["c.000001", "b.1000000", "b.000010", "b.9", "alone"]
    assert sorted(names, key=name_key) == ["alone", "b.9", "b.000010", "b.1000000", "c.000001"]


def test_the_folder_of_a_segment_is_part_of_the_name() -> None:
    assert name_within("/archive/timeline-2/bin.000001") == "timeline-2/bin.000001"
    assert name_within(r"c:\archive\timeline-2\bin.000001") == "timeline-2/bin.000001"
    assert name_within("/archive/timeline-x/bin.000001") == "bin.000001"
    assert name_within("bin.000001") == "bin.000001"
    assert unpacked("d/bin.000001.zst") == "d/bin.000001" and unpacked("bin.zst.1") == "bin.zst.1"


def test_gaps_lie_between_logs_of_one_base() -> None:
    logs = ["b.000001", "b.000002", "b.000005", "a.000007", "alone"]
    assert find_gaps(logs) == [Gap("b", 3, 4)]
    # A file that is not a log has the number: a gap too if it is outside the others, else inside their gap.
    assert find_gaps(logs, ["b.000006", "b.000004", "b.000002"]) == [Gap("b", 3, 4), Gap("b", 6, 6)]
    assert str(Gap("d/b", 3, 4)) == "d/b 3 to 4"
    assert str(Gap("d/b", 3, 3)) == "d/b 3"


def test_what_an_archiver_has_not_finished_is_not_a_log() -> None:
    found = order_logs(
        ["d/b.000001", "d/.unfinished-b.000001.zst"], ["d/b.000001", "d/.unfinished-b.000001.zst"]
    )
    assert found == (["d/b.000001"], [], [])


def test_logs_of_a_directory() -> None:
    logs = ["d/b.01", "d/b.000001.gz", "d/b.000001", "d/b.000003", "d/alone"]
    found = order_logs([*logs, "d/b.index", "d/b.000004", "d/notes.000009"], logs)
    assert found.logs == ["d/alone", "d/b.000001", "d/b.000003"]
    assert found.left_out == [LeftOut("d/b.000001.gz", "d/b.000001"), LeftOut("d/b.01", "d/b.000001")]
    assert found.gaps == [Gap("d/b", 2, 2), Gap("d/b", 4, 4)]
