"""Metrics in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple


class Metric(NamedTuple):
    """A metric.

    Parameters
    ----------
    name, kind, text : str
        Name without prefix; "gauge" or "counter"; description.
    values : iterable of (mapping of str to str, float)
        Labels and value; without any, nothing is written.
    """

    name: str
    kind: str
    text: str
    values: Iterable[tuple[Mapping[str, str], float]]


def metrics_text(prefix: str, metrics: Iterable[Metric]) -> bytes:
    """The text, with the prefix before each name."""
    lines: list[str] = []
    for metric in metrics:
        full = f"{prefix}_{metric.name}"
        found = [f"{full}{{{_labels(labels)}}} {value}" for labels, value in metric.values]
        if found:
            lines += [f"# HELP {full} {metric.text}", f"# TYPE {full} {metric.kind}", *found]
    return "\n".join(lines).encode() + b"\n"


def _labels(labels: Mapping[str, str]) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
