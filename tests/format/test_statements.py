"""What a statement does, judged by its first words."""

from __future__ import annotations

import pytest

from binlog_core._format.statements import changes_rows, first_word, kind_of_aside, may_change_definitions

pytestmark = pytest.mark.sanitize


@pytest.mark.parametrize(
    ("statement", "word"),
    [
        (b"insert into t values (1)", b"INSERT"),
        (b"  \n/* a */ -- b\n# c\nUPDATE t SET a = 1", b"UPDATE"),
        (b"(SELECT 1)", b"SELECT"),
        # Comments that a server executes are not passed over, but looked into.
        (b"/*!40000 ALTER TABLE t DISABLE KEYS */", b"ALTER"),
        (b"/*M!100301 CREATE TABLE t (a int) */", b"CREATE"),
        # MariaDB logs settings for a statement as they were given.
        (b"SET STATEMENT max_statement_time = 1 FOR UPDATE t SET a = 1", b"UPDATE"),
        (b"/* a */ set statement a = ' FOR ALTER ', b = 2\nfor/* b */(SELECT 1)", b"SELECT"),
        (b"SET STATEMENT sql_mode = 'never closed FOR UPDATE t SET a = 1", b"SET"),
        (b"/* never closed", b""),
        (b"--1", b""),
        (b"", b""),
        (b"/*" + b" " * 5000 + b"*/ DROP TABLE t", b""),
        (b"SET STATEMENT a = 1 FOR/* FOR UPDATE", b"SET"),  # only the first FOR is looked at
    ],
)
def test_first_word(statement: bytes, word: bytes) -> None:
    assert first_word(statement) == word


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        (b"BEGIN", None),
        (b"start  transaction", None),
        (b"COMMIT", None),
        (b"ROLLBACK", None),
        (b"XA END X'31',X'',1", None),
        (b"SAVEPOINT `a`", "savepoint"),
        (b"ROLLBACK TO `a`", "savepoint"),
        (b"XA START X'31',X'',1", "xa start"),
        (b"xa  prepare X'31',X'',1", "xa prepare"),
        (b"XA COMMIT X'31',X'',1", "xa commit"),
        (b"XA ROLLBACK X'31',X'',1", "xa rollback"),
        (b"CREATE TABLE t (a int)", "statement"),
        (b"beginning", "statement"),
        (b"COMMIT$", "statement"),
    ],
)
def test_what_a_statement_is_to_who_replays_rows(statement: bytes, kind: str | None) -> None:
    assert kind_of_aside(statement) == kind


def test_statements_that_change_rows_or_definitions() -> None:
    assert changes_rows(b"LOAD DATA INFILE 'f' INTO TABLE t") and not changes_rows(b"CREATE TABLE t (a int)")
    assert changes_rows(b"SELECT `shop`.`f`(1)")  # logged only if the function has changed rows
    assert changes_rows(b"SET STATEMENT max_statement_time = 1 FOR UPDATE t SET a = 1")
    assert may_change_definitions(b"truncate t") and not may_change_definitions(b"INSERT INTO t VALUES (1)")
    assert may_change_definitions(b"SET STATEMENT max_statement_time = 1 FOR ALTER TABLE t ADD b int")
    assert not may_change_definitions(b"SET STATEMENTS = 1")
