# RowChange, what log.rows() yields. Included by _values.pyx, which makes them.


@cython.final
@cython.freelist(256)
cdef class RowChange:
    """One changed row, as ``log.rows()`` yields them.

    Parameters
    ----------
    op : str
        "insert", "update" or "delete".
    database, table : str
    before, after : dict of str to value, or None
        The row before and after the change: column name to Python value, in table order. None
        where there is none; a column that is absent from the image is not a key.
    position : int
        Offset in bytes of the event (the outermost) in its file.
    timestamp : int
        Of the event's header, seconds since 1970 UTC.
    gtid : str or None
        As the server prints it; None without one, or an anonymous one.
    commit_time : int or None
        Of the transaction's commit where it was made, microseconds since 1970 UTC; None where the log does
        not tell.
    path : str or None
        The file, or name of the source. Changes that differ in nothing else are equal.

    All of them are attributes.
    """

    cdef readonly str op
    cdef readonly str database
    cdef readonly str table
    cdef readonly object before
    cdef readonly object after
    cdef readonly uint64_t position
    cdef readonly uint32_t timestamp
    cdef readonly object gtid
    cdef readonly object commit_time
    cdef readonly object path

    __match_args__ = (
        "op", "database", "table", "before", "after", "position", "timestamp", "gtid", "commit_time", "path",
    )

    def __init__(self, op, database, table, before=None, after=None, uint64_t position=0, uint32_t timestamp=0,
                 gtid=None, commit_time=None, path=None):
        self.op = op
        self.database = database
        self.table = table
        self.before = before
        self.after = after
        self.position = position
        self.timestamp = timestamp
        self.gtid = gtid
        self.commit_time = commit_time
        self.path = path

    cdef tuple fields(self):
        return (
            self.op, self.database, self.table, self.before, self.after,
            self.position, self.timestamp, self.gtid, self.commit_time,
        )

    def __repr__(self):
        named = zip(self.__match_args__, (*self.fields(), self.path), strict=True)
        return f"RowChange({', '.join([f'{name}={value!r}' for name, value in named])})"

    def __eq__(self, other):
        if not isinstance(other, RowChange):
            return NotImplemented
        return self.fields() == (<RowChange> other).fields()

    def __reduce__(self):
        return RowChange, (*self.fields(), self.path)
