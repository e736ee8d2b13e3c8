from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

from .._tables.tables import Column

def compact_spans(records: NDArray[np.void], columns: Sequence[Column], buffer: Buffer) -> bytes: ...
def twins() -> dict[str, tuple[int, dict[str, int]]]: ...
