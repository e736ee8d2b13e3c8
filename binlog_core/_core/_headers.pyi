from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

HEADER_DTYPE: np.dtype[np.void]
WALK_END: int
WALK_TRUNCATED: int
WALK_MALFORMED: int
WALK_CHECKSUM: int
WALK_DESCRIPTOR: int
WALK_FULL: int
WALK_BROKEN: int

def walk_headers(
    data: Buffer | NDArray[np.uint8],
    start: int,
    out: NDArray[Any],
    *,
    base: int,
    header_length: int,
    canonical: Buffer | NDArray[np.uint8],
    checksum: bool,
    verify: bool,
    positions: bool = False,
) -> tuple[int, int, int]: ...
