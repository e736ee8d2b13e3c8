"""From changes to a table: a batch of changes folded by key and merged into a Delta table, in one commit.

What a batch has of a key, whatever happened to it, becomes one row or one deletion. That needs the rows in
log order with the preimages of updates: only they tell that a key changed, and which row a partial image
belongs to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from ..errors import BinlogError, MissingExtraError
from ..sql_tokens import tokenize_statements
from .fit import SPECIAL, STATEMENT
from .images import ABSENT
from .schema import CHANGE_COLUMNS, import_pyarrow

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

OnAlter = Literal["safe", "evolve", "stop"]
Key = tuple[Any, ...]
Row = dict[str, Any]

_DELETES = "__deletes"
# Words of an ALTER that change rows, or what they would be, without a row in the log.
_UNSAFE_WORDS = frozenset(
    (
        "DEFAULT",
        "NOT",
        "AUTO_INCREMENT",
        "SERIAL",
        "GENERATED",
        "AS",
        "MODIFY",
        "CHANGE",
        "CONVERT",
        "DROP",
        "RENAME",
    )
)


class ApplyStopped(BinlogError):
    """A logged statement changes the table in a way that cannot be applied; nothing of the batch was."""


@dataclass(frozen=True, slots=True)
class Applied:
    """What a batch did.

    Parameters
    ----------
    changes : int
        Row images and statements in it.
    puts, deletes : int
        Keys that were written or deleted.
    truncated : bool
        The table was emptied first.
    skipped : bool
        The batch had been applied before.
    """

    changes: int = 0
    puts: int = 0
    deletes: int = 0
    truncated: bool = False
    skipped: bool = False


@dataclass
class Folded:
    """Changes by key.

    Parameters
    ----------
    rows : dict of key to dict or None
        What a row has become: the columns that are known; None: it is deleted.
    bases : dict of key to key or None
        Where the columns that `rows` lacks come from: the row that the target has under that key. None: from
        nowhere, they are null.
    truncated : bool
        What the target has is gone.
    """

    rows: dict[Key, Row | None] = field(default_factory=dict)
    bases: dict[Key, Key | None] = field(default_factory=dict)
    truncated: bool = False

    def clear(self) -> None:
        """Nothing is left of what was."""
        self.rows.clear()
        self.bases.clear()
        self.truncated = True

    def put(self, key: Key, row: Row, base: Key | None) -> None:
        self.rows[key], self.bases[key] = row, base

    def take(self, key: Key) -> tuple[Row, Key | None]:
        """What is known of a row that an update found, and its base; under the key it is deleted then."""
        row = self.rows.get(key)
        base = self.bases.get(key) if row is not None else None if self.truncated else key
        self.rows[key], self.bases[key] = None, None
        return row or {}, base


def fold(changes: Iterable[Row], keys: Sequence[str], *, on_alter: OnAlter = "safe") -> Folded:
    """Fold changes of one table.

    Parameters
    ----------
    changes : iterable of dict
        Rows of the data source with images=both, in log order; with `_absent` where images are partial, with
        `_statement` for statements.
    keys : sequence of str
    on_alter : "safe", "evolve" or "stop"

    Raises
    ------
    ApplyStopped
        A statement cannot be applied.
    ValueError
        A key is null or absent, or an update has no preimage.
    """
    folded = Folded()
    before: Row | None = None
    for change in changes:
        kind = change["_change_type"]
        if kind == "update_preimage":
            before = change
        elif kind == "update_postimage":
            if before is None:
                raise ValueError("an update without its preimage: read with images=both")
            old, new = _key(before, keys), _key({**before, **_values(change)}, keys)
            known, base = folded.take(old)
            folded.put(new, {**known, **_values(before), **_values(change)}, base)
            before = None
        elif kind == "insert":
            folded.put(_key(change, keys), _values(change), None)
        elif kind == "delete":
            folded.take(_key(change, keys))
        elif kind is None:
            raise ApplyStopped("the batch has an event that cannot be read: use mode=FAILFAST")
        else:
            _statement(folded, kind, change.get(STATEMENT) or "", on_alter)
    return folded


def _statement(folded: Folded, kind: str, sql: str, on_alter: OnAlter) -> None:
    if kind == "truncate":
        folded.clear()
    elif kind == "alter" and on_alter != "stop" and (on_alter == "evolve" or _only_adds(sql)):
        pass  # its columns come with the rows
    elif kind == "create" and not _replaces(sql):
        pass  # either it was there, or a DROP came before
    else:
        raise ApplyStopped(f"{kind} of the table is not applied: {sql[:200]}")


def _words(sql: str) -> list[str]:
    return [token.text.upper() for token in next(iter(tokenize_statements(sql)), [])]


def _only_adds(sql: str) -> bool:
    return not _UNSAFE_WORDS & set(_words(sql))


def _replaces(sql: str) -> bool:
    return "REPLACE" in _words(sql)[:4]


def _values(change: Row) -> Row:
    absent = set(change.get(ABSENT) or ())
    return {
        name: value for name, value in change.items() if name.lower() not in SPECIAL and name not in absent
    }


def _key(change: Row, keys: Sequence[str]) -> Key:
    absent = change.get(ABSENT) or ()
    key = tuple(change.get(name) for name in keys)
    if None in key and not any(name in absent and change.get(name) is not None for name in keys):
        raise ValueError(f"the key {', '.join(keys)} is null or not in a row image: name other keys")
    return key


def apply_changes(
    batch: DataFrame | pa.Table,
    target: str,
    *,
    keys: Sequence[str],
    app_id: str | None = None,
    batch_id: int | None = None,
    on_alter: OnAlter = "safe",
    without_statements: bool = False,
    storage_options: dict[str, str] | None = None,
) -> Applied:
    """Bring a Delta table up to date with a batch of changes; for ``foreachBatch``, or by itself.

    Parameters
    ----------
    batch : DataFrame or pyarrow.Table
        Of the data source with ``table``, ``images=both`` and ``ddl=rows``. It is gathered on the driver:
        bound it with ``maxBytesPerTrigger``.
    target : str
        Path or URL of the Delta table; made where there is none.
    keys : sequence of str
        Columns that tell rows apart: see `primary_key`.
    app_id, batch_id : str and int, or None
        Kept in the commit: a batch that was applied before is not applied again. Both or none.
    on_alter : "safe", "evolve" or "stop"
        ALTER TABLE: go on where it only adds columns that are null in old rows, always go on, or never.
        "evolve" leaves old rows as they are, whatever the server made of them.
    without_statements : bool
        Go on although the batch has no `_statement`: then a TRUNCATE is not seen.
    storage_options : dict or None
        Of deltalake.

    Returns
    -------
    Applied

    Raises
    ------
    ApplyStopped
        DROP, RENAME or another statement that cannot be applied. Nothing of the batch is.
    ValueError
        The batch lacks what is needed.
    MissingExtraError
        deltalake is not installed.

    Notes
    -----
    All of a batch is one commit. Columns that the batch has and the table has not are added before it.
    """
    try:
        from deltalake import DeltaTable
    except ImportError:
        raise MissingExtraError("apply_changes needs deltalake: pip install deltalake") from None
    if (app_id is None) != (batch_id is None):
        raise ValueError("app_id and batch_id: both or none")
    pa = import_pyarrow()
    options = storage_options or {}
    exists = DeltaTable.is_deltatable(target, storage_options=options)
    if exists and app_id is not None and batch_id is not None:
        done = DeltaTable(target, storage_options=options).transaction_version(app_id)
        if done is not None and done >= batch_id:
            return Applied(skipped=True)
    table: Any = batch if isinstance(batch, pa.Table) else batch.toArrow()
    for name in (*CHANGE_COLUMNS[:2], CHANGE_COLUMNS[3], *keys):
        if name not in table.column_names:
            raise ValueError(f"the batch has no column {name}")
    if STATEMENT not in table.column_names and not without_statements:
        raise ValueError("the batch has no statements: read with ddl=rows, or a TRUNCATE would not be seen")
    table = table.sort_by([("_commit_version", "ascending"), ("_change_ordinal", "ascending")])
    folded = fold(_rows(table), keys, on_alter=on_alter)
    schema = pa.schema([f for f in table.schema if f.name.lower() not in SPECIAL])
    delta = _open(target, schema, exists, options)
    _complete(folded, delta, keys)
    puts = sum(row is not None for row in folded.rows.values())
    if folded.rows or folded.truncated or app_id is not None:
        _merge(delta, folded, keys, schema, app_id, batch_id)
    return Applied(table.num_rows, puts, len(folded.rows) - puts, folded.truncated)


def _rows(table: pa.Table) -> Iterator[Row]:
    for batch in table.to_batches():
        yield from batch.to_pylist()


def _open(target: str, schema: pa.Schema, exists: bool, options: dict[str, str]) -> Any:
    from deltalake import DeltaTable, Field, Schema, write_deltalake

    if not exists:
        write_deltalake(target, schema.empty_table(), storage_options=options)
    delta = DeltaTable(target, storage_options=options)
    known = {one.name for one in delta.schema().fields}
    new = [one for one in Schema.from_arrow(schema).fields if one.name not in known]
    if new:
        delta.alter.add_columns([Field(one.name, one.type, nullable=True) for one in new])
        delta = DeltaTable(target, storage_options=options)
    return delta


def _complete(folded: Folded, delta: Any, keys: Sequence[str]) -> None:
    """Columns that no image had come from the row as the target has it."""
    names = [one.name for one in delta.schema().fields]
    wanted: dict[Key, Key] = {}
    for key, row in folded.rows.items():
        base = folded.bases[key]
        if row is not None and base is not None and any(name not in row for name in names):
            wanted[key] = base
    if not wanted:
        return
    import pyarrow.dataset as ds

    values = list({base[0] for base in wanted.values()})
    found = delta.to_pyarrow_dataset().to_table(filter=ds.field(keys[0]).isin(values)).to_pylist()
    rows = {tuple(row[name] for name in keys): row for row in found}
    for key, base in wanted.items():
        if base not in rows:
            raise ValueError(
                f"a partial image changes a row that the target does not have ({', '.join(keys)} = {base}):"
                " begin with a copy of the table, or with its first log"
            )
        folded.rows[key] = {**rows[base], **(folded.rows[key] or {})}


def _merge(
    delta: Any,
    folded: Folded,
    keys: Sequence[str],
    schema: pa.Schema,
    app_id: str | None,
    batch_id: int | None,
) -> None:
    from deltalake import CommitProperties, Transaction

    pa = import_pyarrow()
    own = pa.schema(delta.schema())
    # The types of the target, in the order of the target.
    source_schema = pa.schema([*own, pa.field(_DELETES, pa.bool_())])
    rows = []
    for key, row in folded.rows.items():
        values = dict(zip(keys, key, strict=True)) if row is None else row
        rows.append({**values, _DELETES: row is None})
    source = pa.Table.from_pylist(rows, schema=source_schema)
    properties = None
    if app_id is not None and batch_id is not None:
        properties = CommitProperties(app_transactions=[Transaction(app_id, batch_id)])
    merger = delta.merge(
        source,
        " AND ".join(f"t.{_quoted(name)} = s.{_quoted(name)}" for name in keys),
        source_alias="s",
        target_alias="t",
        commit_properties=properties,
    )
    columns = {_quoted(name): f"s.{_quoted(name)}" for name in own.names}
    deletes = f"s.{_quoted(_DELETES)}"
    merger = (
        merger.when_matched_delete(predicate=deletes)
        .when_matched_update(updates=columns, predicate=f"NOT {deletes}")
        .when_not_matched_insert(updates=columns, predicate=f"NOT {deletes}")
    )
    if folded.truncated:
        merger = merger.when_not_matched_by_source_delete()
    merger.execute()


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
