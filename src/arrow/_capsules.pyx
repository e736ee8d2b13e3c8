"""PyCapsules of the Arrow C data interface: schemas, and streams whose arrays come from Python."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.exc cimport PyErr_SetInterrupt
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.errno cimport EIO, ENOMEM
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from arrow.c_data cimport ARROW_FLAG_NULLABLE, ArrowArray, ArrowArrayStream, ArrowSchema, init_schema


cdef char* c_bytes(bytes value) except NULL:
    # A NUL-terminated copy that its node frees.
    cdef size_t size = <size_t> PyBytes_GET_SIZE(value)
    cdef char* copy = <char*> malloc(size + 1)
    if copy == NULL:
        raise MemoryError
    memcpy(copy, PyBytes_AS_STRING(value), size + 1)
    return copy


cdef bytes encode_metadata(object pairs):
    # Native-endian counts and lengths; strings without a NUL.
    parts = [len(pairs).to_bytes(4, "little")]
    for pair in pairs:
        for item in pair:
            data = item.encode()
            parts += (len(data).to_bytes(4, "little"), data)
    return b"".join(parts)


cdef int fill_schema(ArrowSchema* node, object field) except -1:
    # On failure the node holds what was filled so far, and can be released.
    cdef int64_t i
    children = field.children
    if not init_schema(node, len(children)):
        raise MemoryError
    node.format = c_bytes(field.format.encode())
    node.name = c_bytes(field.name.encode("utf-8", "replace"))
    if field.metadata:
        node.metadata = c_bytes(encode_metadata(field.metadata))
    if field.nullable:
        node.flags = ARROW_FLAG_NULLABLE
    for i in range(node.n_children):
        fill_schema(node.children[i], children[i])
    if field.dictionary is not None:
        node.dictionary = <ArrowSchema*> calloc(1, sizeof(ArrowSchema))
        if node.dictionary == NULL:
            raise MemoryError
        fill_schema(node.dictionary, field.dictionary)
    return 0


cdef void destroy_schema_capsule(object capsule) noexcept:
    cdef ArrowSchema* node = <ArrowSchema*> PyCapsule_GetPointer(capsule, "arrow_schema")
    if node.release != NULL:
        node.release(node)
    free(node)


def schema_capsule(field):
    """An ArrowSchema in a capsule named "arrow_schema".

    Parameters
    ----------
    field : ArrowField
        For a schema, the struct of its fields (format "+s").

    Returns
    -------
    PyCapsule
    """
    cdef ArrowSchema* node = <ArrowSchema*> calloc(1, sizeof(ArrowSchema))
    if node == NULL:
        raise MemoryError
    capsule = PyCapsule_New(node, "arrow_schema", destroy_schema_capsule)
    fill_schema(node, field)
    return capsule


def requested_formats(capsule):
    """The columns of a schema that a consumer requests.

    Parameters
    ----------
    capsule : PyCapsule
        An ArrowSchema, named "arrow_schema"; it stays the caller's.

    Returns
    -------
    dict of str to str
        The format string of each child of the struct, by name; empty if it was released. Of two children of one name
        the last counts.
    """
    cdef const ArrowSchema* node = <const ArrowSchema*> PyCapsule_GetPointer(capsule, "arrow_schema")
    cdef int64_t i
    formats = {}
    if node.release != NULL:
        for i in range(node.n_children):
            if node.children[i].name != NULL and node.children[i].format != NULL:
                name = (<bytes> node.children[i].name).decode("utf-8", "replace")
                formats[name] = (<bytes> node.children[i].format).decode("utf-8", "replace")
    return formats


# --- Streams -------------------------------------------------------------------------------------

cdef class _StreamSource:
    # What a stream reads from: the field of its schema, and an iterator of array capsules; None after an error.
    cdef object field, arrays
    cdef bytes error
    cdef bint interrupted

    def __cinit__(self, field, arrays):
        self.field = field
        self.arrays = arrays


# The fallback when an error's text cannot be made: the failure must not look like the end of the stream.
cdef bytes NO_TEXT = b"the stream broke off, and the error's text cannot be made"


cdef int note(_StreamSource source, object error) noexcept:
    # The consumer gets the message; the C interface has no place for more. No exception may leave this function:
    # it would then return 0, which means success.
    source.error = NO_TEXT
    source.interrupted = isinstance(error, KeyboardInterrupt)
    try:
        source.error = f"{type(error).__name__}: {error}".encode("utf-8", "replace").replace(b"\0", b"?")
    except KeyboardInterrupt:
        source.interrupted = True
    except BaseException:
        pass
    return ENOMEM if isinstance(error, MemoryError) else EIO


cdef int broken_off(_StreamSource source, int status) noexcept:
    # Ctrl-C is raised again, as KeyboardInterrupt, when the consumer is back in Python. Until then none of our code may
    # run: it would receive the interrupt, and Python drops what a finalizer raises. So the caller has dropped the error
    # and the frames that it holds, and the generators go first.
    source.arrays = None
    if source.interrupted:
        source.interrupted = False
        PyErr_SetInterrupt()
    return status


cdef int stream_schema(ArrowArrayStream* stream, ArrowSchema* out) noexcept with gil:
    cdef int status = 0
    source = <_StreamSource> stream.private_data
    memset(out, 0, sizeof(ArrowSchema))
    try:
        fill_schema(out, source.field)
    except BaseException as error:
        if out.release != NULL:
            out.release(out)
        status = note(source, error)
    return broken_off(source, status) if status else 0


cdef int move_next(_StreamSource source, ArrowArray* out) except -1:
    cdef ArrowArray* node
    capsule = next(source.arrays, None)
    if capsule is None:
        return 0
    node = <ArrowArray*> PyCapsule_GetPointer(capsule, "arrow_array")
    if node.release == NULL:
        raise ValueError("the array has already been exported")
    out[0] = node[0]
    node.release = NULL                     # moved
    return 0


cdef int stream_next(ArrowArrayStream* stream, ArrowArray* out) noexcept with gil:
    cdef int status = 0
    source = <_StreamSource> stream.private_data
    memset(out, 0, sizeof(ArrowArray))      # release NULL: the end
    if source.arrays is None:
        return EIO                          # it broke off before: see source.error
    try:
        move_next(source, out)
    except BaseException as error:
        status = note(source, error)
    return broken_off(source, status) if status else 0


cdef const char* stream_error(ArrowArrayStream* stream) noexcept with gil:
    source = <_StreamSource> stream.private_data
    return NULL if source.error is None else PyBytes_AS_STRING(source.error)


cdef void release_stream(ArrowArrayStream* stream) noexcept with gil:
    Py_DECREF(<object> stream.private_data)
    stream.private_data = NULL
    stream.release = NULL


cdef void destroy_stream_capsule(object capsule) noexcept:
    cdef ArrowArrayStream* stream = <ArrowArrayStream*> PyCapsule_GetPointer(capsule, "arrow_array_stream")
    if stream.release != NULL:
        stream.release(stream)
    free(stream)


def stream_capsule(field, arrays):
    """An ArrowArrayStream in a capsule named "arrow_array_stream".

    Parameters
    ----------
    field : ArrowField
        The struct ("+s") that describes every array.
    arrays : iterator of PyCapsule
        Capsules named "arrow_array"; each array is moved out of its capsule when the consumer asks for it.

    Returns
    -------
    PyCapsule
    """
    cdef ArrowArrayStream* stream = <ArrowArrayStream*> calloc(1, sizeof(ArrowArrayStream))
    if stream == NULL:
        raise MemoryError
    source = _StreamSource(field, iter(arrays))
    Py_INCREF(source)
    stream.private_data = <void*> source
    stream.get_schema = stream_schema
    stream.get_next = stream_next
    stream.get_last_error = stream_error
    stream.release = release_stream
    return PyCapsule_New(stream, "arrow_array_stream", destroy_stream_capsule)
