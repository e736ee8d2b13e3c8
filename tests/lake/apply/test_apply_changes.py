"""Changes of a batch, staged: which buckets of keys must meet."""

from __future__ import annotations

import numpy as np

from binlog_core.lake.apply.changes import labels_of


def test_keys_that_rows_moved_between_have_one_label() -> None:
    pairs = [[(1, 2), (10, 11)], [(2, 3), (20, 20)], [(9, 3), (11, 12)]]
    known, labels = labels_of([np.array(some, np.uint64) for some in pairs])
    assert known.tolist() == [1, 2, 3, 9, 10, 11, 12, 20]
    assert labels.tolist() == [1, 1, 1, 1, 10, 10, 10, 20]


def test_a_long_chain_is_one() -> None:
    numbers = np.random.default_rng(7).permutation(1000).astype(np.uint64)
    known, labels = labels_of([np.stack([numbers[:-1], numbers[1:]], axis=1)])
    assert known.tolist() == list(range(1000))
    assert set(labels.tolist()) == {0}
