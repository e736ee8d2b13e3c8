"""The core's CRC-32, for tests and benchmarks, and to see which implementation runs; CRC-32C."""

from libc.stdint cimport uint8_t, uint16_t, uint32_t

from crc.checksum cimport (
    BINLOG_CRC_ARMV8, BINLOG_CRC_PCLMUL, BINLOG_CRC_PORTABLE, BINLOG_CRC_VPCLMUL, binlog_crc32_best,
    binlog_crc32_has, binlog_crc32_name, binlog_crc32_with, binlog_crc_t,
)
from crc.runs cimport RUN_LEN, crc_bare, crc_has_runs, crc_run_holds

cdef extern from "crc/crc32c.h" nogil:
    uint32_t binlog_crc32c(uint32_t crc, const uint8_t* p, size_t n) noexcept
    uint32_t binlog_crc32c_portable(uint32_t crc, const uint8_t* p, size_t n) noexcept

MOST_OF_A_RUN = RUN_LEN


cdef list known = [BINLOG_CRC_PORTABLE, BINLOG_CRC_PCLMUL, BINLOG_CRC_VPCLMUL, BINLOG_CRC_ARMV8]


cdef str name_of(binlog_crc_t which):
    return binlog_crc32_name(which).decode("ascii")


def crc32_implementation():
    """Name of the implementation that the decoder uses on this machine."""
    return name_of(binlog_crc32_best())


def crc32_implementations():
    """Names of all implementations that this machine can run, "portable" first."""
    return tuple(name_of(which) for which in known if binlog_crc32_has(which))


cdef binlog_crc_t implementation_of(name) except *:
    cdef binlog_crc_t which
    if name is None:
        return binlog_crc32_best()
    for which in known:
        if name_of(which) == name and binlog_crc32_has(which):
            return which
    raise ValueError(f"{name!r}: expected one of {', '.join(crc32_implementations())} on this machine")


def run_holds(const uint8_t[::1] data not None, const uint16_t[::1] ends not None, *, implementation=None):
    """Whether consecutive messages, each followed by its CRC, all agree with their CRCs.

    Parameters
    ----------
    data : bytes-like, shape (n_bytes,), uint8
        The messages, and whatever follows them: at most MOST_OF_A_RUN bytes.
    ends : ndarray, shape (n_messages,), uint16
        Where each message with its CRC ends.
    implementation : str or None
        As in `crc32`.

    Returns
    -------
    bool or None
        None: this implementation can only check each message by itself.
    """
    cdef binlog_crc_t which = implementation_of(implementation)
    cdef size_t n = <size_t> data.shape[0]
    cdef size_t count = <size_t> ends.shape[0]
    if not crc_has_runs(which):
        return None
    if not count or n > RUN_LEN or ends[count - 1] > n:
        raise ValueError(f"{count} messages in {n} bytes: expected at least one, in at most {RUN_LEN}")
    return bool(crc_run_holds(which, &data[0], crc_bare(which, &data[0], n), n, &ends[0], count))


def crc32(const uint8_t[::1] data not None, uint32_t value=0, *, implementation=None):
    """CRC-32 of bytes; the same number as ``zlib.crc32``.

    Parameters
    ----------
    data : bytes-like, shape (n_bytes,), uint8
        The bytes; not copied.
    value : int
        The CRC of the bytes before `data`.
    implementation : str or None
        One of `crc32_implementations`; None takes the best.

    Returns
    -------
    int
        0 to 2**32 - 1.

    Raises
    ------
    ValueError
        This machine has no such implementation.
    """
    cdef binlog_crc_t which = implementation_of(implementation)
    cdef const uint8_t* p = NULL
    cdef size_t n = <size_t> data.shape[0]
    if n > 0:
        p = &data[0]
    with nogil:
        value = binlog_crc32_with(which, value, p, n)
    return value


def crc32c(const uint8_t[::1] data not None, uint32_t value=0, *, bint portable=False):
    """CRC-32C (Castagnoli) of bytes.

    Parameters
    ----------
    data : bytes-like, shape (n_bytes,), uint8
        The bytes; not copied.
    value : int
        The CRC of the bytes before `data`.
    portable : bool
        Without the processor's instruction.

    Returns
    -------
    int
        0 to 2**32 - 1.
    """
    cdef const uint8_t* p = NULL
    cdef size_t n = <size_t> data.shape[0]
    if n > 0:
        p = &data[0]
    with nogil:
        value = binlog_crc32c_portable(value, p, n) if portable else binlog_crc32c(value, p, n)
    return value
