"""Shared by all tests: where helpers are, what may not run side by side, whether the last run ended.

The package under test is the one that Python finds: an installed wheel or the source folder.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
if str(HERE) not in sys.path:  # ``support`` and ``reference``, whatever pytest's import mode
    sys.path.insert(0, str(HERE))

# Java lives as long as the process: the first session's start options apply to all.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

# Java's second compiler, its parallel collector and 200 partitions take more time than they save in runs as
# short as these.
# If there is no archive of its classes (support/java_classes.py), or only another Java's, it says nothing.
CLASSES = HERE.parent / "build" / "java-classes.jsa"
os.environ.setdefault(
    "SPARK_SUBMIT_OPTS",
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dspark.sql.shuffle.partitions=2"
    + f" -Xlog:disable -XX:SharedArchiveFile={CLASSES}",
)


# ------------------------------------------------------------ what may not run side by side


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what needs a server that is not there; in parallel runs, tell the scheduler the groups."""
    from support.server import SERVER

    missing = "no server: BINLOG_CORE_TEST_SERVER=mysql://user:password@host:port names one"
    if not SERVER:
        for item in items:
            if item.get_closest_marker("server"):
                item.add_marker(pytest.mark.skip(reason=missing))
    if "groups" in getattr(config, "workerinput", {}):
        groups = {item.nodeid: group for item in items if (group := group_of(item))}
        mine = Path(f"{config.workerinput['groups']}.{os.getpid()}")
        mine.write_text(json.dumps(groups))
        mine.replace(config.workerinput["groups"])  # each worker collects the same


def group_of(item: pytest.Item) -> str | None:
    """The name of a test's group, which ``make test`` keeps on one worker; None: it may run on any.

    Tests that use the server of BINLOG_CORE_TEST_SERVER change its settings; those of Spark share a session,
    which takes seconds to start; and those that share a fixture of their module make it once.
    """
    if own := item.get_closest_marker("xdist_group"):
        return str(own.args[0])
    fixtures: dict[str, Any] = item._fixtureinfo.name2fixturedefs  # type: ignore[attr-defined]
    for name in ("server", "spark"):
        if item.get_closest_marker(name):
            return name
    if "spark" in fixtures:
        return "spark"
    shared = any(made[-1].scope == "module" for made in fixtures.values())
    return item.nodeid.partition("::")[0] if shared else None


_GROUPS = Path(tempfile.gettempdir()) / f"groups-of-tests-{os.getpid()}.json"


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    if node.config.getvalue("dist") == "loadgroup":
        node.workerinput["groups"] = str(_GROUPS)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """xdist's own scheduler of groups renames tests, which pytest 9.2 no longer lets it do."""
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):  # type: ignore[misc]
        @cached_property
        def _groups(self) -> dict[str, str]:
            found: dict[str, str] = json.loads(_GROUPS.read_text())
            return found

        def _split_scope(self, nodeid: str) -> str:
            return self._groups.get(nodeid, nodeid)

        def _pending_of(self, workload: dict[str, dict[str, bool]]) -> int:
            """Forgets groups that are done: otherwise each test that ends counts through all before it."""
            for group in [name for name, tests in workload.items() if all(tests.values())]:
                del workload[group]
            return int(super()._pending_of(workload))

    return Groups(config, log) if config.getvalue("dist") == "loadgroup" else None


# ------------------------------------------------------------ a crash of the interpreter


def _mark(config: pytest.Config) -> Path:
    """The file that names the test at hand, for as long as the run lasts."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    folder: Path = config.cache.mkdir("running")  # type: ignore[union-attr]
    return folder / worker


def pytest_configure(config: pytest.Config) -> None:
    # A shell's background job ignores Ctrl-C, and processes that tests start would inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if getattr(config, "cache", None) is None:  # -p no:cacheprovider
        return
    config.stash[CRASHED] = []
    if "PYTEST_XDIST_WORKER" not in os.environ:
        for mark in sorted(_mark(config).parent.iterdir()):
            pid, _, test = mark.read_text().partition(" ")
            if not _runs(int(pid or 0)):
                if test not in config.stash[CRASHED]:
                    config.stash[CRASHED].append(test)
                mark.unlink()


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return pid > 0


CRASHED = pytest.StashKey[list[str]]()


def pytest_report_header(config: pytest.Config) -> list[str]:
    return [
        f"the last run did not end: its interpreter crashed or was killed in {test}"
        for test in config.stash.get(CRASHED, [])
    ]


def pytest_runtest_logstart(nodeid: str) -> None:
    if _RUN:
        _RUN[0].write_text(f"{os.getpid()} {nodeid}")


_RUN: list[Path] = []


def pytest_sessionstart(session: pytest.Session) -> None:
    worker = "PYTEST_XDIST_WORKER" in os.environ
    alone = not worker and not getattr(session.config.option, "numprocesses", None)
    if getattr(session.config, "cache", None) is not None and (worker or alone):
        _RUN[:] = [_mark(session.config)]


# ------------------------------------------------------------ what is reported at the end


def pytest_sessionfinish(session: pytest.Session) -> None:
    from support import sparks, tally

    sparks.stop()
    if _RUN:
        _RUN.pop().unlink(missing_ok=True)
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["tried"] = dict(tally.TRIED)
    else:
        _GROUPS.unlink(missing_ok=True)  # a worker in place of a crashed one writes it, too


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    from support import tally

    tally.TRIED.update(getattr(node, "workeroutput", {}).get("tried", {}))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    from support import tally

    if tally.TRIED:
        terminalreporter.write_line(tally.summary())
