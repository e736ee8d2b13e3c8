"""What is compiled from src/: works on memory only, knows no files, no sockets; a ``.pyi`` each."""

try:
    from . import _crc32  # the smallest of them
except ModuleNotFoundError as error:
    if error.name != f"{__name__}._crc32":
        raise
    raise ImportError(
        f"binlog_core's compiled modules are not in {__path__[0]}: run pip install -e . in the source folder,"
        " or start Python in another folder to import an installed binlog_core"
    ) from None

del _crc32
