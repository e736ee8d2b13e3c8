"""Tokens of statements: what they are, and that finding them takes time in proportion to the text."""

from __future__ import annotations

import pytest
from support.growth import assert_linear

from binlog_core.errors import SchemaError
from binlog_core.schema.tokens import (
    SQL_MODE_NO_BACKSLASH_ESCAPES,
    TokenReader,
    executed_by,
    tokenize_statements,
)


def texts(sql: str, mode: int = 0) -> list[list[str]]:
    return [[token.text for token in statement] for statement in tokenize_statements(sql, mode)]


def test_statements_are_taken_one_after_another() -> None:
    assert texts(";; a b; c;") == [["a", "b"], ["c"]]
    assert texts("") == texts(" ; -- x") == []
    # Tokens of one statement that were not read do not appear in the next.
    assert [next(statement).text for statement in tokenize_statements("a b (c); d 'e'; f")] == ["a", "d", "f"]


def test_a_delimiter_cuts_words() -> None:
    assert texts("DELIMITER $$\na$$b$c$$ $$d$$\nDELIMITER ;\ne;f") == [["a"], ["b$c"], ["d"], ["e"], ["f"]]
    with pytest.raises(SchemaError, match="expected at most 15"):
        texts("DELIMITER 1234567890123456\n")


def test_a_backslash_may_be_the_last_character_of_a_string() -> None:
    """With NO_BACKSLASH_ESCAPES it escapes nothing, also where no other quote follows."""
    assert texts(r"a 'c:\'", SQL_MODE_NO_BACKSLASH_ESCAPES) == [["a", "c:\\"]]
    assert texts(r"'\' '\\' b", SQL_MODE_NO_BACKSLASH_ESCAPES) == [["\\", r"\\", "b"]]


@pytest.mark.parametrize(("sql", "what"), [("a /* b", "comment"), ("a 'b", "quote '"), ("a `b", "quote `")])
def test_what_is_not_closed_is_refused(sql: str, what: str) -> None:
    with pytest.raises(SchemaError, match=f"the {what} at character 2 is not closed"):
        texts(sql)


def test_a_statement_is_read_no_further_than_asked() -> None:
    reader = TokenReader(next(tokenize_statements("a b 'not closed")))
    assert reader.accept("A", "B")
    with pytest.raises(SchemaError):
        reader.take()
    assert [len(list(s)) for s in tokenize_statements("a b c", most=100)] == [3]
    with pytest.raises(SchemaError, match="more than 4 characters"):
        texts_of = tokenize_statements("a b c", most=4)
        list(next(texts_of))


HOSTILE = {
    "comments that are not closed": lambda n: "/* " * n,
    "comments after slashes": lambda n: "/*/" * n,
    "quotes that are not closed": lambda n: "a '" * n + "'",
    "quotes after backslashes": lambda n: r"'\' " * n,
    "brackets": lambda n: "(" * n,
    "brackets and words": lambda n: "a(" * n,
    "a delimiter that ends like what is there": lambda n: "DELIMITER $$$$x\n" + "$$$$" * n,
    "a long delimiter": lambda n: "DELIMITER " + "(" * n + "x\n" + "(" * n,
    "a word cut by a delimiter": lambda n: "DELIMITER $\n" + "a$" * n,
    "delimiters": lambda n: "DELIMITER x\n" * n,
    "marks of old fractions": lambda n: "/*" + " " * n + "mariadb-5.3" + " " * n + "x",
    "spaces": lambda n: " " * n,
}


@pytest.mark.parametrize("mode", [0, SQL_MODE_NO_BACKSLASH_ESCAPES])
@pytest.mark.parametrize("kind", HOSTILE)
def test_the_time_is_in_proportion_to_the_text(kind: str, mode: int) -> None:
    def run(sql: str) -> None:
        try:
            for statement in tokenize_statements(sql, mode):
                TokenReader(statement).skip_parens()
        except SchemaError:
            pass

    assert_linear(run, HOSTILE[kind], 2000)


@pytest.mark.parametrize(
    ("sql", "mysql", "mariadb"),
    [
        ("a /*M! b */ c", "a c", "a b c"),
        ("a /*M!100100 b */ c", "a c", "a b c"),
        ("a /*! b */ c", "a b c", "a b c"),
        ("a /*!50500 b */ c", "a b c", "a b c"),
        ("a /*!50708 b */ c", "a b c", "a c"),
        ("a /*!80016 b */ c", "a b c", "a c"),
        ("a /*!100300 b */ c", "a c", "a b c"),
        ("a '/*M! b */' c", "a /*M! b */ c", "a /*M! b */ c"),
        ("a /* /*M! b */ c", "a c", "a c"),
        ("/*!80000 a */ /*M! b */ c", "a c", "b c"),
    ],
)
def test_comments_that_one_vendor_executes(sql: str, mysql: str, mariadb: str) -> None:
    for vendor, expected in ((False, mysql), (True, mariadb)):
        text = executed_by(vendor, sql)
        assert len(text) == len(sql)
        words = [token.text for one in tokenize_statements(text) for token in one]
        assert " ".join(words) == expected
    assert executed_by(None, sql) == sql
