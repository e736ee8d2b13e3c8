"""At the end of a pass: names that the user gave and nothing had."""

from __future__ import annotations

from .._tables.given_names import near
from ..report import Report
from ..schema.definitions import Definitions
from .selection import Selection

_MOST_TOLD = 8


def report_unmet(
    report: Report,
    selection: Selection,
    definitions: Definitions | None,
    *,
    path: str,
) -> None:
    """At the end of a pass, report the names that matched nothing: they may be misspelled."""
    met = selection.met
    if definitions is not None:
        undefined = dict(definitions.unmet())
        before = met.undefined
        met.undefined = (
            undefined if before is None else {key: undefined[key] for key in undefined if key in before}
        )
    if not met.last or met.left_out:
        return
    unmet = [
        f"{argument}={pattern!r}{near(pattern, met.tables)}"
        for argument in ("tables", "exclude_tables")
        for pattern in getattr(selection, argument) or ()
        if pattern not in met.patterns
    ]
    unmet += [
        f"columns={{{pattern!r}: …}}{near(pattern, met.tables)}"
        for pattern in selection.columns
        if pattern not in met.columns and pattern not in ("*", "*.*")
    ]
    unmet += [f"schema={{{key!r}: …}}{near(key, tables)}" for key, tables in (met.undefined or {}).items()]
    if selection.gtids and not met.gtids:
        unmet.append("no transaction is in gtids=")
    elif selection.server_id is not None and not met.rows and not unmet:
        unmet.append(f"server_id={selection.server_id}")
    if unmet:
        more = f"; and {len(unmet) - _MOST_TOLD} more" if len(unmet) > _MOST_TOLD else ""
        report.add(
            "unmatched_names", path=path, detail="; ".join(unmet[:_MOST_TOLD]) + more, count=len(unmet)
        )
