"""Servers and stores that the tests of archives share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.archive import SERVERS, FakeServer, busy
from support.s3 import CREDENTIALS, store


@pytest.fixture(params=SERVERS, ids=lambda name: name.replace(" ", "-"))
def server(request: pytest.FixtureRequest) -> FakeServer:
    return busy(SERVERS[request.param](), 20)


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    with store("archives") as endpoint:
        yield endpoint


@pytest.fixture(params=["pyarrow", "fsspec"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, dict[str, Any] | None]:
    if request.param == "fsspec":
        return f"memory://{tmp_path.name}/db1", None
    endpoint = request.getfixturevalue("s3")
    return f"s3://archives/{tmp_path.name}/db1", {**CREDENTIALS, "endpoint_override": endpoint}
