# Dicts with the same keys: a template is copied, and the values are written directly into the copy's slots. Setting
# each by its key would take a third of the time of rows(). CPython does not promise where the values are, so each plan
# once searches for the slots in a dict of its keys and tries them; if one is not found, values are set by their keys.
# Header-only; everything here needs the GIL.

from cpython.dict cimport PyDict_Copy
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject


cdef extern from *:
    """
    static inline char* binlog_dict_block(PyObject* dict) { return (char*) ((PyDictObject*) dict)->ma_keys; }
    """
    char* dict_block "binlog_dict_block"(object made) noexcept


cdef inline PyObject** slot_at(char* block, size_t slot) noexcept:
    return <PyObject**> (block + slot)


cdef inline void put_slot(char* block, size_t slot, PyObject* value) noexcept:
    # It takes over the reference.
    cdef PyObject** place = slot_at(block, slot)
    cdef PyObject* before = place[0]
    place[0] = value
    Py_DECREF(<object> before)


cdef inline bint find_slots(dict template, size_t* slots) except -1:
    # Finds the slot of each value in the block of a copy of this dict; False if any is not found.
    cdef tuple names = tuple(template)
    cdef list marks = [object() for _ in names]
    cdef list others = [object() for _ in names]
    cdef dict one = PyDict_Copy(template)
    cdef dict two = PyDict_Copy(template)
    cdef char* block = dict_block(one)
    cdef Py_ssize_t size = one.__sizeof__() - dict.__basicsize__
    cdef Py_ssize_t count = len(names)
    cdef Py_ssize_t found = 0
    cdef Py_ssize_t at = 0
    if block == dict_block(two) or block == dict_block(template):
        return False
    for name, mark in zip(names, marks):
        one[name] = two[name] = mark
    if block != dict_block(one):
        return False
    while found < count and at + <Py_ssize_t> sizeof(PyObject*) <= size:
        if slot_at(block, at)[0] == <PyObject*> marks[found]:
            if slot_at(dict_block(two), at)[0] != <PyObject*> marks[found]:
                return False
            slots[found] = at
            found += 1
        at += sizeof(PyObject*)
    if found < count:
        return False
    for at in range(count):
        other = others[at]
        Py_INCREF(other)
        put_slot(block, slots[at], <PyObject*> other)
    return list(one.values()) == others and all([one[name] is other for name, other in zip(names, others)]) \
        and list(two.values()) == marks
