"""Makes ``support`` and ``reference`` importable whatever pytest's import mode.

The package under test comes from where Python finds it: an installed wheel as well as the source folder.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = str(Path(__file__).resolve().parent)
if HERE not in sys.path:
    sys.path.insert(0, HERE)
