"""What a worker runs before it can import this package: Spark gets this function by value."""

from __future__ import annotations

from typing import Any


def unpacked(packed: bytes, version: str) -> Any:
    """The object that the driver packed.

    Parameters
    ----------
    packed : bytes
        The pickled object, from the session's own driver, as what Spark itself pickles.
    version : str
        The driver's version of this package.

    Raises
    ------
    ModuleNotFoundError
        The worker's Python does not have the package, or not its compiled modules, as from a .zip.
    RuntimeError
        It has another version.
    """
    import pickle
    import socket
    import sys

    place = f"the Python of a Spark worker, {sys.executable} on {socket.gethostname()},"
    way_out = "see 'Getting it onto a cluster' in the docs"
    try:
        import binlog_core
        import binlog_core._core._rows

        found = binlog_core.__version__
    except ImportError as error:
        raise ModuleNotFoundError(f"{place} cannot load binlog_core: {error}; {way_out}") from None
    if found != version:
        raise RuntimeError(f"{place} has binlog_core {found}, the driver {version}; {way_out}")
    return pickle.loads(packed)
