"""Parts of a log that several workers read in parallel, found without an index.

A plan is made from file sizes alone. The worker of a part finds the first transaction that begins in
it by itself (see ``_walk/anchors.py``) and reads up to the first that begins at or after its end::

    splits = plan_splits("binlogs/", split_size=64 << 20)
    results = []
    for split in splits:  # anywhere, in any order
        reader = read_split_groups(split)
        for group in reader:
            ...
        results.append(reader.result)
    again = check_seams(results)  # almost always empty: see there
"""

from __future__ import annotations

from .._base.change_columns import FILE_NUMBER_SHIFT
from .plan import DEFAULT_SPLIT_SIZE, plan_splits
from .reader import SplitBounds, SplitReader, read_split_groups
from .seams import SplitResult, check_seams
from .split import Split, Within
from .trust import trust_split, trust_splits

__all__ = [
    "DEFAULT_SPLIT_SIZE",
    "FILE_NUMBER_SHIFT",
    "Split",
    "SplitBounds",
    "SplitReader",
    "SplitResult",
    "Within",
    "check_seams",
    "plan_splits",
    "read_split_groups",
    "trust_split",
    "trust_splits",
]
