"""Imports only go down from floor to floor: those within functions and for types too."""

from __future__ import annotations

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path

from support.house import (
    PACKAGE,
    ROOT,
    arrows,
    by_name,
    floors,
    imported,
    modules,
    names,
    parsed,
    room_of,
    rooms,
)

# More rooms, floors or arrows than these: is there a simpler way? Fewer: lower them.
MOST = {"rooms": 34, "floors": 20, "arrows": 305}


def test_each_room_is_on_one_floor() -> None:
    listed = [room for named, _ in floors() for room in named]
    assert sorted(listed) == sorted(rooms())


def test_imports_only_go_down() -> None:
    floor = {one: number for number, (named, _) in enumerate(floors()) for one in named}
    assert [
        f"{name} imports {other}"
        for name, others in arrows().items()
        for other in others
        if room_of(name) != room_of(other) and floor[room_of(name)] <= floor[room_of(other)]
    ] == []


def test_an_import_by_name_counts(tmp_path: Path) -> None:
    path = tmp_path / "given.py"
    path.write_text(
        "import importlib\n"
        'def one(): return importlib.import_module("binlog_core.server.definitions").tables_of\n'
        'def two(): return import_module("..log.log", __package__), __import__("binlog_core.gtids")\n'
    )
    assert imported(path, "schema.given") == {"server.definitions", "log.log", "gtids"}


def test_names_of_imports_are_written_out() -> None:
    """A computed name hides what is imported: only rooms that load their own modules late do that."""
    computed = {
        name
        for name, path in modules().items()
        if any(by_name(node) == "" for node in ast.walk(parsed(path)))
    }
    assert computed == {"cli.app", "events"}


def test_no_circle_inside_a_room() -> None:
    """An order of all modules exists; an error names a circle."""
    order = list(TopologicalSorter(arrows()).static_order())
    assert order.index("_walk.track") < order.index("_decode.log_decoder") < order.index("log.log")


def test_the_house_does_not_grow_by_itself() -> None:
    found = {
        "rooms": len(rooms()),
        "floors": len(floors()),
        "arrows": sum(map(len, rooms().values())),
    }
    assert found == MOST


def test_who_stands_on_top() -> None:
    found = rooms()
    assert [room for room in found if "cli" in found[room]] == []
    assert {room for room in found if "spark" in found[room]} == {"cli"}


def test_names_are_for_users() -> None:
    """No module of the package takes something by a name that only users need."""
    for name, path in modules().items():
        base = path.relative_to(PACKAGE.parent).parent.parts
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ImportFrom) and node.level:
                home = [*base[: len(base) - node.level + 1], *filter(None, [node.module])][1:]
                taken = {".".join([*home, alias.name]) for alias in node.names} | {".".join(home)}
                assert not taken & names(), name


def test_lakes_need_no_spark() -> None:
    """Only what Spark itself runs, and commands that begin its session, name pyspark."""
    naming = {room_of(name) for name, path in modules().items() if _names_spark(parsed(path))}
    assert naming <= {"spark", "cli"}


def _names_spark(tree: ast.Module) -> bool:
    return any(
        (isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in ("pyspark", "py4j"))
        or (
            isinstance(node, ast.Import)
            and any(alias.name.startswith(("pyspark", "py4j")) for alias in node.names)
        )
        for node in ast.walk(tree)
    )


def test_the_drawing_shows_the_floors() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    drawn = {
        int(number): set(named.replace("/", ".").split())
        for number, named in re.findall(r"^ *(\d+)  (\S.*)$", page, re.MULTILINE)
    }
    assert drawn == {number: named for number, (named, _) in enumerate(floors(), 1)}


def test_files_that_are_named_exist() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    for path in re.findall(r"`([\w/]+\.(?:py|pyx|pxd))`", page):
        assert (PACKAGE / path).is_file() or (ROOT / "src" / path).is_file(), path
