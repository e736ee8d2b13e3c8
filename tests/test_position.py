"""Positions: their JSON text, and text that is refused."""

from __future__ import annotations

import json

import pytest
from support.golden import DATA

import binlog_core
from binlog_core import Position
from binlog_core.gtids import GtidSet, MariadbGtidSet

UUID = "00112233-4455-6677-8899-aabbccddeeff"
TEXTS = [
    '{"file": "bin.000001", "offset": 4}',
    '{"file": "bin.000001", "offset": 157, "vendor": "mysql", "gtids": "' + UUID + ':1-5:9"}',
    '{"file": "timeline-2/bin.000009", "offset": 9, "vendor": "mariadb", "gtids": "0-1-7,2-3-9"}',
    '{"file": "bin.000001", "offset": 9, "vendor": "mariadb", "gtids": ""}',
    '{"file": "bin.000001", "offset": 9, "server": "' + UUID + '", "records": 12}',
    '{"file": "bin.000001", "offset": 9, "records": 12, "transaction": "' + UUID + ':tag:6"}',
    '{"file": "a", "offset": 9, "vendor": "mariadb", "gtids": "0-1-7", "records": 1, "transaction": "2-3-9"}',
]


@pytest.mark.parametrize("text", TEXTS)
def test_a_position_reads_its_own_text(text: str) -> None:
    position = Position.parse(text)
    assert str(position) == text
    assert Position.parse(str(position)) == position


def test_fields() -> None:
    position = Position.parse(TEXTS[1])
    assert (position.file, position.offset, position.server, position.records) == ("bin.000001", 157, None, 0)
    assert position.gtids == GtidSet.parse(f"{UUID}:1-5:9")
    assert Position.parse(TEXTS[3]).gtids == MariadbGtidSet.parse("")
    # The text of an older position shows the vendor only by its GTIDs.
    assert Position.parse('{"file": "a", "offset": 4, "gtids": "0-1-7"}').gtids == MariadbGtidSet.parse(
        "0-1-7"
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "expected the JSON text"),
        ("bin.000001:4", "expected the JSON text"),
        ("[" * 100_000, "expected the JSON text"),
        ("4", "expected the JSON text"),
        ('{"file": "a", "offset": 4, "more": 1}', "expected the JSON text"),
        ('{"offset": 4}', "expected a name for file"),
        ('{"file": "", "offset": 4}', "expected a name for file"),
        (json.dumps({"file": "a" * 513, "offset": 4}), "expected a name for file"),
        ('{"file": "a"}', "whole numbers"),
        ('{"file": "a", "offset": -1}', "whole numbers"),
        ('{"file": "a", "offset": 4.0}', "whole numbers"),
        ('{"file": "a", "offset": true}', "whole numbers"),
        ('{"file": "a", "offset": 9223372036854775808}', "whole numbers"),
        ('{"file": "a", "offset": 4, "records": null}', "whole numbers"),
        ('{"file": "a", "offset": 4, "server": 1}', "expected texts for server, gtids and transaction"),
        ('{"file": "a", "offset": 4, "transaction": 1}', "expected texts for server, gtids and transaction"),
        ('{"file": "a", "offset": 4, "transaction": "0-1"}', "GTID"),
        ('{"file": "a", "offset": 4, "gtids": "x"}', "GTID"),
    ],
)
def test_what_is_not_a_position(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"not a position: .*{why}") as caught:
        Position.parse(text)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    "log", ["mysql97/gtid", "mysql97/gtid_xa", "mysql97/gtid_trx_compression", "maria118/maria_gtid"]
)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_resumed_reader_has_the_positions_of_an_uninterrupted_one(log: str, threads: int) -> None:
    """With the GTIDs, which the rest of the file alone does not tell."""
    path, limits = DATA / f"{log}.binlog", binlog_core.Limits(group_rows=1)
    every = [str(group.position) for group in binlog_core.open(path, limits=limits).groups()]
    for i, place in enumerate(every):
        start = Position.parse(place)
        rest = binlog_core.open(path, limits=limits, start=start, threads=threads).groups()
        assert [str(group.position) for group in rest] == every[i + 1 :]
