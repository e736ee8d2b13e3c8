"""The CRC-32 of the core, for tests, benches and a look at which implementation runs."""

from libc.stdint cimport uint8_t, uint32_t

from crc.checksum cimport (
    BINLOG_CRC_ARMV8, BINLOG_CRC_PCLMUL, BINLOG_CRC_PORTABLE, BINLOG_CRC_VPCLMUL, binlog_crc32_best,
    binlog_crc32_has, binlog_crc32_name, binlog_crc32_with, binlog_crc_t,
)


cdef list known = [BINLOG_CRC_PORTABLE, BINLOG_CRC_PCLMUL, BINLOG_CRC_VPCLMUL, BINLOG_CRC_ARMV8]


cdef str name_of(binlog_crc_t which):
    return binlog_crc32_name(which).decode("ascii")


def crc32_implementation():
    """Name of the implementation that the decoder uses on this machine."""
    return name_of(binlog_crc32_best())


def crc32_implementations():
    """Names of all implementations that this machine can run, "portable" first."""
    return tuple(name_of(which) for which in known if binlog_crc32_has(which))


def crc32(const uint8_t[::1] data not None, uint32_t value=0, *, implementation=None):
    """CRC-32 of bytes; the same number as ``zlib.crc32``.

    Parameters
    ----------
    data : bytes-like, shape (n_bytes,), uint8
        Not copied.
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
    cdef binlog_crc_t which = binlog_crc32_best()
    cdef const uint8_t* p = NULL
    cdef size_t n = <size_t> data.shape[0]
    if implementation is not None:
        for which in known:
            if name_of(which) == implementation and binlog_crc32_has(which):
                break
        else:
            raise ValueError(f"{implementation!r}: this machine has {', '.join(crc32_implementations())}")
    if n > 0:
        p = &data[0]
    with nogil:
        value = binlog_crc32_with(which, value, p, n)
    return value
