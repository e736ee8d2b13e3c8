"""For programs that read documentation: each page's Markdown beside its HTML, and llms.txt, which lists them.

A hook of mkdocs (`hooks` in mkdocs.yml). Pages of the API have no text of their own: they are listed as HTML.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

_CODE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_NO_TEXT = re.compile(r"#|!|\||<|:::|[-*] ")  # of lines that begin something else than a paragraph


def on_post_build(config: Any, **_: Any) -> None:
    """Write them into the finished site."""
    site = Path(config.site_dir)
    lines = [f"# {config.site_name}", "", f"> {config.site_description}"]
    section = None
    for page in _pages(config.nav):
        titles, title, source = page
        text = (Path(config.docs_dir) / source).read_text("utf-8")
        if titles != section:
            lines += ["", f"## {' / '.join(titles)}" if titles else "## Start", ""]
            section = titles
        if ":::" in text:
            lines.append(f"- [{title}]({source.removesuffix('.md')}/)")
            continue
        target = site / source
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")
        lines.append(f"- [{title}]({source}): {summary(text)}")
    (site / "llms.txt").write_text("\n".join(lines) + "\n", "utf-8")


def _pages(nav: Any, titles: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], str, str]]:
    """Each page of a nav: the titles above it, its own, its file."""
    found = []
    for entry in nav:
        [(title, inner)] = entry.items()
        if isinstance(inner, str):
            found.append((titles, title, inner))
        else:
            found += _pages(inner, (*titles, title))
    return found


def summary(text: str) -> str:
    """The first sentence of a page."""
    for paragraph in re.split(r"\n\s*\n", _CODE.sub("", text)):
        plain = " ".join(_LINK.sub(r"\1", paragraph).split())
        if plain and not _NO_TEXT.match(plain):
            return re.split(r"(?<=\.) ", plain, maxsplit=1)[0].removesuffix(":")
    return ""
