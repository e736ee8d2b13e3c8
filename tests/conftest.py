"""Makes ``support`` and ``reference`` importable whatever pytest's import mode.

The package under test comes from where Python finds it: an installed wheel as well as the source folder.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

HERE = str(Path(__file__).resolve().parent)
if HERE not in sys.path:
    sys.path.insert(0, HERE)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    from support import tally

    if tally.TRIED:
        terminalreporter.write_line(tally.told())
