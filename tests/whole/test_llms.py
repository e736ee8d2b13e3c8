"""What the documentation's site has for programs: llms.txt and the pages' Markdown."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_a_site_has_its_pages_as_markdown_and_a_list_of_them(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    docs = tmp_path / "docs"
    (docs / "api").mkdir(parents=True)
    (docs / "index.md").write_text("# Home\n\n![One](a.png)\n\nTurn a [log](how.md) into rows. And more.\n")
    (docs / "how.md").write_text("# How\n\n```sh\nrun this\n```\n\nRun *it*: so.\n")
    (docs / "api" / "log.md").write_text("# Log\n\n::: binlog_core.Log\n")
    (tmp_path / "mkdocs.yml").write_text(
        f"site_name: logs\nsite_description: Rows\nhooks: [{ROOT / 'docs' / 'llms.py'}]\n"
        "nav:\n  - Home: index.md\n  - How to:\n      - Do it: how.md\n  - API:\n      - Log: api/log.md\n"
    )
    build(load_config(str(tmp_path / "mkdocs.yml")))
    site = tmp_path / "site"
    assert (site / "how.md").read_text() == (docs / "how.md").read_text()
    assert not (site / "api" / "log.md").exists()
    assert (site / "llms.txt").read_text().splitlines() == [
        "# logs", "", "> Rows",
        "", "## Start", "", "- [Home](index.md): Turn a log into rows.",
        "", "## How to", "", "- [Do it](how.md): Run *it*: so.",
        "", "## API", "", "- [Log](api/log/)",
    ]  # fmt: skip


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.stem)
def test_each_page_says_first_what_it_is(page: Path) -> None:
    text = page.read_text("utf-8")
    if ":::" not in text:
        assert 10 < len(runpy.run_path(str(ROOT / "docs" / "llms.py"))["summary"](text)) < 300
