"""The package as a house: modules, what each imports, their rooms, and the floors of CONTRIBUTING.md."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import binlog_core

PACKAGE = Path(binlog_core.__file__).parent
ROOT = Path(__file__).parents[2]
Graph = dict[str, set[str]]

_FLOOR = re.compile(r"^\| *(\d+) *\| (.+?) \| (.+?) \|$", re.MULTILINE)


@cache
def modules() -> dict[str, Path]:
    """The file of each module, by its name within the package: "log.settings", "log" for a package.

    Left out are the face of the package itself, `names`, and `_core`: each room may use the compiled
    modules, and their stubs name types of whom they work for.
    """
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if name and parts[0] != "_core":
            found[name] = path
    return {name: path for name, path in found.items() if not _only_imports(name, found)}


@cache
def names() -> set[str]:
    """Modules that are only names, by which users know what is elsewhere."""
    return {
        ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        for path in PACKAGE.rglob("*.py")
        if path.name != "__init__.py"
    } - {*modules(), "_core"}


@cache
def parsed(path: Path) -> ast.Module:
    """A module's tree."""
    return ast.parse(path.read_text("utf-8"))


def _only_imports(name: str, known: dict[str, Path]) -> bool:
    """Whether a module only hands on names of other rooms."""
    path = known[name]
    docstring, *body = parsed(path).body
    if path.name == "__init__.py":  # a package of names has nothing else in it
        inside = [one for one in known if one.startswith(f"{name}.")]
        return bool(inside) and all(_only_imports(one, known) for one in inside)
    only = all(isinstance(one, ast.ImportFrom) for one in body)
    return bool(body) and isinstance(docstring, ast.Expr) and only


def imported(path: Path, name: str) -> set[str]:
    """The modules of the package that a module imports.

    At its top, within functions, for types only, and by a literal name: ``import_module("binlog_core.log")``.
    """
    within = ["binlog_core", *name.split(".")]
    if path.name != "__init__.py":
        within.pop()
    found = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = within[: len(within) - node.level + 1] if node.level else []
            home = ".".join([*base, *filter(None, [node.module])])
            found |= {f"{home}.{alias.name}" for alias in node.names}
        elif (text := by_name(node)) is not None:
            dots = len(text) - len(text.lstrip("."))
            base = within[: len(within) - dots + 1] if dots else []
            found.add(".".join([*base, *filter(None, [text[dots:]])]))
    inside = {one.removeprefix("binlog_core.") for one in found if one.startswith("binlog_core.")}
    return {known for one in inside if (known := _module_of(one)) is not None and known != name}


def by_name(node: ast.AST) -> str | None:
    """The name that ``import_module(…)`` or ``__import__(…)`` is given; "" if it is not a literal."""
    if not isinstance(node, ast.Call) or not node.args:
        return None
    if ast.unparse(node.func).rpartition(".")[2] not in ("import_module", "__import__"):
        return None
    return node.args[0].value if isinstance(node.args[0], ast.Constant) else ""


def _module_of(dotted: str) -> str | None:
    while dotted not in modules():
        dotted, _, last = dotted.rpartition(".")
        if not last or not dotted:
            return None
    return dotted


@cache
def arrows() -> Graph:
    """What each module imports."""
    return {name: imported(path, name) for name, path in modules().items()}


def room_of(name: str) -> str:
    """The folder of a module; a module at the top is a room of its own."""
    return name if modules()[name].name == "__init__.py" else name.rpartition(".")[0] or name


def rooms() -> Graph:
    """The rooms that each room uses."""
    found: Graph = {}
    for name, others in arrows().items():
        room = room_of(name)
        found.setdefault(room, set()).update(map(room_of, others))
        found[room].discard(room)
    return found


@cache
def floors() -> list[tuple[set[str], str]]:
    """The rooms of each floor, from the lowest, and what they are for: the table of CONTRIBUTING.md."""
    rows = _FLOOR.findall((ROOT / "CONTRIBUTING.md").read_text("utf-8"))
    found = [(int(floor), set(re.findall(r"`([\w/]+)`", named)), says) for floor, named, says in rows]
    assert [floor for floor, _, _ in found] == list(range(len(found), 0, -1))
    return [({room.replace("/", ".") for room in named}, says) for _, named, says in reversed(found)]
