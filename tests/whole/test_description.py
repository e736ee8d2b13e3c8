"""The package's description on an index: the README, of which nothing may lead into the source folder."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
IN_THE_SOURCE = re.compile(r"\]\((?!https?:)")


@pytest.fixture(scope="module")
def backend() -> ModuleType:
    pytest.importorskip("setuptools", minversion="77")
    spec = importlib.util.spec_from_file_location("backend", ROOT / "wheels" / "backend.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_of_the_readme_only_texts_of_links_stay(backend: ModuleType) -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    assert IN_THE_SOURCE.search(readme) and "\n![" in readme  # else this tests nothing
    described = backend.described("binlog_core.egg-info/PKG-INFO", readme.encode()).decode()
    assert not IN_THE_SOURCE.search(described)
    assert "<picture" not in described
    assert "![" not in described and "!A" not in described  # an image is left out with its mark
    assert "\n\n\n" not in described
    assert "the checkpoint: Live servers." in described


def test_links_to_elsewhere_and_other_files_stay(backend: ModuleType) -> None:
    text = b"[a](https://example.org/a) ![b](https://example.org/b.png)\n\n"
    assert backend.described("METADATA", text) == text
    assert backend.described("docs/index.md", b"[a](b.md)") == b"[a](b.md)"
