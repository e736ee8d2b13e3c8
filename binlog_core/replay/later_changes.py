"""What others did after the changes that are undone: to their rows, and to their tables."""

from __future__ import annotations

import glob
import warnings
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from .._format.statements import changes_rows
from .._tables.full_names import own_name
from ..report import BinlogWarning
from ..schema.table_statements import TableStatement, read_statement, words_of_change
from .script_lines import place_text, statement_text, transaction_text
from .statements import BatchStatements, Ident, StatementMaker, TableStatements
from .undo_rows import UndoRow

if TYPE_CHECKING:
    from .._decode.group import Aside
    from ..batch.change_batch import ChangeBatch
    from ..lake.exports.reading import Opener

Tracked = dict[tuple[str, Ident], list[UndoRow]]


def find_later(
    open_changes: Opener,
    rows: Iterable[UndoRow],
    first: tuple[str, int],
    known: Mapping[tuple[str, int], bool],
    options: Mapping[str, Any],
    altered: dict[str, str],
) -> list[str]:
    """Mark the rows that later changes touch after the last change that is undone, or whose table is another.

    Parameters
    ----------
    open_changes : callable
        Opens the logs.
    rows : iterable of UndoRow
        The rows.
    first : (str, int)
        Log and position at which reading begins: the first transaction with one of the changes.
    known : mapping
        By log and position the statements that are reported already, and whether they took rows. Those do not
        matter: who makes a plan of such a range accepts that it is incomplete.
    options : mapping
        Options for `open_changes`. With `start`, reading begins there, and what is before `first` is passed.
    altered : dict
        Gets the first statement that may replace the definition of a table, by the table.

    Returns
    -------
    list of str
        Other statements on the rows' tables, for people.
    """
    tables: dict[str, TableStatements] = {}
    of_table: dict[str, list[UndoRow]] = {}
    tracked: Tracked = {}
    for row in rows:
        tables[row.table] = row.plan
        of_table.setdefault(row.table, []).append(row)
        tracked.setdefault((row.table, row.ident), []).append(row)
    unmarked = _Unmarked(row for of_one in of_table.values() for row in of_one)
    names = {glob.escape(name): plan for name, plan in tables.items()}
    columns = {
        name: [plan.columns[i].name for i in plan.key] for name, plan in names.items() if plan.key is not None
    }
    notes: list[str] = []
    passed: set[str] = set()
    here, is_before = "", "start" in options
    with (
        warnings.catch_warnings(action="ignore", category=BinlogWarning),  # the first pass reported it
        open_changes(**{"start": first, **options}, tables=list(names), columns=columns) as log,
    ):
        maker = StatementMaker(log.format)
        for group in log.groups(asides=True):
            if group.path != here:
                passed.add(here)
                here = group.path
            is_before &= here != first[0]
            for aside in group.asides:
                place = here, aside.position
                if is_before or (here == first[0] and aside.position < first[1]):
                    continue
                if aside.kind not in ("statement", "lost") or known.get(place):
                    continue
                if aside.kind == "lost" or changes_rows(aside.text.encode()):
                    if unmarked.mark(aside, here, passed):
                        notes.append(f"after the changes: {_told(aside, here)}")
                    continue
                found = read_statement(aside.text, aside.database, aside.sql_mode)
                if found is None or (found.kind == "create" and not found.replaces):
                    continue
                concerned = [name for name in of_table if found.concerns(name)]
                if not concerned:
                    continue
                text = _told(aside, here)
                if found.kind != "truncate":
                    altered |= dict.fromkeys(concerned, text) | altered
                if place not in known:
                    notes.append(f"after the changes: {text}")
                for row in (row for name in concerned for row in of_table[name]):
                    if row.path in passed or (row.path == here and aside.position > row.place[0]):
                        _mark_table(row, found, text)
            for batch in group.batches:
                _mark(batch, maker, tracked, passed)
    return notes


class _Unmarked:
    """The rows of each table that no change without a logged row may have changed so far.

    Each is looked at once, however many such changes the logs have.
    """

    def __init__(self, rows: Iterable[UndoRow]) -> None:
        self._rows: dict[str, dict[str, list[UndoRow]]] = {}  # by table and log, the last change first
        for row in sorted(rows, key=lambda row: row.place, reverse=True):
            self._rows.setdefault(row.table, {}).setdefault(row.path, []).append(row)

    def mark(self, aside: Aside, path: str, passed: set[str]) -> bool:
        """Mark the rows that a statement, or what is lost, may have changed; whether there are any."""
        tables = [name for name, logs in self._rows.items() if any(logs.values())]
        if not tables:
            return False
        words = None if aside.kind == "lost" else words_of_change(aside.text, aside.sql_mode)
        found: list[UndoRow] = []
        for name in tables:
            if words is None or own_name(name).lower() in words:
                logs = self._rows[name]
                for log in passed & logs.keys():
                    found += logs.pop(log)
                last = logs.get(path, [])
                while last and last[-1].place[0] < aside.position:
                    found.append(last.pop())
        what = "changes that are lost" if aside.kind == "lost" else "a statement whose rows are not logged"
        for row in found:
            row.changed(f"{what}, maybe: {_told(aside, path)}")
        return bool(found)


def _told(aside: Aside, path: str) -> str:
    return f"{place_text(path, aside.position)}: {statement_text(aside)}"


def _mark_table(row: UndoRow, found: TableStatement, text: str) -> None:
    if found.kind == "truncate":
        row.changed(text)
    if found.kind not in ("drop", "rename", "create") or row.plan.database != row.plan.table.database:
        return
    if row.after is None:  # nothing on the server would show that it is not the row's table
        row.refuse(f"its table was dropped, renamed or replaced since, by {text}")
    else:
        row.changed(text)


def _mark(
    batch: ChangeBatch,
    maker: StatementMaker,
    tracked: Tracked,
    passed: set[str],
) -> None:
    plan, name = maker.plan(batch), batch.table.full_name
    image = batch.array["image"]
    positions, numbers, transactions = (image[k].tolist() for k in ("position", "row", "transaction"))
    statements = BatchStatements(batch, plan, inverse=True)
    for record in statements.records.tolist():
        before, after = statements.images(record)
        for one, dead in ((before, False), (after, True)):
            if one is None:
                continue
            for row in tracked.get((name, plan.ident(one)), ()):
                place = positions[record], numbers[record]
                later = row.path in passed or (row.path == batch.path and place > row.place)
                if later and (row.after is None) == dead and row.state == "ready":
                    row.changed(transaction_text(batch.path or "", batch.transactions[transactions[record]]))
                    if row.plan.key is None:
                        break  # of several that are equal, one
