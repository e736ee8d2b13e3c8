"""Filters that Spark passes to a data source, in a form that the decoding loop can test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..conditions.pushed import Predicate

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

    from ..lake.rows.source_options import SourceOptions

_OPS = {
    "EqualTo": "=",
    "EqualNullSafe": "=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "In": "in",
    "StringStartsWith": "begins",
    "StringEndsWith": "ends",
    "StringContains": "contains",
}
_OPPOSITES = {"=": "<>", "in": "not in"}


def pushed_predicate(one: Filter, options: SourceOptions) -> Predicate | None:
    """A filter's condition on a row; None if the loop cannot test it.

    Parameters
    ----------
    one : pyspark.sql.datasource.Filter
    options : SourceOptions
    """
    kind, filter_ = type(one).__name__, one
    negated = kind == "Not"
    if negated:
        filter_ = one.child  # type: ignore[attr-defined]
        kind = type(filter_).__name__
    op = _OPS.get(kind)
    attribute: Any = getattr(filter_, "attribute", ())
    value: Any = getattr(filter_, "value", None)
    values = tuple(value) if op == "in" else (value,)
    if op is None or len(attribute) != 1 or None in values or not values:
        return None
    if negated:
        if kind == "EqualNullSafe" or op not in _OPPOSITES:  # their negation is true for NULL too
            return None
        op = _OPPOSITES[op]
    (name,) = attribute
    moved = {"_commit_timestamp": options.xa == "committed", "_change_type": options.images == "keychange"}
    if moved.get(name.lower()):  # not what the log has
        return None
    return Predicate(name, op, values)
