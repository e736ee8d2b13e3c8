"""A TOML file with the options of a command; what the command line says counts more."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer

_HERE = ("config", "help")


def _load(ctx: typer.Context, path: Path | None) -> Path | None:
    """Take the file's values as the defaults of the command's other parameters."""
    if path is None or ctx.resilient_parsing:
        return path
    try:
        found = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise typer.BadParameter(f"{path}: {error.strerror}") from None
    except ValueError as error:  # also of text that is not UTF-8
        raise typer.BadParameter(f"{path} is not TOML: {error}") from None
    parameters: list[Any] = ctx.command.params
    known = {name.lstrip("-").replace("-", "_"): one for one in parameters for name in one.opts}
    defaults = {}
    for name, value in found.items():
        one = known.get(name.replace("-", "_"))
        if one is None or one.name in _HERE or len(name) == 1:
            expected = ", ".join(sorted(name for name in known if name not in _HERE and len(name) > 1))
            raise typer.BadParameter(f"{path}: there is no option {name}: expected {expected}")
        if one.name in defaults:
            raise typer.BadParameter(f"{path}: {name} is given twice, with - and _ or under another name")
        defaults[one.name] = _checked(f"{path}: {name}", value, one)
    ctx.default_map = {**(ctx.default_map or {}), **defaults}
    return path


def _checked(place: str, value: Any, option: Any) -> Any:
    """A value in the form in which the command line has it."""
    many, flag = getattr(option, "multiple", False), getattr(option, "is_flag", False)
    if many and isinstance(value, dict):  # name = value
        value = [one if isinstance(one, dict | list) else f"{name}={one}" for name, one in value.items()]
    if many:
        texts = value if isinstance(value, list) else [value]
        if all(isinstance(one, str) for one in texts):
            return texts
        raise typer.BadParameter(
            f"{place}: expected a text or a list of texts"
        )  # not what a catalog's secret is
    if flag != isinstance(value, bool) or not isinstance(value, bool | str | int | float):
        expected = "true or false" if flag else "a text or a number"
        raise typer.BadParameter(f"{place} = {value!r}: expected {expected}")
    return value


ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="TOML file with these options, as name = value; the command line wins.",
        is_eager=True,
        callback=_load,
    ),
]
