"""Runs of a key index: what they find is what is there, and damage is seen."""

from __future__ import annotations

import decimal
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")

from binlog_core.lake.apply import key_runs  # noqa: E402
from binlog_core.lake.apply.key_runs import Keyed, Run, RunDamage, RunFile  # noqa: E402

KEYED = Keyed(("id",), ("int64",), b"salt")
FILES = [RunFile("a", 1, 1000, 700), RunFile("b", 2, 1000, 300)]


def entries(seed: int = 1) -> list[Any]:
    """Keys of two files, some of them in both, and some often."""
    chance = np.random.default_rng(seed)
    words = chance.integers(0, 400, 1000).astype(np.uint64)
    words[words == 7] = 8
    words[:150] = 7
    places = np.concatenate([key_runs.places_of(0, np.arange(700)), key_runs.places_of(1, np.arange(300))])
    return key_runs.in_order([words, places])


def made(path: Path, found: Any = None, keyed: Keyed = KEYED, files: Any = FILES) -> Run:
    found = entries() if found is None else found
    key_runs.write(str(path), str(path.parent), keyed, files, [found], len(found) - 1)
    return Run(str(path), str(path.parent), keyed)


def test_keys_are_found_as_often_as_they_are_there(tmp_path: Path) -> None:
    (words, places), run = entries(), made(tmp_path / "one")
    run.check()
    for sought in ([7], [0, 7, 399, 1000], range(0, 400, 3), [], [2**64 - 1]):
        values = np.array([*sought], np.uint64)
        expected = places[np.isin(words, values)]
        assert sorted(run.find([values])) == sorted(expected), sought
    assert [(file, len(rows)) for file, rows in key_runs.by_file(places)] == [(0, 700), (1, 300)]


def test_nothing_is_a_run_too(tmp_path: Path) -> None:
    run = made(tmp_path / "none", [np.empty(0, np.uint64)] * 2, files=[RunFile("a", 1, 5, 0)])
    run.check()
    assert len(run.find([np.arange(9, dtype=np.uint64)])) == 0
    assert [*key_runs.by_file(np.empty(0, np.uint64))] == []


@pytest.mark.parametrize("taken", [1, 5, 100, 5000])
def test_merged_runs_have_what_each_had(tmp_path: Path, taken: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(key_runs, "_LEAST_TAKEN", taken)
    monkeypatch.setattr(key_runs, "_MERGED", 1)
    runs = [made(tmp_path / str(seed), entries(seed)) for seed in range(3)]
    numbers = [np.array(one, np.int64) for one in ([0, 1], [2, -1], [3, 4])]
    files = [RunFile(str(i), 1, 1000, (700, 300, 700, 700, 300)[i]) for i in range(5)]
    parts = [*key_runs.merged(runs, numbers)]
    assert max(len(one[0]) for one in parts) <= 3 * (taken + 200)  # and equal keys
    key_runs.write(str(tmp_path / "all"), str(tmp_path), KEYED, files, parts, 1)
    run = Run(str(tmp_path / "all"), str(tmp_path), KEYED)
    run.check()
    expected = set()
    for seed, new in enumerate(numbers):
        for word, place in zip(*entries(seed), strict=True):
            if new[int(place) >> 32] >= 0:
                expected.add((int(word), int(new[int(place) >> 32]) << 32 | int(place) & 0xFFFFFFFF))
    found = {(word, int(place)) for word in range(400) for place in run.find([np.array([word], np.uint64)])}
    assert found == expected


def test_each_changed_byte_is_seen_where_it_matters(tmp_path: Path) -> None:
    path, chance = tmp_path / "one", random.Random(3)
    made(path)
    whole = path.read_bytes()
    every = np.arange(400, dtype=np.uint64)
    for at in chance.sample(range(8, len(whole)), 300):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        with pytest.raises((RunDamage, ValueError)):
            Run(str(path), str(tmp_path), KEYED).find([every])
    for size in chance.sample(range(len(whole)), 50):
        path.write_bytes(whole[:size])
        with pytest.raises(RunDamage):
            Run(str(path), str(tmp_path), KEYED)
        path.write_bytes(whole[:size] + bytes(len(whole) - size))  # what a power failure leaves
        with pytest.raises((RunDamage, ValueError)):
            Run(str(path), str(tmp_path), KEYED).find([every])
    block = 64 * 8
    path.write_bytes(
        whole[:8] + whole[8 + block : 8 + 2 * block] + whole[8 : 8 + block] + whole[8 + 2 * block :]
    )
    with pytest.raises(RunDamage):
        Run(str(path), str(tmp_path), KEYED).find([every])


@pytest.mark.parametrize(
    "other",
    [
        Keyed(("i",), ("int64",), b"salt"),
        Keyed(("id",), ("int32",), b"salt"),
        Keyed(("id",), ("int64",), b""),
    ],
)
def test_a_run_of_other_keys_is_none(tmp_path: Path, other: Keyed) -> None:
    made(tmp_path / "one")
    with pytest.raises(RunDamage, match="other keys"):
        Run(str(tmp_path / "one"), str(tmp_path), other)


def test_a_wrong_number_of_entries_is_not_written(tmp_path: Path) -> None:
    for keys in (600, 100):
        with pytest.raises(RunDamage, match="entries than its files"):
            made(tmp_path / "one", files=[RunFile("a", 1, 1000, keys)])


def test_equal_keys_have_equal_words_and_others_have_others() -> None:
    columns = {
        "int": pa.array([1, -1, 0, 1 << 62]),
        "small": pa.array([1, -1, 0, 7], pa.int16()),
        "text": pa.array(["a", "A", "", "𠮷"]),
        "bytes": pa.array([b"a", b"a\0", b"", b"\0"], pa.binary()),
        "double": pa.array([0.0, 1.5, -1.5, 1e300]),
        "decimal": pa.array(
            [decimal.Decimal(one) for one in ("1.00", "-1.00", "0.00", "92233720368547758080.00")]
        ),
        "time": pa.array([0, 1, -1, 5], pa.timestamp("us")),
        "day": pa.array([0, 1, -1, 5], pa.date32()),
        "flag": pa.array([True, False]),
    }
    for first in columns.values():
        words = KEYED.words([first])
        assert len(words) == (2 if first.type in (pa.string(), pa.binary(), columns["decimal"].type) else 1)
        assert len({*zip(*(one.tolist() for one in words), strict=True)}) == len(first)
        for second in columns.values():
            if len(first) == len(second) == 4:
                four = [pa.concat_arrays([second.slice(i, 1)] * 4) for i in range(4)]
                crossed = [pa.concat_arrays([first] * 4), pa.concat_arrays(four)]
                words = KEYED.words(crossed)
                assert len(words) == 2
                assert len({*zip(*(one.tolist() for one in words), strict=True)}) == 16
    assert KEYED.words([pa.array([-0.0])])[0] == KEYED.words([pa.array([0.0])])[0]
    sliced = KEYED.words([columns["text"].slice(1)])
    assert [one.tolist() for one in sliced] == [one.tolist()[1:] for one in KEYED.words([columns["text"]])]
    assert [one.tolist() for one in KEYED.words([columns["decimal"].slice(2)])] == [
        one.tolist()[2:] for one in KEYED.words([columns["decimal"]])
    ]
    other = Keyed(("id",), ("x",), b"other")  # who does not know the salt does not know the words of a text
    assert (KEYED.words([columns["text"]])[0] != other.words([columns["text"]])[0]).all()


def test_keys_with_the_same_first_column_are_found_without_reading_all_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of one tenant: each of them asked for all of that tenant's blocks, and merging took them at once."""
    keyed, count = Keyed(("tenant", "id"), ("int64", "int64"), b"salt"), 64 * 100

    def words(ids: Any) -> Any:
        return keyed.words([pa.array([5] * len(ids)), pa.array(ids)])

    found = key_runs.in_order([*words(range(count)), key_runs.places_of(0, np.arange(count))])
    files = [RunFile("a", 1, count, count)]
    run, read, checked = made(tmp_path / "one", found, keyed, files), [0], Run._checked

    def counting(self: Run, blocks: Any) -> Any:
        read[0] += len(blocks)
        return checked(self, blocks)

    monkeypatch.setattr(Run, "_checked", counting)
    assert sorted(run.find(key_runs.in_order(words(range(0, count, 64))))) == [*range(0, count, 64)]
    assert read[0] <= 200
    monkeypatch.setattr(key_runs, "_LEAST_TAKEN", 100)
    monkeypatch.setattr(key_runs, "_MERGED", 1)
    parts = [*key_runs.merged([run], [np.array([0], np.int64)])]
    assert max(len(one[0]) for one in parts) <= 200
    assert sum(len(one[0]) for one in parts) == count
