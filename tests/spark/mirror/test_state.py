"""What a mirror knows of itself: kept and loaded, refused where it is not one."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from binlog_core.errors import MirrorError
from binlog_core.spark.mirror.state import Lake

DEEP = "[" * 200_000


@pytest.mark.parametrize("text", [DEEP, "nothing", "5", "[]", "{}"])
def test_a_state_of_a_mirror_that_is_not_one_is_an_error(text: str, tmp_path: Path) -> None:
    (tmp_path / "_mirror").mkdir()
    (tmp_path / "_mirror" / "state.json").write_text(text)
    with pytest.raises(MirrorError, match="state cannot be read"):
        Lake(str(tmp_path)).load()


def test_a_state_longer_than_any_of_ours_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "_mirror").mkdir()
    with (tmp_path / "_mirror" / "state.json").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(MirrorError, match="bytes long"):
        Lake(str(tmp_path)).load()
