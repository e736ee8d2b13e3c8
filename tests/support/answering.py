"""A stand-in for a server that answers a few statements."""

from __future__ import annotations

from typing import Any

from binlog_core.server.answers import Convert, converted


class Server:
    """Gives an answer by the beginning of a statement, and keeps the statements."""

    name = "db1:3306"

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers, self.asked = answers, list[str]()

    def query(self, sql: str, *columns: Convert, **_: Any) -> Any:
        self.asked.append(sql)
        answer = next((rows for start, rows in self.answers.items() if sql.startswith(start)), [])
        if isinstance(answer, Exception):
            raise answer
        return converted(answer, columns, 0)

    def variables(self, names: list[str]) -> dict[str, str]:
        return {name: self.answers[name] for name in names if name in self.answers}
