"""Imports only go down among the modules and folders of the package."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import binlog_core

PACKAGE = Path(binlog_core.__file__).parent


def imported(node: ast.AST, folder: tuple[str, ...]) -> Iterator[str]:
    """Parts of the package that a module imports, also inside functions; not those for types only."""
    for child in ast.iter_child_nodes(node):
        if (
            isinstance(child, ast.If)
            and isinstance(child.test, ast.Name)
            and child.test.id == "TYPE_CHECKING"
        ):
            continue
        if isinstance(child, ast.ImportFrom) and child.level:
            base = folder[: len(folder) - child.level + 1]
            names = [child.module] if child.module else [alias.name for alias in child.names]
            for name in names:
                yield [*base, *name.split(".")][1]
        yield from imported(child, folder)


def rooms() -> dict[str, set[str]]:
    """Each module or folder at the top of the package, and what of these it imports."""
    found: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        place = path.relative_to(PACKAGE.parent).with_suffix("").parts
        if place[1] == "__init__":
            continue
        tree = ast.parse(path.read_text())
        found.setdefault(place[1], set()).update(set(imported(tree, place[:-1])) - {place[1]})
    return {room: others & set(found) for room, others in found.items()}  # without names of the package


def test_imports_only_go_down() -> None:
    """There is an order in which each part is above all that it imports; an error names a cycle."""
    order = list(TopologicalSorter(rooms()).static_order())
    assert order.index("_walk") < order.index("batch") < order.index("_decode") < order.index("log")


def test_who_stands_on_top() -> None:
    found = rooms()
    assert [room for room in found if "cli" in found[room]] == []
    assert {room for room in found if "spark" in found[room]} == {"cli"}
