"""Servers and stores that the tests of archives share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.archive import SERVERS, FakeServer, busy


@pytest.fixture(params=SERVERS, ids=lambda name: name.replace(" ", "-"))
def server(request: pytest.FixtureRequest) -> FakeServer:
    return busy(SERVERS[request.param](), 20)


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    module = pytest.importorskip("moto.server")
    import botocore.session

    server = module.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    client = botocore.session.get_session().create_client(
        "s3",
        endpoint_url=f"http://{host}:{port}",
        region_name="us-east-1",
        aws_access_key_id="user",
        aws_secret_access_key="secret",
    )
    client.create_bucket(Bucket="archives")
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(params=["pyarrow", "fsspec"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, dict[str, Any] | None]:
    if request.param == "fsspec":
        return f"memory://{tmp_path.name}/db1", None
    endpoint = request.getfixturevalue("s3")
    options = {
        "access_key": "user",
        "secret_key": "secret",
        "endpoint_override": endpoint,
        "region": "us-east-1",
    }
    return f"s3://archives/{tmp_path.name}/db1", options
