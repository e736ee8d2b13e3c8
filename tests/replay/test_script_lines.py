"""What scripts contain besides statements."""

from __future__ import annotations

import numpy as np
import pytest

from binlog_core._decode.group import Aside
from binlog_core.batch.change_batch import TRANSACTION_DTYPE
from binlog_core.replay.script_lines import (
    POSTAMBLE,
    SESSION,
    comment,
    preamble,
    statement_text,
    transaction_text,
)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("plain", "# plain"),
        ("two\nlines\r\n", "# two?lines??"),
        ("a\\! rm", "# a?! rm"),  # commands of the mysql client begin with a backslash
        ("größe \x1b[2J\0", "# gr??e ?[2J?"),
    ],
)
def test_a_comment_is_one_line_of_ascii(text: str, line: str) -> None:
    assert comment(text) == line


def test_mariadbs_client_is_put_into_its_sandbox_first() -> None:
    first, *others = preamble(mariadb=True)
    assert first.startswith(r"/*M!999999\-")
    assert others == list(preamble(mariadb=False))
    assert others[-len(SESSION) :] == list(SESSION)


def test_what_the_session_sets_is_set_back() -> None:
    for name in ("time_zone", "sql_mode", "foreign_key_checks"):
        assert f"@OLD_{name.upper()} = @@SESSION.{name}" in " ".join(SESSION)
        assert f"{name} = @OLD_{name.upper()}" in " ".join(POSTAMBLE)


def test_a_transaction_for_people() -> None:
    record = np.zeros(1, TRANSACTION_DTYPE)[0]
    record["timestamp"], record["begin_position"] = 1_700_000_000, 157
    assert transaction_text("bin.000001", record) == "bin.000001:157, 2023-11-14 22:13:20 UTC"
    record["gtid_kind"], record["domain_id"], record["server_id"], record["sequence_number"] = 2, 1, 7, 42
    assert transaction_text("x", record) == "x:157, 2023-11-14 22:13:20 UTC, GTID 1-7-42"


def test_a_statement_for_people() -> None:
    text = "ALTER TABLE t\n  ADD c INT"
    assert statement_text(Aside("statement", 4, 0, text)) == "ALTER TABLE t ADD c INT"
    assert statement_text(Aside("statement", 4, 0, text, "shop")) == "use shop; ALTER TABLE t ADD c INT"
    assert statement_text(Aside("statement", 4, 0, "x" * 201)) == "x" * 199 + "…"
    assert statement_text(Aside("statement", 4, 0, "x" * 200)) == "x" * 200
    secret = statement_text(Aside("statement", 4, 0, "CREATE USER u IDENTIFIED BY 'hunter2'"))
    assert "hunter2" not in secret and secret.startswith("CREATE USER u")
