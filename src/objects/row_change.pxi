# RowChange, what log.rows() yields. Included by _values.pyx, which makes them.

from objects.value_objects cimport gtid_text


@cython.final
@cython.freelist(64)
@cython.no_gc                        # nothing it holds refers back to it
cdef class Origin:
    # What the changes to one table in one transaction have in common.
    cdef object database
    cdef object table
    cdef object path
    cdef object commit_time
    cdef object known_gtid
    cdef bint is_known               # the GTID; else it is made of …
    cdef transaction_t transaction

    cdef object gtid(self):
        if not self.is_known:
            self.known_gtid = gtid_text(&self.transaction)
            self.is_known = True
        return self.known_gtid


cdef Py_ssize_t MOST_SHOWN = 200     # characters of an image or value for people


cdef str _cut(str text):
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"


cdef tuple OP_NAMES = (None, "insert", "update", "update", "delete")


@cython.final
@cython.freelist(256)
cdef class RowChange:
    """One changed row, as ``log.rows()`` yields it.

    Parameters
    ----------
    op : str
        What the change did: "insert", "update" or "delete".
    database, table : str
    before, after : dict of str to value, or None
        The row before and after the change: column name to Python value, in table order. None
        if there is none; a column that is absent from the image is not a key.
    position : int
        Offset in bytes of the (outermost) event in its file.
    timestamp : int
        Time in the event's header, seconds since 1970 UTC.
    gtid : str or None
        The transaction's GTID as the server prints it; None if it has none, or an anonymous one.
    commit_time : int or None
        When the transaction was committed on the server where it was made, in microseconds since 1970 UTC;
        None if the log does not say.
    path : str or None
        The file, or name of the source. Changes that differ only in it are equal.

    Each parameter is also an attribute.
    """

    cdef readonly object op
    cdef readonly object before
    cdef readonly object after
    cdef readonly uint64_t position
    cdef readonly uint32_t timestamp
    cdef Origin origin

    __match_args__ = (
        "op", "database", "table", "before", "after", "position", "timestamp", "gtid", "commit_time", "path",
    )

    def __init__(self, str op, str database, str table, before=None, after=None, uint64_t position=0,
                 uint32_t timestamp=0, gtid=None, commit_time=None, path=None):
        cdef Origin origin = Origin.__new__(Origin)
        origin.database = database
        origin.table = table
        origin.path = path
        origin.commit_time = commit_time
        origin.known_gtid = gtid
        origin.is_known = True
        self.op = op
        self.before = before
        self.after = after
        self.position = position
        self.timestamp = timestamp
        self.origin = origin

    @property
    def database(self):
        return self.common().database

    @property
    def table(self):
        return self.common().table

    @property
    def gtid(self):
        return self.common().gtid()

    @property
    def commit_time(self):
        return self.common().commit_time

    @property
    def path(self):
        return self.common().path

    cdef Origin common(self):
        if self.origin is None:      # it was made without arguments
            self.origin = Origin.__new__(Origin)
        return self.origin

    cdef tuple fields(self):
        cdef Origin common = self.common()
        return (
            self.op, common.database, common.table, self.before, self.after,
            self.position, self.timestamp, common.gtid(), common.commit_time,
        )

    def __repr__(self):
        images = " → ".join([_cut(repr(image)) for image in (self.before, self.after) if image is not None])
        return f"<RowChange {self._what()}: {images or 'no images'}>"

    def _repr_html_(self):
        """The values before and after as a table, for notebooks."""
        from html import escape

        before, after = self.before or {}, self.after or {}
        rows = []
        for name in {**before, **after}:
            old, new = [escape(_cut(repr(image[name]))) if name in image else "" for image in (before, after)]
            if before and after and old != new:
                new = f"<b>{new}</b>"
            rows.append(f"<tr><th>{escape(name)}</th><td>{old}</td><td>{new}</td></tr>")
        head = "<tr><th></th><th>before</th><th>after</th></tr>"
        return f"<p>{escape(self._what())}</p><table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"

    def _what(self):
        """What was done where."""
        name = (self.path or "").rpartition("/")[2] or "position"
        return f"{self.op} {self.database}.{self.table}, {name}:{self.position}{f', {self.gtid}' if self.gtid else ''}"

    def __eq__(self, other):
        if not isinstance(other, RowChange):
            return NotImplemented
        return self.fields() == (<RowChange> other).fields()

    def __reduce__(self):
        return RowChange, (*self.fields(), self.path)
