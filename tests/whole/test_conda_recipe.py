"""The recipe for conda says what pyproject.toml says."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
RECIPE = ROOT / "wheels" / "conda" / "recipe.yaml"
CONDA_NAMES = {"duckdb": "python-duckdb"}


def spaced(requirement: str) -> str:
    """``numpy>=2.0`` as conda writes it."""
    name, sign, version = requirement.partition(">=")
    return f"{CONDA_NAMES.get(name, name)} {sign}{version}".strip()


@pytest.fixture(scope="module")
def recipe() -> Any:
    return pytest.importorskip("yaml").safe_load(RECIPE.read_text("utf-8"))


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def test_name_version_and_commands(recipe: Any, project: dict[str, Any]) -> None:
    own = project["project"]
    assert recipe["package"]["name"] == own["name"].replace("_", "-")
    assert recipe["context"]["version"] == own["version"]
    assert recipe["about"]["license"] == own["license"]
    assert recipe["about"]["summary"] == own["description"]
    commands = [f"{name} = {place}" for name, place in own["scripts"].items()]
    assert recipe["build"]["python"]["entry_points"] == commands


def test_requirements(recipe: Any, project: dict[str, Any]) -> None:
    own, needs = project["project"], recipe["requirements"]
    assert set(map(spaced, project["build-system"]["requires"])) <= set(needs["host"])
    extras = own["optional-dependencies"]
    assert set(needs["run"]) == {
        f"python {own['requires-python']}",
        *map(spaced, own["dependencies"]),
        *map(spaced, extras["cli"]),
    }
    known = {spaced(one) for requirements in extras.values() for one in requirements}
    assert set(needs["run_constraints"]) <= known


def test_rattler_build_reads_it() -> None:
    rattler_build = pytest.importorskip("rattler_build")
    variants = rattler_build.VariantConfig(
        {
            "python": ["3.11.*", "3.14.*"],
            "c_compiler": ["gcc"],
            "c_stdlib": ["sysroot"],
            "c_stdlib_version": ["2.28"],
        }
    )
    found = rattler_build.stage0.Stage0Recipe.from_file(str(RECIPE)).render(
        variants, rattler_build.RenderConfig()
    )
    assert len(found) == 2
