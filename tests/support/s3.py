"""A local store that speaks S3."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CREDENTIALS = {"access_key": "user", "secret_key": "secret", "region": "us-east-1"}
_PATIENCE = 60


def client_of(endpoint: str) -> Any:
    """A client that writes into a store, independent of the tested code."""
    import botocore.session

    return botocore.session.get_session().create_client(
        "s3",
        endpoint_url=endpoint,
        region_name=CREDENTIALS["region"],
        aws_access_key_id=CREDENTIALS["access_key"],
        aws_secret_access_key=CREDENTIALS["secret_key"],
    )


@contextmanager
def store(bucket: str, told: Path = Path(os.devnull)) -> Iterator[str]:
    """Its endpoint; a separate process, because deltalake waits for it while it holds the GIL.

    It notes each request as a line of the file `told`.
    """
    pytest.importorskip("moto.server")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with (
        told.open("ab") as errors,
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors) as process,
    ):
        try:
            _wait(port)
            client_of(f"http://127.0.0.1:{port}").create_bucket(Bucket=bucket)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()


def _wait(port: int) -> None:
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
