"""A log as a script that makes the same changes again."""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO

from ..limits import DEFAULT_LIMITS, Limits
from .kept import Kept
from .script_lines import POSTAMBLE, comment, preamble
from .scripts import LINES, Script, Transaction
from .statements import StatementMaker


class ReplayScript(Script):
    """The changes in log order; a prepared XA transaction is written where it is committed.

    Parameters
    ----------
    file, maker, tell, mariadb, limits, tables, exclude_tables
        As for `Script`.
    """

    def __init__(
        self,
        file: BinaryIO,
        maker: StatementMaker,
        tell: Callable[[str], None],
        *,
        mariadb: bool,
        limits: Limits = DEFAULT_LIMITS,
        tables: tuple[str, ...] | None = None,
        exclude_tables: tuple[str, ...] | None = None,
    ) -> None:
        super().__init__(
            file,
            maker,
            tell,
            mariadb=mariadb,
            inverse=False,
            limits=limits,
            tables=tables,
            exclude_tables=exclude_tables,
        )
        self._lines: list[str] = []
        self._waits = 0  # characters in `_lines`
        self._kept: Kept | None = None
        self._add_lines(*preamble(mariadb=self._mariadb))

    def _place(self) -> int:
        return len(self._kept) if self._kept is not None else 0

    def _write(self, change: str) -> None:
        if self._open is not None and self._open.xa:
            if self._kept is None:
                self._kept = Kept(self._most_kept)
            self._kept.add(change)
        else:
            self._add_lines(change)

    def _write_begin(self, transaction: Transaction) -> None:
        if not transaction.xa:
            self._add_lines(comment(transaction.description), "BEGIN;")

    def _write_savepoint(self, statement: str) -> None:
        self._write(statement)

    def _write_note(self, text: str) -> None:
        self._add_lines(text)

    def _commit(self, transaction: Transaction) -> None:
        if transaction.lost:
            self._roll_back(transaction, transaction.holes[0])
            return
        self._write_kept(transaction)
        self._add_lines("COMMIT;")

    def _roll_back(self, transaction: Transaction, why: str) -> None:
        self._write_kept(transaction)
        self._tell(f"not committed, since {why}: transaction of {transaction.description}")
        self._add_lines("ROLLBACK;")

    def _write_kept(self, transaction: Transaction) -> None:
        if not transaction.xa:
            return
        self._add_lines(comment(transaction.description), "BEGIN;")
        if self._kept is not None:
            for i in range(transaction.first, transaction.last):
                self._add_lines(self._kept[i])

    def _add_lines(self, *lines: str) -> None:
        for line in lines:
            self._lines.append(line)
            self._waits += len(line)
        if self._waits > LINES:
            self._flush()

    def _flush(self) -> None:
        if self._lines:
            self._lines.append("")
            self._file.write("\n".join(self._lines).encode("ascii"))
            self._lines, self._waits = [], 0

    def _end(self, *, broken: bool) -> None:
        self._add_lines(*POSTAMBLE)
        self._flush()
        if self._kept is not None:
            self._kept.close()
