"""One target of entry_points.py under atheris, guided by the coverage of the Python code too.

python fuzz/with_atheris.py TARGET [libFuzzer's options and folders]
"""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["binlog_core", "entry_points"]):
    import entry_points


def main() -> None:
    name = sys.argv.pop(1)
    atheris.Setup(sys.argv, getattr(entry_points, name))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
