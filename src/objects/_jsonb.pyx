"""MySQL's binary JSON: documents to the server's text, and the diffs of partial updates.

Source: MySQL server documentation, "JSON binary format" and "Partial_update_rows_event".
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memset

from memory.memory cimport append, memory_t, release
from types.jsonb_text cimport (
    Container, Element, JSONB_LARGE_ARRAY, JSONB_MAX_DEPTH, JsonbPrinter, append_jsonb_text, append_jsonb_value,
    append_quoted, container_key, container_value, open_container,
)
from wire.codes cimport DECODE_NO_MEMORY
from wire.cursor cimport Cursor, cursor_over, remaining, take_lenenc, take_slice, take_u8

from binlog_core.errors import DecodeError

OPERATIONS = ("replace", "insert", "remove")

cdef enum:
    REPLACE = 0
    INSERT = 1
    REMOVE = 2
    BLOCK_CELLS = 1024


def jsonb_to_text(data):
    """Text of one binary JSON document, as the server prints it.

    Parameters
    ----------
    data : bytes-like, shape (n_bytes,), uint8
        The document as a rows event holds it. An empty one means JSON ``null``.

    Returns
    -------
    bytes
        UTF-8, equal to the server's ``CAST(... AS CHAR CHARACTER SET utf8mb4)`` to the byte.

    Raises
    ------
    DecodeError
        An offset, length, count or type is not valid, text is not UTF-8, or containers are nested
        more than 100 deep.

    Source: MySQL server documentation, "JSON binary format".
    """
    cdef memory_t out
    cdef Py_buffer view
    cdef size_t length
    cdef int status
    memset(&out, 0, sizeof(out))
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    length = <size_t> view.len
    with nogil:
        status = append_jsonb_text(<const uint8_t*> view.buf, length, &out)
    PyBuffer_Release(&view)
    try:
        check(status, length)
        return PyBytes_FromStringAndSize(<const char*> out.data, <Py_ssize_t> out.length)
    finally:
        release(&out)


cdef int check(int status, size_t length) except -1:
    if status == DECODE_NO_MEMORY:
        raise MemoryError
    if status:
        raise DecodeError(f"a binary JSON value of {length} bytes is damaged")
    return 0


# -- Diffs -----------------------------------------------------------------------------------

cdef list decode_diffs(bytes data):
    # (operation number, path as str, binary value as bytes or None)
    cdef Cursor cur = cursor_over(<const uint8_t*> PyBytes_AS_STRING(data), <size_t> PyBytes_GET_SIZE(data))
    cdef Cursor path, value
    cdef uint64_t length = 0
    cdef uint8_t operation
    cdef list diffs = []
    while remaining(&cur):
        operation = take_u8(&cur)
        if operation > REMOVE:
            raise DecodeError(f"a JSON diff has operation {operation}: expected 0 to 2")
        if not take_lenenc(&cur, &length) or not take_slice(&cur, length, &path):
            raise DecodeError(f"the path of a JSON diff reaches past its {len(data)} bytes")
        try:
            path_text = path.pos[:remaining(&path)].decode("utf-8")
        except UnicodeDecodeError:
            raise DecodeError("the path of a JSON diff is not UTF-8") from None
        binary = None
        if operation != REMOVE:
            if not take_lenenc(&cur, &length) or not take_slice(&cur, length, &value):
                raise DecodeError(f"the value of a JSON diff reaches past its {len(data)} bytes")
            binary = <bytes> value.pos[:remaining(&value)]
        diffs.append((operation, path_text, binary))
    return diffs


def parse_json_diffs(data):
    """The diffs that a partial update logged in place of a document.

    Parameters
    ----------
    data : bytes-like, shape (n_bytes,), uint8
        The value of a JSON column whose bit is set in the partial-JSON bitmap.
        Empty: the document did not change.

    Returns
    -------
    list of (operation, path, text)
        In the order in which they apply; each path refers to the result of the diff before.
        operation is "replace", "insert" or "remove", path is MySQL's JSON path as in the
        statement, and text is the new value as the server prints it; None for "remove".

    Raises
    ------
    DecodeError
        The list or one of its values is damaged.

    Source: MySQL server documentation, "Partial_update_rows_event".
    """
    return [
        (OPERATIONS[operation], path, None if binary is None else jsonb_to_text(binary).decode("utf-8"))
        for operation, path, binary in decode_diffs(bytes(memoryview(data)))
    ]


def apply_json_diffs(document, diffs):
    """The document after a partial update.

    Parameters
    ----------
    document : bytes-like, shape (n_bytes,), uint8
        The binary document in the before image.
    diffs : bytes-like, shape (n_bytes,), uint8
        The list of diffs in the after image.

    Returns
    -------
    bytes
        UTF-8 text, as the server prints the new document.

    Raises
    ------
    DecodeError
        One of the two is damaged, or a path leads nowhere in the document.

    Source: MySQL server documentation, "Partial_update_rows_event"; MySQL manual, "JSON Path
    Syntax", JSON_REPLACE, JSON_INSERT, JSON_ARRAY_INSERT, JSON_REMOVE.
    """
    cdef bytes binary = bytes(memoryview(document))
    cdef bytes changes = bytes(memoryview(diffs))
    cdef memory_t out
    cdef JsonbPrinter printer
    root = [fragment_of(binary)]
    for operation, path, value in decode_diffs(changes):
        apply_diff(root, operation, parse_path(path), value, path)
    memset(&out, 0, sizeof(out))
    printer.out = &out
    printer.depth = 0
    printer.budget = <size_t> (len(binary) + len(changes))
    try:
        append_node(&printer, root[0])
        return PyBytes_FromStringAndSize(<const char*> out.data, <Py_ssize_t> out.length)
    finally:
        release(&out)


# A document being changed. A node is a Fragment (untouched binary JSON) until a path leads into
# it; then it becomes a dict (its keys are sorted when it is printed) or Cells. So everything beside
# the path stays unchanged, and is printed by the same code as a whole document.

@cython.final
cdef class Fragment:
    cdef bytes owner
    cdef uint8_t type
    cdef const uint8_t* data
    cdef size_t length


@cython.final
cdef class Cells:
    """The cells of an array, in blocks, so that inserting into a long array, or removing, moves few cells."""

    cdef list blocks
    cdef Py_ssize_t count

    def __cinit__(self):
        self.blocks = [[]]
        self.count = 0

    def __len__(self):
        return self.count

    def __iter__(self):
        for block in self.blocks:
            yield from block

    cdef int add(self, cell) except -1:
        cdef list block = <list> self.blocks[len(self.blocks) - 1]  # no index from the end: wraparound is off
        if len(block) >= BLOCK_CELLS:
            block = []
            self.blocks.append(block)
        block.append(cell)
        self.count += 1
        return 0

    cdef int insert(self, Py_ssize_t index, cell) except -1:
        if index >= self.count:
            return self.add(cell)
        cdef Py_ssize_t number
        cdef list block
        number, index = self.place(index)
        block = <list> self.blocks[number]
        block.insert(index, cell)
        self.count += 1
        if len(block) > 2 * BLOCK_CELLS:
            self.blocks.insert(number + 1, block[BLOCK_CELLS:])
            del block[BLOCK_CELLS:]
        return 0

    cdef (Py_ssize_t, Py_ssize_t) place(self, Py_ssize_t index) except *:
        # Block of an existing cell, and its place in the block.
        cdef Py_ssize_t number = 0
        cdef Py_ssize_t size = len(<list> self.blocks[0])
        while index >= size:
            index -= size
            number += 1
            size = len(<list> self.blocks[number])
        return number, index

    def __getitem__(self, index):
        number, index = self.place(index)
        return self.blocks[number][index]

    def __setitem__(self, index, cell):
        number, index = self.place(index)
        self.blocks[number][index] = cell

    def __delitem__(self, index):
        number, index = self.place(index)
        block = self.blocks[number]
        del block[index]
        self.count -= 1
        if not block and len(self.blocks) > 1:
            del self.blocks[number]


cdef Fragment new_fragment(bytes owner, uint8_t type, const uint8_t* data, size_t length):
    cdef Fragment fragment = Fragment.__new__(Fragment)
    fragment.owner = owner
    fragment.type = type
    fragment.data = data
    fragment.length = length
    return fragment


cdef Fragment fragment_of(bytes binary):
    cdef const uint8_t* data
    if not binary:
        binary = b"\x04\x00"     # an empty value means the literal null
    data = <const uint8_t*> PyBytes_AS_STRING(binary)
    return new_fragment(binary, data[0], data + 1, <size_t> PyBytes_GET_SIZE(binary) - 1)


cdef object expand(parent, key):
    # The node at parent[key], opened one level if it is a container.
    cdef Container container
    cdef Element element
    cdef const uint8_t* name = NULL
    cdef size_t name_len = 0
    cdef size_t i
    cdef Fragment fragment
    node = parent[key]
    if not isinstance(node, Fragment):
        return node
    fragment = node
    if fragment.type > JSONB_LARGE_ARRAY:
        return node
    check(open_container(fragment.type, fragment.data, fragment.length, &container), fragment.length)
    cdef dict members = {}
    cdef Cells cells = None if container.is_object else Cells()
    for i in range(container.count):
        check(container_value(&container, i, &element), fragment.length)
        child = new_fragment(fragment.owner, element.type, element.data, element.length)
        if container.is_object:
            check(container_key(&container, i, &name, &name_len), fragment.length)
            members[<bytes> name[:name_len]] = child
        else:
            cells.add(child)
    if container.is_object and <size_t> len(members) != container.count:
        raise DecodeError("a JSON object has the same key twice")
    parent[key] = members if container.is_object else cells
    return parent[key]


cdef int apply_diff(list root, int operation, list legs, bytes value, path) except -1:
    parent = root
    key = 0
    if not legs:
        if operation != REPLACE:
            raise DecodeError("a JSON diff inserts or removes the whole document")
        root[0] = fragment_of(value)
        return 0
    # A path may be as long as the event, but a document cannot be that deep.
    if len(legs) > JSONB_MAX_DEPTH:
        raise DecodeError(f"a JSON diff has a path of {len(legs)} legs: expected at most {JSONB_MAX_DEPTH}")
    last = legs.pop()
    for leg in legs:
        parent, key = step(parent, key, leg, path)
    if operation == INSERT:
        insert(expand(parent, key), last, fragment_of(value), path)
        return 0
    parent, key = step(parent, key, last, path)
    if operation == REPLACE:
        parent[key] = fragment_of(value)
    elif parent is root:
        raise DecodeError("a JSON diff removes the whole document")
    else:
        del parent[key]
    return 0


cdef object step(parent, key, leg, path):
    # From the node at parent[key] one leg down, as the new (parent, key).
    node = expand(parent, key)
    if isinstance(leg, bytes):
        if isinstance(node, dict) and leg in node:
            return node, leg
    elif isinstance(node, Cells):
        index = cell_index(leg, len(node))
        if 0 <= index < len(node):
            return node, index
    elif cell_index(leg, 1) == 0:
        return parent, key       # a value that is not an array counts as an array of one cell
    raise nowhere(path)


cdef int insert(node, leg, Fragment value, path) except -1:
    if isinstance(leg, bytes) and isinstance(node, dict) and leg not in node:
        node[leg] = value
    elif isinstance(leg, tuple) and isinstance(node, Cells):
        # As JSON_ARRAY_INSERT does: the cells from there on move up; past the end it appends.
        (<Cells> node).insert(max(cell_index(leg, len(node)), 0), value)
    else:
        raise nowhere(path)
    return 0


def nowhere(path):
    return DecodeError(f"a JSON diff has a path of {len(path)} characters that does not fit the document")


cdef object cell_index(tuple leg, count):
    from_end, n = leg
    return count - 1 - n if from_end else n


cdef list parse_path(str path):
    # Member names as bytes, array cells as (from the end?, number).
    cdef list legs = []
    cdef Py_ssize_t i = 0
    cdef Py_ssize_t end
    import json

    path = path.strip(PATH_SPACE)
    if not path.startswith("$"):
        raise DecodeError("the path of a JSON diff does not begin with $")
    i = skip_space(path, 1)
    while i < len(path):
        if path[i] == ".":
            i = skip_space(path, i + 1)
            end = name_end(path, i)
            quoted = path[i:end] if path[i:i + 1] == '"' else f'"{path[i:end]}"'
            try:
                # The server runs unquoted names through its JSON string parser, too.
                legs.append(json.loads(quoted, strict=False).encode("utf-8"))
            except ValueError:       # including UnicodeEncodeError, from half a surrogate pair
                raise DecodeError("a member name in the path of a JSON diff is not a JSON string") from None
        elif path[i] == "[":
            end = path.find("]", i) + 1
            if not end:
                raise DecodeError("the path of a JSON diff lacks a closing bracket")
            legs.append(parse_cell(path[i + 1:end - 1].strip(PATH_SPACE)))
        else:
            raise DecodeError("the path of a JSON diff has a leg that is neither a member nor an array cell")
        i = skip_space(path, end)
    return legs


cdef str PATH_SPACE = " \t\n\r"


cdef Py_ssize_t skip_space(str path, Py_ssize_t i):
    while i < len(path) and path[i] in PATH_SPACE:
        i += 1
    return i


cdef Py_ssize_t name_end(str path, Py_ssize_t i):
    cdef Py_ssize_t start = i
    if path[i:i + 1] == '"':
        i += 1
        while i < len(path) and path[i] != '"':
            i += 2 if path[i] == "\\" else 1
        return min(i + 1, len(path))
    while i < len(path) and path[i] not in ".[*" and path[i] not in PATH_SPACE:
        i += 1
    if i == start:
        raise DecodeError("the path of a JSON diff has an empty member name")
    return i


cdef tuple parse_cell(str cell):
    # Forms: n, last, last-n
    from_end = cell.startswith("last")
    number = cell
    if from_end:
        number = cell[4:].strip(PATH_SPACE)
        if not number:
            return True, 0
        if not number.startswith("-"):
            raise DecodeError("the path of a JSON diff has an array cell that is not a number")
        number = number[1:].strip(PATH_SPACE)
    if not (number.isascii() and number.isdigit()) or len(number) > 10:
        raise DecodeError("the path of a JSON diff has an array cell that is not a number")
    return from_end, int(number)


def by_length(bytes key):
    return len(key), key


cdef int append_node(JsonbPrinter* printer, node) except -1:
    cdef Fragment fragment
    cdef bytes name
    cdef const uint8_t* name_data
    cdef size_t length = printer.budget
    if isinstance(node, Fragment):
        fragment = node
        check(append_jsonb_value(printer, fragment.type, fragment.data, fragment.length), fragment.length)
        return 0
    is_object = isinstance(node, dict)
    printer.depth += 1
    check(append(printer.out, b"{" if is_object else b"[", 1), 0)
    # Keys are ordered by length, then bytes.
    for i, key in enumerate(sorted(node, key=by_length) if is_object else node):
        if i:
            check(append(printer.out, b", ", 2), 0)
        if is_object:
            name = key
            name_data = <const uint8_t*> PyBytes_AS_STRING(name)
            check(append_quoted(printer, name_data, <size_t> PyBytes_GET_SIZE(name)), length)
            check(append(printer.out, b": ", 2), 0)
            append_node(printer, node[key])
        else:
            append_node(printer, key)
    check(append(printer.out, b"}" if is_object else b"]", 1), 0)
    printer.depth -= 1
    return 0
