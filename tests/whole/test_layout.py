"""Where tests are: in folders like the package's, in files named like the modules, or as listed here."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.house import names

import binlog_core

PACKAGE = Path(binlog_core.__file__).parent
TESTS = Path(__file__).parent.parent

# Modules that are tested through those that use them: the file that would fail.
THROUGH: dict[str, str] = {
    "archive/feed.py": "archive/test_archiver.py",  # a protocol
    "archive/live_feed.py": "archive/test_archive_server.py",  # needs a server
    "cli/exits.py": "cli/test_cli_app.py",  # a constant
    "cli/history.py": "inspect/test_history.py",
    "cli/transactions.py": "inspect/test_transactions.py",
    "cli/undo.py": "replay/test_undo.py",
    "lake/rows/option_texts.py": "lake/rows/test_source_options.py",  # parsers of the options' texts
    "_decode/context.py": "decode/test_log_decoder.py",  # a record
    "_decode/current_event.py": "inspect/test_transactions.py",  # glue between the loop and events
    "_decode/ddl_before.py": "schema/test_definitions.py",
    "_decode/gathering.py": "decode/test_log_decoder.py",  # part of the decoder
    "_decode/other_events.py": "decode/test_log_decoder.py",  # part of the decoder
    "_decode/unmet.py": "tables/test_given_names.py",
    "_decode/plans.py": "core/test_values.py",  # what the loop of the core runs
    "log/arguments.py": "log/test_opening.py",  # what `open` refuses
    "log/open_logs.py": "log/test_passes.py",  # opens the logs of passes
    "_format/innodb_binlog.py": "sources/test_innodb_binlog.py",  # with the source that reads its pages
    "_format/magic.py": "format/test_descriptors.py",  # constants
    "inspect/report_page/style.py": "inspect/test_report_page.py",  # colours
    "log/opened.py": "scans/test_dataset.py",
    "log/options.py": "test_face.py",  # types only
    "batch/records.py": "batch/test_change_batch.py",  # what a ChangeBatch is made of
    "log/threads.py": "log/test_threaded_pass.py",
    "replay/flashback_script.py": "replay/test_scripts.py",
    "replay/later_changes.py": "replay/test_undo.py",
    "replay/replay_script.py": "replay/test_scripts.py",
    "scans/scans.py": "scans/test_duckdb.py",
    "replay/undo_rows.py": "replay/test_undo.py",
    "server/run.py": "server/test_stream.py",  # a tuple
    "_sources/innodb_pages.py": "sources/test_innodb_binlog.py",  # with the source that reads by them
    "_sources/innodb_trees.py": "sources/test_innodb_binlog.py",
    "_sources/opened.py": "log/test_log.py",  # what a Log has open
    "lake/apply/attempts.py": "lake/apply/test_file_target.py",  # files of failed commits
    "schema/asked.py": "schema/test_schema_server.py",  # a name
    "splits/split.py": "splits/test_plan.py",  # what a plan is made of
    "spark/applying.py": "lake/apply/test_apply_changes.py",
    "spark/jobs.py": "lake/apply/test_jobs.py",
    "spark/mirror.py": "mirror/test_mirroring.py",  # needs a server
    "spark/schemas.py": "lake/rows/test_types.py",
    "spark/partition.py": "spark/test_datasource.py",  # a field in Spark's own class
    "lake/tables/table.py": "lake/tables/test_lake_delta.py",  # protocols, and a record
    "_sources/resolve.py": "sources/test_log_files.py",
    "_tables/side_dtypes.py": "core/test_records.py",  # twins of structs in the core
    "log/notes.py": "log/test_threaded_pass.py",
    "log/parts.py": "log/test_threaded_pass.py",
    "_walk/resync.py": "core/test_resync.py",  # half of it is in the core
}


def modules() -> list[str]:
    return sorted(
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if not path.name.startswith("__")
        and path.parent != PACKAGE / "_core"
        and ".".join(path.relative_to(PACKAGE).with_suffix("").parts) not in names()
    )


def files_for(module: str) -> list[str]:
    """For `cli/rows.py` `cli/test_rows.py`, or `cli/test_cli_rows.py` where a name comes twice."""
    *folders, name = (part.lstrip("_") for part in Path(module).with_suffix("").parts)
    names = [f"test_{name}.py", *(f"test_{folder}_{name}.py" for folder in folders)]
    return [Path(*folders, one).as_posix() for one in names]


def test_each_module_has_its_tests() -> None:
    own = {module for module in modules() if any((TESTS / path).is_file() for path in files_for(module))}
    assert own.isdisjoint(THROUGH), "it has a file of its own"
    assert [path for path in THROUGH.values() if not (TESTS / path).is_file()] == []
    missing = set(modules()) - own - set(THROUGH)
    assert missing == set(), f"expected {[files_for(module)[0] for module in missing]}, or lines in THROUGH"


def test_only_modules_are_named() -> None:
    assert set(THROUGH) <= set(modules())


def test_no_two_test_files_have_one_name() -> None:
    """Outside packages pytest takes two files of one name for one module, and collects neither."""
    alone = [path.name for path in TESTS.rglob("test_*.py") if not (path.parent / "__init__.py").exists()]
    assert sorted(alone) == sorted(set(alone))


@pytest.mark.parametrize(
    "room", ["batch", "conditions", "core", "decode", "events", "format", "splits", "tables", "walk"]
)
def test_what_reads_bytes_runs_under_the_sanitizers(room: str) -> None:
    files = list((TESTS / room).rglob("test_*.py"))
    assert files and [path.name for path in files if "mark.sanitize" not in path.read_text("utf-8")] == []
