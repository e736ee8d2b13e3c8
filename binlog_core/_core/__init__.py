"""The modules compiled from src/. They work only on memory, not on files or sockets; each has a ``.pyi``.

``_memoryviews`` is Cython's own code, which all but ``_rows`` share.
"""

from importlib.machinery import EXTENSION_SUFFIXES
from os import path

_home = path.dirname(path.dirname(__path__[0]))
if path.isfile(_home):
    raise ImportError(
        f"{_home} is an archive, and Python cannot load compiled modules from one: install binlog_core"
    )
if not any(path.exists(path.join(__path__[0], f"_crc32{suffix}")) for suffix in EXTENSION_SUFFIXES):
    raise ImportError(
        f"the compiled modules of binlog_core are not in {__path__[0]}: run pip install -e . in the source"
        " folder, or start Python elsewhere to import an installed binlog_core"
    )
