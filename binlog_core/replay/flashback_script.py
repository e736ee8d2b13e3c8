"""A log as a script that undoes its changes, the last one first."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from typing import BinaryIO

from .._decode.group import Aside
from ..errors import BinlogError
from ..limits import DEFAULT_LIMITS, Limits
from .kept import Kept
from .script_lines import POSTAMBLE, comment, preamble
from .scripts import Script, Transaction
from .statements import StatementMaker


class FlashbackScript(Script):
    """Statements that reverse the changes, the last transaction first.

    Statements are kept in a temporary file until the end is known; each takes 8 bytes of memory.

    Parameters
    ----------
    file, maker, tell, mariadb, limits, tables, exclude_tables
        As for `Script`.
    partial : bool
        Reverse what can be reversed, also in transactions that cannot be reversed completely.
    """

    def __init__(
        self,
        file: BinaryIO,
        maker: StatementMaker,
        tell: Callable[[str], None],
        *,
        mariadb: bool,
        partial: bool = False,
        limits: Limits = DEFAULT_LIMITS,
        tables: tuple[str, ...] | None = None,
        exclude_tables: tuple[str, ...] | None = None,
    ) -> None:
        super().__init__(
            file,
            maker,
            tell,
            mariadb=mariadb,
            inverse=True,
            limits=limits,
            tables=tables,
            exclude_tables=exclude_tables,
        )
        self._partial = partial
        self._kept = Kept(self._most_kept)
        self._order = array(
            "Q"
        )  # pairs of lines in `_kept`: first and last of a transaction, or a note and 0
        self._incomplete = 0

    def _place(self) -> int:
        return len(self._kept)

    def _write(self, change: str) -> None:
        self._kept.add(change)

    def _write_begin(self, transaction: Transaction) -> None:
        self._kept.add(comment(f"undoes {transaction.description}"))

    def _write_savepoint(self, statement: str) -> None:
        pass

    def _write_note(self, text: str) -> None:
        self._order.extend((len(self._kept), 0))
        self._kept.add(text)

    def _commit(self, transaction: Transaction) -> None:
        if transaction.savepoints.undone:
            self._roll_back(transaction, "it goes back to a savepoint")
            return
        if transaction.holes:
            self._incomplete += 1
            self._tell(
                f"not reversed completely, since {transaction.holes[0]}:"
                f" transaction of {transaction.description}"
            )
        self._order.extend((transaction.first, transaction.last))

    def _roll_back(self, transaction: Transaction, why: str) -> None:
        self._incomplete += 1
        self._tell(f"not reversed, since {why}: transaction of {transaction.description}")

    def _miss(self, path: str, aside: Aside, text: str, *, changed: bool) -> None:
        self._incomplete += changed
        super()._miss(path, aside, text, changed=changed)

    def _flush(self) -> None:
        pass

    def _end(self, *, broken: bool) -> None:
        try:
            if broken:
                return
            if self._incomplete and not self._partial:
                raise BinlogError(
                    f"{self._incomplete:,} transactions or statements in the range cannot be reversed"
                    " completely:"
                    " choose another range, or reverse the rest with partial="
                )
            self._write_all()
        finally:
            self._kept.close()

    def _write_all(self) -> None:
        self._out(preamble(mariadb=self._mariadb))
        for i in range(len(self._order) - 2, -1, -2):
            first, last = self._order[i], self._order[i + 1]
            self._out((self._kept[first],))
            if last:
                self._out(("BEGIN;",))
                for k in range(last - 1, first, -1):
                    self._out((self._kept[k],))
                self._out(("COMMIT;",))
        self._out(POSTAMBLE)

    def _out(self, lines: Iterator[str] | tuple[str, ...]) -> None:
        for line in lines:
            self._file.write(line.encode("ascii") + b"\n")
