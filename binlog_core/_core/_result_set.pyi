from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

MORE: int
FULL: int
ENDED: int
REFUSED: int
OUT_OF_ORDER: int
MALFORMED: int
BYTES: int
SIGNED: int
UNSIGNED: int
DECIMAL: int
DATE: int
DATETIME: int
TIME: int

class ResultRows:
    def __init__(self, *, numbered: bool = True) -> None: ...
    @property
    def columns(self) -> int: ...
    @property
    def rows(self) -> int: ...
    @property
    def unread(self) -> int: ...
    @property
    def refusal_len(self) -> int: ...
    def take(self, buffer: Buffer, fill: int) -> int: ...
    def clear(self) -> None: ...
    def column(
        self,
        buffer: Buffer,
        number: int,
        format: int,
        *,
        precision: int = 0,
        scale: int = 0,
        charset: NDArray[np.uint32] | None = None,
        keeps_ascii: bool = False,
    ) -> tuple[int, NDArray[np.uint8] | None, NDArray[np.int32] | None, NDArray[Any]]: ...
