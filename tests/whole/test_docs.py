"""The documentation's code blocks run, and print what the pages say.

The Python blocks of a page run one after the other in one namespace, in a folder that has ``tests/data`` and
little else. A ``text`` block right after a Python block is what it prints; "…" stands for anything. In shell
blocks the lines that call ``binlog-core`` run; the others only set things up. A block under
``<!-- not run: REASON -->`` does not run, nor do those of a page with
``<!-- page not run: REASON -->``, nor one under ``<!-- needs: MODULE -->`` where that is not installed.
Pages that start Spark run in a process of their own: a session keeps the folder in which it was made.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import io
import multiprocessing
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import pytest
from support.default_logs import as_minimal
from support.golden import golden_logs

import binlog_core

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"]
FIRST_PAGES = [
    ROOT / "README.md",
    *(ROOT / "docs" / f"{name}.md" for name in ("tutorial", "cookbook/accident", "cookbook/recovery")),
]

_FOR_A_SHELL = "|&;<>()$`*?#~"
_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>[a-z]*)[^\n`]*$")
_NOT_RUN = re.compile(r"<!-- not run: (?P<reason>.+?) -->")
_NEEDS = re.compile(r"<!-- needs: (?P<module>\w+) -->")
_PAGE_NOT_RUN = re.compile(r"<!-- page not run: (?P<reason>.+?) -->")
_LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")


@dataclass
class Block:
    language: str
    code: str
    line: int  # of the code's first line, from 1
    not_run: str | None = None  # the reason
    output: Block | None = None


def blocks_of(text: str) -> list[Block]:
    """The fenced blocks of a page; a text block after a Python block is that one's output."""
    found: list[Block] = []
    lines = text.splitlines()
    last: Block | None = None  # the block that a text block may belong to
    whole = _PAGE_NOT_RUN.search(text)
    reason = page_reason = whole["reason"] if whole else None
    number = 0
    while number < len(lines):
        line = lines[number]
        if fence := _FENCE.match(line):
            end = next(i for i in range(number + 1, len(lines)) if lines[i].strip() == "```")
            code = "\n".join(each.removeprefix(fence["indent"]) for each in lines[number + 1 : end])
            block = Block(fence["language"], code, number + 2, reason)
            if last is not None and block.language == "text":
                last.output = block
            found.append(block)
            last, reason, number = (block if block.language in ("python", "sh") else None), page_reason, end
        elif note := _NOT_RUN.search(line):
            reason = note["reason"]
        elif need := _NEEDS.search(line):
            reason = reason if importlib.util.find_spec(need["module"]) else f"needs {need['module']}"
        elif line.strip():
            last = None
        number += 1
    return found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with ``tests/data``, where blocks may write."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "data").symlink_to(ROOT / "tests" / "data")
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "binlog-core"  # of the package under test, wherever Python finds it
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m binlog_core.cli "$@"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("NO_COLOR", "1")
    return tmp_path


@pytest.fixture
def moved(folder: Path) -> Callable[[str], str]:
    """The folder has the first pages' logs as a server with default settings writes them.

    Returns what makes of a page's text that of these logs: their events begin elsewhere.
    """
    data, own = ROOT / "tests" / "data", folder / "tests" / "data"
    own.unlink()
    shutil.copytree(data, own, copy_function=os.symlink)
    made = {}
    for name in ("dml_mixed", "meta_full"):
        path = own / "mysql97" / f"{name}.binlog"
        made[name] = as_minimal(path.read_bytes())
        path.unlink()
        path.write_bytes(made[name].log)
        with binlog_core.open(path) as log:
            tables = [batch.table for group in log.groups() for batch in group.batches]
            assert tables and not any(column.named for table in tables for column in table.columns)
    return made["dml_mixed"].text


def run_python(block: Block, page: Path, namespace: dict[str, object]) -> str:
    """Run a block; what it prints. A traceback has the page's own line numbers."""
    tree = ast.increment_lineno(ast.parse(block.code, str(page)), block.line - 1)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, str(page), "exec"), namespace)
    return printed.getvalue()


def command_lines(code: str) -> Iterator[str]:
    """The commands of a shell block that call binlog-core, each on one line."""
    for line in code.replace("\\\n", " ").splitlines():
        if re.match(r"\s*(\$ )?binlog-core\s", line):
            yield line.strip().removeprefix("$ ")


def run_command(line: str) -> str:
    """Run a command of a shell block; what it prints on standard output.

    In this process if it needs no shell: `.ci/first-steps` has a process for each command.
    """
    words = shlex.shlex(line, posix=True, punctuation_chars=_FOR_A_SHELL)
    words.whitespace_split, words.commenters = True, ""
    name, *arguments = words
    if name == "binlog-core" and not any(set(word) <= set(_FOR_A_SHELL) for word in arguments if word):
        from support.cli import run

        ran = run(*arguments)
        assert ran.code == 0, f"{line}\n{ran.text}\n{ran.err}"
        return ran.text
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def same(printed: str, shown: str) -> bool:
    """Whether a page shows what was printed, "…" standing for anything."""
    pieces = [re.escape(piece) for piece in "\n".join(map(str.rstrip, shown.splitlines())).strip().split("…")]
    plain = "\n".join(map(str.rstrip, printed.splitlines())).strip()
    return re.fullmatch(".*?".join(pieces), plain, re.DOTALL) is not None


def check(block: Block, printed: str, page: Path) -> None:
    if block.output is not None:
        assert same(printed, block.output.code), (
            f"{page.name}, line {block.output.line}: it prints\n{printed}\nand the page says\n"
            f"{block.output.code}"
        )


def run_page(page: Path, text: str | None = None) -> None:
    """Run the Python blocks of a page, and compare what they print.

    text: the page's text, where it is not the page itself.
    """
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in blocks_of(page.read_text("utf-8") if text is None else text):
        if block.language == "python" and block.not_run is None:
            check(block, run_python(block, page, namespace), page)


def run_pages_of_spark(pages: list[Path]) -> None:
    """The same for pages that start Spark, each in a folder as it was at first: Java remembers its name.

    Spark is stopped: a thread that is still in C++ when Python ends would abort the process.
    """
    from pyspark.sql import SparkSession

    kept = os.listdir()
    for page in pages:
        print(page, file=sys.stderr)
        run_page(page)
        SparkSession.active().stop()
        for name in set(os.listdir()) - set(kept):
            (shutil.rmtree if os.path.isdir(name) else os.unlink)(name)


def starts_spark(page: Path) -> bool:
    blocks = blocks_of(page.read_text("utf-8"))
    return any(block.not_run is None and "SparkSession.builder" in block.code for block in blocks)


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", [page for page in PAGES if not starts_spark(page)], ids=name_of)
@pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")
def test_python_blocks(page: Path, folder: Path) -> None:
    run_page(page)


@pytest.mark.spark
def test_python_blocks_of_spark(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)  # as in an activated environment
    pages = [page for page in PAGES if starts_spark(page)]
    assert len(pages) > 1
    process = multiprocessing.get_context("spawn").Process(target=run_pages_of_spark, args=[pages])
    process.start()
    process.join()
    assert process.exitcode == 0  # its traceback is on standard error, after the page's name


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_blocks_that_do_not_run(page: Path) -> None:
    """They are valid Python, and the names that they import from the package exist."""
    for block in blocks_of(page.read_text("utf-8")):
        if block.language != "python" or block.not_run is None:
            continue
        tree = ast.increment_lineno(ast.parse(block.code, str(page)), block.line - 1)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("binlog_core"):
                pytest.importorskip("pyspark" if ".spark" in (node.module or "") else "numpy")
                exec(compile(ast.Module([node], []), str(page), "exec"), {})


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_shell_blocks(page: Path, folder: Path) -> None:
    blocks = [
        block
        for block in blocks_of(page.read_text("utf-8"))
        if block.language == "sh" and block.not_run is None and any(command_lines(block.code))
    ]
    if not blocks:
        pytest.skip("no commands")
    pytest.importorskip("typer")
    pytest.importorskip("rich")
    for block in blocks:
        check(block, "".join(run_command(line) for line in command_lines(block.code)), page)


@pytest.mark.parametrize("page", FIRST_PAGES, ids=name_of)
@pytest.mark.filterwarnings("ignore::binlog_core.BinlogWarning")
def test_first_pages_on_logs_of_a_default_server(page: Path, moved: Callable[[str], str]) -> None:
    text = moved(page.read_text("utf-8"))
    assert text != page.read_text("utf-8")
    run_page(page, text)
    pytest.importorskip("typer")
    for block in blocks_of(text):
        if block.language == "sh" and block.not_run is None:
            check(block, "".join(run_command(line) for line in command_lines(block.code)), page)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for link in _LINK.finditer(re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)):
        target = unquote(link["target"].partition("#")[0])
        if target and not re.match(r"[a-z]+:", target):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_tutorial_lists_the_extras() -> None:
    with open(ROOT / "pyproject.toml", "rb") as file:
        extras = set(tomllib.load(file)["project"]["optional-dependencies"]) - {"dev"}
    tutorial = (ROOT / "docs" / "tutorial.md").read_text("utf-8")
    assert set(re.findall(r"^\| `(\w+)` \|", tutorial, re.MULTILINE)) == extras


def test_a_block_that_prints_something_else_fails() -> None:
    (block, shown) = blocks_of("```python\nprint(1, 'x')\n```\n\n```text\n1 …\n```\n")
    assert block.output is shown
    assert same("1 anything\n", "1 …")
    assert not same("2 anything\n", "1 …")
    with pytest.raises(AssertionError, match="line 6"):
        check(block, "2\n", Path("page.md"))


def test_a_reason_holds_for_one_block() -> None:
    first, second = blocks_of("<!-- not run: a server -->\n\n```python\n1\n```\n\n```python\n2\n```\n")
    assert (first.not_run, second.not_run) == ("a server", None)


def test_a_block_runs_where_the_library_that_it_needs_is() -> None:
    block = "<!-- needs: {} -->\n\n```python\n1\n```\n"
    here, missing = (blocks_of(block.format(name))[0] for name in ("json", "no_such_library"))
    assert (here.not_run, missing.not_run) == (None, "needs no_such_library")


def test_commands_of_a_shell_block() -> None:
    code = "pip install x\nbinlog-core info \\\n  LOG\n$ binlog-core rows LOG | head -1"
    assert list(command_lines(code)) == ["binlog-core info    LOG", "binlog-core rows LOG | head -1"]


def test_the_debugging_example_stops_at_the_line_that_it_shows() -> None:
    told = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    [line] = set(re.findall(r"rows_events\.pxd:(\d+)", told))
    shown = re.search(rf"^    {line} +(.+)$", told, re.MULTILINE)
    assert shown is not None
    source = (ROOT / "src/decode/rows_events.pxd").read_text("utf-8").splitlines()
    assert source[int(line) - 1].strip() == shown[1]


def test_words_of_the_code_are_few_and_in_use() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    [table] = re.findall(r"^## Words of the code\n(.+?)^## ", page, re.MULTILINE | re.DOTALL)
    words = re.findall(r"^\| (\w+) \| \w", table, re.MULTILINE)[1:]
    assert 10 < len(words) <= 20 and words == sorted(words)
    code = " ".join(
        path.read_text("utf-8").lower()
        for folder in ("binlog_core", "src")
        for path in (ROOT / folder).rglob("*.p[xy]*")
        if path.suffix in (".py", ".pyx", ".pxd")
    )
    assert [word for word in words if not re.search(rf"\b{word}", code)] == []


def test_first_steps_are_run_whole() -> None:
    """`.ci/first-steps` takes every block out of a page."""
    script = runpy.run_path(str(ROOT / ".ci" / "first-steps"))
    for page in script["PAGES"]:
        text = script["script_of"](page)
        for block in blocks_of((ROOT / page).read_text("utf-8")):
            if block.language in ("sh", "python") and block.not_run is None:
                for line in block.code.splitlines():
                    assert line.startswith(script["OTHER_STEPS"]) or line in text, (page, line)


def test_an_unbuilt_source_folder_says_what_to_do(tmp_path: Path) -> None:
    package = Path(binlog_core.__file__).parent
    shutil.copytree(package, tmp_path / "binlog_core", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    done = subprocess.run(
        [sys.executable, "-c", "import binlog_core"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ImportError: the compiled modules of binlog_core are not in ")
    assert "pip install -e ." in last


def test_the_api_pages_have_what_is_public() -> None:
    """All that the package exports, and nothing from a private folder."""
    pages = "\n".join(page.read_text() for page in (ROOT / "docs" / "api").glob("*.md"))
    documented = re.findall(r"^::: (\S+)$", pages, re.MULTILINE)
    assert len(documented) == len(set(documented))
    assert [name for name in documented if "._" in name] == []
    exported = {*binlog_core.__all__, "archive.archive", "replay.plan_undo", "splits.plan_splits"}
    assert {f"binlog_core.{name}" for name in exported} <= {*documented, *in_modules(documented)}


def in_modules(documented: list[str]) -> set[str]:
    """Names at the top of the package that are documented with their module."""
    homes = binlog_core._HOMES.items()
    return {f"binlog_core.{name}" for name, home in homes if f"binlog_core.{home}" in documented}


def test_the_chart_of_right_values_claims_no_more_than_is_compared() -> None:
    counted: dict[str, tuple[int, int]] = {}
    for golden in golden_logs():
        logs, values = counted.get(golden.path.parent.name, (0, 0))
        values += sum(len(change[side] or ()) for change in golden.truth for side in ("before", "after"))
        counted[golden.path.parent.name] = logs + 1, values
    chart = (ROOT / "docs" / "images" / "right.svg").read_text("utf-8")
    found = re.findall(r">(\w+) ([\d.]+)</text>.*?>([\d,]+) of ([\d,]+)<.*?>(\d+) logs<", chart)
    assert len(found) == 4
    for vendor, version, right, values, logs in found:
        compared = counted[vendor.lower().removesuffix("db") + version.replace(".", "")]
        assert right == values and int(values.replace(",", "")) <= compared[1] and int(logs) <= compared[0]
    total = sum(int(one[3].replace(",", "")) for one in found)
    assert f"all {total:,} of {sum(int(one[4]) for one in found)} logs" in chart
    assert f"all {total:,} are" in (ROOT / "README.md").read_text("utf-8")
