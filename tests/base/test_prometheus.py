"""Metrics in the text format that Prometheus' documentation gives."""

from __future__ import annotations

from binlog_core._base.prometheus import Metric, metrics_text


def test_metrics() -> None:
    text = metrics_text(
        "binlog",
        [
            Metric(
                "up", "gauge", "Whether it runs.", [({"server": "a", "log": "b"}, 1), ({"server": "c"}, 0.5)]
            ),
            Metric("none", "counter", "Nothing of it.", []),
            Metric("rows_total", "counter", "Rows.", [({"table": 'a"b\\c\nd'}, 7)]),
        ],
    )
    assert text.decode() == (
        "# HELP binlog_up Whether it runs.\n"
        "# TYPE binlog_up gauge\n"
        'binlog_up{server="a",log="b"} 1\n'
        'binlog_up{server="c"} 0.5\n'
        "# HELP binlog_rows_total Rows.\n"
        "# TYPE binlog_rows_total counter\n"
        'binlog_rows_total{table="a\\"b\\\\c\\nd"} 7\n'
    )
