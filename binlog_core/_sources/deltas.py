"""deltalake, and the options of a store under the names that it uses."""

from __future__ import annotations

from typing import Any

from ..errors import MissingExtraError
from .object_stores import s3_endpoint, s3_words

_NAMES = {
    "access_key": "AWS_ACCESS_KEY_ID",
    "secret_key": "AWS_SECRET_ACCESS_KEY",
    "session_token": "AWS_SESSION_TOKEN",
    "region": "AWS_REGION",
    "endpoint_override": "AWS_ENDPOINT_URL",
}


def import_deltalake() -> None:
    """Import deltalake, or raise the error that names it.

    Raises
    ------
    MissingExtraError
        It is not installed.
    """
    try:
        import deltalake  # noqa: F401
    except ImportError:
        raise MissingExtraError.of("deltalake", "delta", "a Delta table") from None


def delta_options(options: dict[str, Any] | None) -> dict[str, str] | None:
    """Options of a store under deltalake's names; it looks up missing ones in the environment."""
    found = {_NAMES.get(name, name): str(value) for name, value in s3_words(options or {}).items()}
    scheme = found.pop("scheme", "https")
    if endpoint := found.get("AWS_ENDPOINT_URL") or s3_endpoint():
        found["AWS_ENDPOINT_URL"] = endpoint if "://" in endpoint else f"{scheme}://{endpoint}"
        if found["AWS_ENDPOINT_URL"].startswith("http://"):
            found["AWS_ALLOW_HTTP"] = "true"
    return found or None
