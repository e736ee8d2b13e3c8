"""The version of a server, as the log has it."""

from __future__ import annotations

import re

_VERSION_NUMBER = re.compile(r"([0-9]+)(\.)?")


def is_mariadb_version(server_version: str) -> bool:
    """Whether the version string is MariaDB's."""
    return "MariaDB" in server_version or "-maria-" in server_version


def split_server_version(server_version: str) -> tuple[int, int, int]:
    """Three numbers of a server version, as the servers split it.

    Each number ends at the first character that is not a digit; the first needs a dot after it. A
    number over 255 makes the result (0, 0, 0). "5.6.1-labs" is (5, 6, 1), "5.1beta" is (5, 1, 0).
    """
    numbers = [0, 0, 0]
    rest = server_version
    for i in range(3):
        found = _VERSION_NUMBER.match(rest)
        if found is None:
            if i == 0:
                return 0, 0, 0
            break
        numbers[i] = int(found[1])
        if numbers[i] > 255 or (i == 0 and not found[2]):
            return 0, 0, 0
        if not found[2]:
            break
        rest = rest[found.end() :]
    return numbers[0], numbers[1], numbers[2]
