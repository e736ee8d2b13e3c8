import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

POSITION_END: int
POSITION_START: int
POSITION_ELSEWHERE: int
POSITION_NONE: int
POSITION_AHEAD: int
FOUND: int
NOTHING: int
OPEN: int
WALK_FOUND: int
WALK_LIMIT: int
WALK_MORE: int
WALK_BROKEN: int

def find_event(
    data: Buffer | NDArray[np.uint8],
    start: int,
    limit: int,
    *,
    base: int,
    more: bool,
    header_length: int,
    lengths: NDArray[np.uint8],
    canonical: NDArray[np.uint8],
    checksum: bool,
    rule: int,
    zeros: bool,
) -> tuple[int, int]: ...
def find_anchor(
    data: Buffer | NDArray[np.uint8],
    start: int,
    least: int,
    limit: int,
    *,
    base: int,
    header_length: int,
    lengths: NDArray[np.uint8],
    canonical: NDArray[np.uint8],
    checksum: bool,
    anchors: int,
) -> tuple[int, int]: ...
