"""The command line: ``binlog-core``. One module per command."""

from __future__ import annotations

import gc
import os
import signal
import sys

from .exits import INTERRUPTED


def main() -> None:
    """Run the command that the arguments name; the entry point ``binlog-core``."""
    gc.set_threshold(20_000)  # collections while modules are imported find nothing
    for name in ("stdout", "stderr"):  # closed by the caller: a log must not be opened in its place
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
    try:
        try:
            import rich  # noqa: F401
            import typer  # noqa: F401
        except ImportError as error:
            from ..errors import MissingExtraError

            sys.exit(f"error: {MissingExtraError.of(error.name or 'typer', 'cli', 'the command line')}")
        from .app import app

        gc.freeze()  # modules stay: no collection has to look at them, nor does the one at the end
        app(prog_name="binlog-core")
    except (KeyboardInterrupt, SystemExit) as end:
        if isinstance(end, SystemExit) and end.code != INTERRUPTED:
            raise
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # once is enough: Python may take a while to end
        sys.exit(INTERRUPTED)
