from typing import Any, Literal, TypeAlias

from numpy.typing import NDArray
from typing_extensions import Buffer

BytesLike: TypeAlias = Buffer | NDArray[Any]
JsonDiff: TypeAlias = tuple[Literal["replace", "insert", "remove"], str, str | None]

def jsonb_to_text(data: BytesLike) -> bytes: ...
def parse_json_diffs(data: BytesLike) -> list[JsonDiff]: ...
def apply_json_diffs(document: BytesLike, diffs: BytesLike) -> bytes: ...
