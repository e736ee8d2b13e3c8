"""Options of stores for deltalake."""

from __future__ import annotations

import pytest

from binlog_core._sources.deltas import delta_options

pytestmark = pytest.mark.sanitize_long


def test_options_of_a_store_in_the_words_of_deltalake() -> None:
    assert delta_options(None) is delta_options({}) is None
    given = {"key": "k", "secret": "s", "endpoint_url": "http://minio:9000", "timeout": 5}
    wanted = {
        "AWS_ACCESS_KEY_ID": "k",
        "AWS_SECRET_ACCESS_KEY": "s",
        "AWS_ENDPOINT_URL": "http://minio:9000",
        "AWS_ALLOW_HTTP": "true",
        "timeout": "5",
    }
    assert delta_options(given) == wanted
    assert delta_options({**given, "endpoint_url": "minio:9000", "scheme": "http"}) == wanted
    nested = {"key": "k", "secret": "s", "client_kwargs": {"endpoint_url": "http://minio:9000"}, "timeout": 5}
    assert delta_options(nested) == wanted
    assert delta_options({"endpoint_override": "minio"}) == {"AWS_ENDPOINT_URL": "https://minio"}
    assert "AWS_ALLOW_HTTP" not in (delta_options({"endpoint_url": "https://minio"}) or {})


def test_the_store_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://minio:9000")
    assert delta_options(None) == {"AWS_ENDPOINT_URL": "http://minio:9000", "AWS_ALLOW_HTTP": "true"}
