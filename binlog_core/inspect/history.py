"""The history of a row: each change, when, by whom and by which statement, also across changes of its key."""

from __future__ import annotations

import glob
import warnings
from bisect import bisect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Unpack, cast

import numpy as np

from .._base.change_columns import PREIMAGE
from .._core._values import RowChange
from .._decode.merge import ChangeReader
from .._decode.savepoints import RowPlace, Savepoints
from .._format.event_types import GTID_EVENTS, EventType
from .._sources.log_names import name_within
from .._tables.column_types import BLOB_TYPE_CODES
from .._tables.full_names import canonical_name
from ..batch.change_batch import OUTCOMES
from ..conditions.language import UNBOUNDED, Condition, quoted, quoted_name
from ..errors import BinlogError, ConditionError, SchemaError
from ..events import Event, QueryEvent, XidEvent
from ..gtids import gtid_text
from ..lake.exports import opener_of
from ..log.log import Log
from ..report import BinlogWarning
from ..schema.table_statements import read_statement
from .lives import Lives
from .transactions import DETAIL_TYPES, Transaction

if TYPE_CHECKING:
    from .._decode.group import Aside, Group
    from .._decode.selection import LogPlace
    from .._tables.tables import Table
    from ..batch.change_batch import ChangeBatch
    from ..lake.exports.reading import ExportedLog, Opener
    from ..log.options import RangeOptions, StateOptions, Target

_Key = tuple[Any, ...]
# These options choose changes; the end of an XA transaction is another event.
_OF_CHANGES = ("gtids", "exclude_gtids", "server_id", "ops")
_MOST_KEYS = 1000  # that a row's history is followed over
_COMMITTED = OUTCOMES.index("committed")
_MOST_OF_NAME = 4096  # bytes of a statement that may name a savepoint


@dataclass(slots=True)
class Version:
    """One change of a row.

    Parameters
    ----------
    change : RowChange
        The change.
    transaction : Transaction
        Its transaction: place, GTID, server, thread, user and statement, without counts of rows. Its outcome
        is also "rolled back" if the transaction itself undid this change, by ROLLBACK TO a savepoint.
    """

    change: RowChange
    transaction: Transaction

    @property
    def changed(self) -> dict[str, tuple[Any, Any]]:
        """The old and new value of each column that differs; None for an image that does not exist."""
        return changed_values(self.change)


def changed_values(change: RowChange) -> dict[str, tuple[Any, Any]]:
    """Old and new value of each column in which the images of a change differ; None: no image."""
    before, after = change.before, change.after
    if before is None or after is None:
        image = before if before is not None else after or {}
        return {name: (value, None) if after is None else (None, value) for name, value in image.items()}
    return {
        name: (before.get(name), value)
        for name, value in after.items()
        if name not in before or before[name] != value
    }


def history(
    target: Target,
    table: str,
    key: Mapping[str, object],
    *,
    most: int | None = None,
    **options: Unpack[RangeOptions],
) -> list[Version]:
    """All changes of a row, from its insert to its end, including those under other keys that it had.

    Parameters
    ----------
    target : what `binlog_core.open` takes, or the directory of an export to Parquet or Delta
        The logs, which are read three times. An export has no threads and statements, and GTIDs and servers
        only if they were exported.
    table : str
        The table, such as "shop.orders".
    key : mapping of column name to value
        The primary key; columns may have the names of any of the table's definitions. If several rows had
        the key one after the other, the result has the histories of all of them.
    most : int or None
        Return only this many changes, the last ones; memory is then bounded by it. None: all.
    **options
        Options for `binlog_core.open`; `stop` ends the history there.

    Returns
    -------
    list of Version
        The changes in log order.

    Raises
    ------
    SchemaError
        The columns are not the table's primary key, or the table does not exist.
    ConditionError
        No definition of the table in the logs has the column, or a value does not fit its column.
    BinlogError
        Reading the logs failed, or the row had more than 1000 keys.
    """
    return last_changes(target, table, key, most, **options)[0]


def last_changes(
    target: Target, table: str, key: Mapping[str, object], most: int | None, **options: Unpack[RangeOptions]
) -> tuple[list[Version], int]:
    """What `history` returns, and the number of earlier changes that it leaves out."""
    open_changes = opener_of(target, options.get("storage_options"))
    return _history(_KeyNames(key), open_changes, canonical_name(table), key, options, most)


def _history(
    names: _KeyNames,
    open_changes: Opener,
    table: str,
    key: Mapping[str, object],
    options: RangeOptions,
    most: int | None = None,
) -> tuple[list[Version], int]:
    if not key:
        raise ValueError("key=: expected the values of the primary key's columns")
    wanted, named = tuple(key.values()), glob.escape(table)
    moves = names.condition(lambda own: " or ".join(f"changed({quoted_name(name)})" for name in own))
    with open_changes(tables=named, where=moves, **options) as log:
        pairs = [
            (names.values(c.before), names.values((c.before or {}) | (c.after or {}))) for c in log.rows()
        ]
    if names.unmet():  # a definition outside the range may have it
        everywhere = cast("RangeOptions", {**options, "start": None, "stop": None})
        with open_changes(tables=named, where=moves, **everywhere) as log:
            for _ in log.rows():
                pass
        names.check(table)
    keys = _keys_of(wanted, pairs)
    if len(keys) > _MOST_KEYS:
        raise SchemaError(f"the row had more than {_MOST_KEYS} keys", table=table)
    where = names.condition(lambda own: " or ".join(f"({_condition(own, values)})" for values in keys))
    lives = Lives[Version](names.values, lambda values: _same(values, wanted), most)
    with open_changes(tables=named, where=where, **options) as log:
        for one in log.each_file():
            begin = lives.read
            for version in _versions(one, table, names, skip_errors=options.get("on_error") == "skip"):
                lives.add(version)
            if isinstance(one, Log):
                _describe(one, lives.kept(begin), to_end=options.get("stop") is None)
    return lives.chosen()


def row_as_of(
    target: Target, table: str, key: Mapping[str, object], stop: LogPlace, **options: Unpack[StateOptions]
) -> dict[str, Any] | None:
    """A row as it was at a place in the logs.

    Parameters
    ----------
    target, table, key
        As for `history`.
    stop : datetime, int, (file name, int) or Position
        The place, as for `binlog_core.open`: events from there on are not read.
    **options
        Options for `binlog_core.open`.

    Returns
    -------
    dict of str to value, or None
        The row, or None if it did not exist, also after TRUNCATE or DROP. A partial image is completed from
        those before it, except for columns whose changes are not logged: generated ones, in updates of
        MariaDB 11.8. With MINIMAL images they look like columns that did not change, and keep their old
        values. Only changes of transactions that were committed by then count, so all changes of a
        transaction or none.

    Raises
    ------
    SchemaError
        As for `history`; also if the row is not known: the logs have no change of it, or after the last one
        there are rows without names, or a statement renames its table, or changes its rows by partitions.
    BinlogError
        Reading the logs failed, or an export has a change of an XA transaction, and not its end.
    """
    names, wanted, table = _KeyNames(key), tuple(key.values()), canonical_name(table)
    open_changes = opener_of(target, options.get("storage_options"))
    states: dict[tuple[Any, ...], dict[str, Any] | None] = {}
    lasts: dict[tuple[Any, ...], Version] = {}
    until = cast("RangeOptions", {**options, "stop": stop})
    changes, _ = _history(names, open_changes, table, key, until)
    _replay(_committed(changes, open_changes, table, until), names, states, lasts)
    for values, row in states.items():
        if _same(values, wanted):
            return None if _is_emptied(open_changes, table, until, names, lasts[values]) else row
    # What the first change found.
    for version in _history(names, open_changes, table, key, cast("RangeOptions", options))[0]:
        for image in (version.change.before, version.change.after):
            if image is not None and _same(names.values(image), wanted):
                return version.change.before if image is version.change.before else None
    raise SchemaError("the logs have no change of this row", table=table)


def _committed(
    versions: list[Version], open_changes: Opener, table: str, options: RangeOptions
) -> Iterator[Version]:
    """The versions of transactions that were committed so far."""
    not_ended = {
        (one.path, one.begin_position): one.outcome
        for one in (version.transaction for version in versions)
        if one.outcome not in ("committed", "rolled back")
    }
    committed = _committed_later(not_ended, open_changes, table, options) if not_ended else set()
    for version in versions:
        one = version.transaction
        if one.outcome == "committed" or (
            one.outcome != "rolled back" and (one.path, one.begin_position) in committed
        ):
            yield version


def _committed_later(
    not_ended: Mapping[tuple[str, int], str], open_changes: Opener, table: str, options: RangeOptions
) -> set[tuple[str, int]]:
    """Of transactions, by place, whose end was not in a group of their rows, those that were committed."""
    others = cast("RangeOptions", {name: one for name, one in options.items() if name not in _OF_CHANGES})
    prepared: dict[str, tuple[str, int]] = {}
    committed: set[tuple[str, int]] = set()
    with open_changes(tables=glob.escape(table), **others) as log:
        for one in log.each_file():
            if not isinstance(one, Log):
                if "XA prepared" not in not_ended.values():
                    break  # an export knows all other ends
                raise BinlogError(
                    "the export lacks the ends of XA transactions: expected an export with --xa committed",
                    table=table,
                )
            name = one.files[0].name
            for group in one.groups(asides=True):
                ended = group.transactions[group.transactions["outcome"] == _COMMITTED]
                committed |= not_ended.keys() & {(name, begin) for begin in ended["begin_position"].tolist()}
                for aside in group.asides:
                    if aside.kind == "xa prepare":
                        prepared[aside.xid] = name, aside.transaction
                    elif aside.kind in ("xa commit", "xa rollback"):
                        begin = prepared.pop(aside.xid, None)
                        if begin is not None and aside.kind == "xa commit":
                            committed.add(begin)
    return committed


def _is_emptied(
    open_changes: Opener, table: str, options: RangeOptions, names: _KeyNames, last: Version
) -> bool:
    """Whether a statement emptied or dropped a table after a change of a row.

    Raises
    ------
    SchemaError
        The row may have changed since then: by a statement, or by rows without names.
    """
    others = cast("RangeOptions", {name: one for name, one in options.items() if name not in _OF_CHANGES})
    gone = False
    with (
        warnings.catch_warnings(action="ignore", category=BinlogWarning),  # the first pass reported it
        open_changes(tables=glob.escape(table), **others) as log,
    ):
        for group, place in _groups_from(log, last):
            for batch in group.batches:
                if batch.array["image"]["position"][-1] > place and names.are_hidden(batch.table):
                    raise SchemaError("later rows of the table have no column names", table=table)
            for aside in group.asides:
                if aside.kind == "statement" and aside.position > place:
                    gone |= _empties(aside, table)
    return gone


def _groups_from(log: Log | ExportedLog, last: Version) -> Iterator[tuple[Group, int]]:
    """The groups from the file of a change on, and the position in each file after which they are later."""
    place = None
    for one in log.each_file():
        for group in one.groups(asides=True):
            name = one.files[0].name if isinstance(one, Log) else name_within(group.path)
            if name == last.transaction.path:
                place = last.change.position
            elif place is not None:
                place = 0
            if place is not None:
                yield group, place


def _empties(aside: Aside, table: str) -> bool:
    """Whether a statement empties or drops a table."""
    found = read_statement(aside.text, aside.database, aside.sql_mode)
    if found is None or not (found.tables or found.database) or not found.concerns(table):
        return False
    if found.kind in ("rename", "unknown") or (found.kind == "truncate" and aside.of_session):
        raise SchemaError(f"the row is not known after this statement: {aside.text[:200]}", table=table)
    return found.kind in ("truncate", "drop") or found.replaces


def _replay(
    versions: Iterable[Version],
    names: _KeyNames,
    states: dict[tuple[Any, ...], dict[str, Any] | None],
    lasts: dict[tuple[Any, ...], Version],
) -> None:
    """Follow the state of each key, and its last change."""
    for version in versions:
        before, after = version.change.before, version.change.after
        row: dict[str, Any] | None = None
        if before is not None:
            old = names.values(before)
            known = states.get(old) or {}
            row = (known if names.of_image(known) == names.of_image(before) else {}) | before
            states[old], lasts[old] = None, version
        if after is not None:
            whole = (row or {}) | after
            key = names.values(whole)
            if before is not None and names.unlogged:
                logged = before.keys() | after.keys()
                whole = {name: whole[name] for name in whole if name in logged or name not in names.unlogged}
            states[key], lasts[key] = whole, version


# ------------------------------------------------------------ keys


class _KeyNames:
    """The names of a key's columns in each definition of the table, since ALTER TABLE may rename them.

    Parameters
    ----------
    columns : iterable of str
        As they were asked for: the names of one of the definitions.
    """

    def __init__(self, columns: Iterable[str]) -> None:
        self.columns = tuple(columns)
        self.unlogged: set[str] = set()  # columns of the table that updates change and do not log
        self._others: dict[tuple[str, ...], None] = {}  # names of other definitions
        self._met: set[str] = set()  # the names, in small letters, that some definition has

    def of(self, table: Table) -> tuple[str, ...]:
        """In a definition: a column of the primary key that has another name is the one that is missing."""
        own = {column.name.lower() for column in table.columns}
        key = table.primary_key or ()
        small = {name.lower() for name in self.columns}
        missing = [name for name in self.columns if name.lower() not in own]
        self._met |= small & own
        others = [name for name in key if name.lower() not in small]
        if not missing or len(missing) != len(others):
            return self.columns
        renamed = dict(zip(missing, others, strict=True))
        return tuple(renamed.get(name, name) for name in self.columns)

    def are_hidden(self, table: Table) -> bool:
        """Whether a definition lacks the key because the names of its columns are not known."""
        own = {column.name for column in table.columns}
        return not all(column.named for column in table.columns) and not own.issuperset(self.of(table))

    def of_image(self, image: Mapping[str, Any]) -> tuple[str, ...]:
        """The names in the definition of an image."""
        if not any(name in image for name in self.columns):
            for names in self._others:
                if any(name in image for name in names):
                    return names
        return self.columns

    def values(self, image: Mapping[str, Any] | None) -> tuple[Any, ...]:
        """The key of a row."""
        return tuple(None if image is None else image.get(name) for name in self.of_image(image or {}))

    def note_unlogged(self, batch: ChangeBatch) -> None:
        """Note the columns that preimages lack, though they have others of the same sort besides the key.

        MariaDB 11.8 leaves generated columns out of updates. A MINIMAL preimage has only the key, and one of
        NOBLOB lacks all BLOBs that are not in it. If the log does not have the primary key, any columns that
        cannot be NULL may be the key by which the server logs.
        """
        before = batch.array["image"]["op"] == PREIMAGE
        if not before.any():
            return
        key = batch.table.primary_key
        absent = {column.name: batch.is_absent(column.name)[before] for column in batch.columns}
        for blobs in (False, True):
            sort = [column for column in batch.columns if (column.type_code in BLOB_TYPE_CODES) == blobs]
            outside = [
                absent[column.name]
                for column in sort
                if (column.name not in key if key else column.nullable is True)
            ]
            if outside:
                logged = ~np.all(outside, axis=0)
                self.unlogged |= {one.name for one in sort if np.any(absent[one.name] & logged)}

    def condition(self, text: Callable[[Iterable[str]], str]) -> Condition:
        """A condition on the key, in the names of each definition."""
        return _KeyCondition(self, text)

    def unmet(self) -> str | None:
        """A name that was taken for an earlier or later name of a column, but no definition so far has it."""
        return next((n for n in self.columns if self._others and n.lower() not in self._met), None)

    def check(self, table: str) -> None:
        """Refuse a name that no definition has."""
        if (name := self.unmet()) is not None:
            key = ", ".join(next(iter(self._others)))
            raise ConditionError(
                f"no definition of the table has the column {name!r}; its primary key is {key}", table=table
            )

    def note(self, names: tuple[str, ...]) -> None:
        """Note a definition with these names."""
        if names != self.columns:
            self._others[names] = None


class _KeyCondition(Condition):
    __slots__ = ("_make", "_names")

    def __init__(self, names: _KeyNames, make: Callable[[Iterable[str]], str]) -> None:
        super().__init__(make(names.columns), limits=UNBOUNDED)
        self._names, self._make = names, make

    def of(self, table: Any) -> Condition:
        names = self._names.of(table)
        if names == self._names.columns:
            return self
        from ..conditions.bound import bind

        made = Condition(self._make(names), limits=UNBOUNDED)
        try:
            bind(made, table)
        except ConditionError:  # of another type: another table of the same name
            return self
        self._names.note(names)
        return made


def _keys_of(wanted: _Key, pairs: list[tuple[_Key, _Key]]) -> list[_Key]:
    """The wanted key, and the keys that its rows had before or after; at most one more than allowed."""
    beside: dict[object, list[_Key]] = {}
    for old, new in pairs:
        beside.setdefault(_plain(old), []).append(new)
        beside.setdefault(_plain(new), []).append(old)
    keys, seen = [wanted], set()
    left = [one for pair in pairs for one in pair if _same(one, wanted)]
    while left and len(keys) <= _MOST_KEYS:
        one = left.pop()
        if (plain := _plain(one)) in seen:
            continue
        seen.add(plain)
        left += beside[plain]
        if not _same(one, wanted):
            keys.append(one)
    return keys


def _plain(key: _Key) -> tuple[object, ...]:
    """The same form for equal keys, even if a column's type was changed between them."""

    def plain(value: object) -> object:
        if isinstance(value, str | int | float | Decimal):
            try:
                number = Decimal(value)
            except InvalidOperation:
                return value
            return number if number.is_finite() else str(value)
        return None if value is None else str(value)

    return tuple(map(plain, key))


def _same(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    return all(_equal(x, y) for x, y in zip(a, b, strict=True))


def _equal(a: object, b: object) -> bool:
    """Whether two values are equal; one may have been typed as text."""
    if isinstance(b, str) and not isinstance(a, str):
        a, b = b, a
    if isinstance(a, str) and isinstance(b, int | float | Decimal):
        try:
            return Decimal(a.strip()) == Decimal(b)
        except InvalidOperation:
            return False
    if isinstance(a, str) and not isinstance(b, str | type(None)):
        return quoted(b) in (quoted(a), a)
    return a == b


def _condition(columns: Iterable[str], values: tuple[Any, ...]) -> str:
    return " and ".join(
        f"{quoted_name(name)} {'is null' if value is None else f'= {quoted(value)}'}"
        for name, value in zip(columns, values, strict=True)
    )


# ------------------------------------------------------------ changes


def _versions(
    log: Log | ExportedLog, table: str, names: _KeyNames, *, skip_errors: bool
) -> Iterator[Version]:
    reader = ChangeReader(log.report, skip_errors=skip_errors)
    known: dict[tuple[str, int], Transaction] = {}
    for group in log.indexed_groups():
        for batch in group.batches:
            key = batch.table.primary_key
            if key and not set(key) <= set(names.of(batch.table)):
                raise SchemaError(f"not the primary key: expected {', '.join(key)}", table=table)
            names.note_unlogged(batch)
        begins = group.transactions["begin_position"]
        for change in reader.changes([group]):
            i = int(np.searchsorted(begins, change.position, side="right")) - 1
            begin = group.path, int(begins[i])
            if begin not in known:
                name = log.files[0].name if isinstance(log, Log) else name_within(group.path)
                known = {begin: _transaction(name, group.transactions[i])}
            yield Version(change, known[begin])


def _transaction(path: str, record: np.void) -> Transaction:
    return Transaction(
        path=path,
        begin_position=int(record["begin_position"]),
        end_position=int(record["end_position"]),
        first_timestamp=int(record["timestamp"]),
        last_timestamp=int(record["timestamp"]),
        gtid=gtid_text(record),
        server_id=int(record["server_id"]),
        xid=int(record["xid"]),
        rows=0,
        inserts=0,
        updates=0,
        deletes=0,
        tables={},
        outcome=OUTCOMES[record["outcome"]],
        thread_id=int(record["thread_id"]) or None,
    )


def _describe(log: Log, versions: list[Version], *, to_end: bool) -> None:
    """Add thread and statement: of a transaction with several statements, to each its own.

    to_end: also how a transaction ended that is longer than a group.

    Also note what ROLLBACK TO a savepoint undid. MariaDB logs it, and the rows before it, where the
    transaction also changed a table that cannot roll back, or made a temporary one. MySQL never compresses
    such a transaction, so each of its events has a position of its own.
    """
    if not versions:
        return
    begins = np.array([one.transaction.begin_position for one in versions], np.uint64)
    places = np.array([one.change.position for one in versions], np.uint64)

    told: dict[int, Transaction] = {}  # by number of the version
    i = 0
    savepoints, span = Savepoints(0), 0  # of the current transaction; the number of spans so far
    begun = False  # the span's own BEGIN was there
    firsts, at = np.unique(begins, return_index=True)
    # From the beginning of each transaction to its end; of one that is longer than a group, up to the next.
    ends = np.array([versions[i].transaction.end_position for i in at.tolist()], np.uint64)
    ends = np.where(ends, ends, np.append(firsts[1:], np.uint64(1 << 62)))
    starts = firsts.tolist()
    closed = 0  # the span in which another transaction has begun
    types = DETAIL_TYPES | {EventType.XID} if to_end else DETAIL_TYPES
    for event in log.events_between(zip(starts, ends.tolist(), strict=True), types):
        # In a compressed transaction all have the same position, so only the first statement is known.
        while i < len(versions) and places[i] < event.position:
            i += 1
        for k in range(i, len(versions)):
            if begins[k] > event.position:
                break
            if k not in told:
                told[k] = versions[k].transaction = replace(versions[k].transaction)
            if getattr(event, "query_bytes", None) is not None and event.position < places[k]:
                told[k].statement = None  # the last one before the change
            told[k].learn(event)
        begins_here = isinstance(event, QueryEvent) and event.query_bytes == b"BEGIN"
        if (here := bisect(starts, event.position)) != span:
            savepoints, span, begun = Savepoints(starts[here - 1]), here, False
        elif event.type_code in GTID_EVENTS or (begun and begins_here):
            savepoints, closed = Savepoints(event.position), here
        begun = begun or begins_here
        if to_end and closed != here and (outcome := _outcome_by(event)):
            for k in np.flatnonzero(begins == starts[here - 1]).tolist():
                if versions[k].transaction.outcome == "unknown":
                    versions[k].transaction.outcome = outcome
        if isinstance(event, QueryEvent) and savepoints.note(
            _start_of_text(event), RowPlace(event.position, 0)
        ):
            for first, last in savepoints.undone[-1:]:
                undone = (places >= first.position) & (places < last.position)
                for k in np.flatnonzero(undone).tolist():
                    versions[k].transaction.outcome = "rolled back"


def _outcome_by(event: Event) -> str | None:
    """How an event ends its transaction, if it does."""
    if isinstance(event, XidEvent):
        return "committed"
    text = event.query_bytes if isinstance(event, QueryEvent) else b""
    return {b"COMMIT": "committed", b"ROLLBACK": "rolled back"}.get(text)


def _start_of_text(event: QueryEvent) -> str:
    return event.query_bytes[:_MOST_OF_NAME].decode("utf-8", "surrogateescape")
