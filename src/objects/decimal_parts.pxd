# Decimals made from their parts instead of parsed from text: a tenth of the work. Python does not promise how `decimal`
# stores them. So samples are examined and made first (`decimals_are_known`); if anything differs, text is parsed.
# Header-only; everything here needs the GIL.

from cpython.ref cimport PyObject
from cpython.unicode cimport PyUnicode_DecodeASCII
from libc.stdint cimport uint64_t

from types.decimal_text cimport DECIMAL_TEXT_MAX, decimal_text


cdef extern from *:
    """
    typedef struct {
        PyObject_HEAD
        Py_hash_t hash;
        unsigned char flags;
        Py_ssize_t exponent, digits, words, room;
        uint64_t *data;
        uint64_t inside[4];              /* data points here: words of 19 digits, least first */
    } binlog_decimal_t;

    #define BINLOG_TEN_TO_19 10000000000000000000u

    static int binlog_decimal_is(PyObject *one, PyTypeObject *type, int negative, Py_ssize_t exponent,
                                 Py_ssize_t digits, const uint64_t *words, int count) {
        const binlog_decimal_t *d = (const binlog_decimal_t *) one;
        return Py_TYPE(one) == type && type->tp_basicsize == sizeof(binlog_decimal_t) && d->hash == -1
            && (d->flags & 15) == negative && d->exponent == exponent && d->digits == digits && d->words == count
            && d->room == 4 && d->data == d->inside && !memcmp(d->inside, words, 8 * (size_t) count);
    }

    /* From one or two limbs (two's complement, least first). `like`: a Decimal that was never hashed. */
    static PyObject *binlog_decimal_of(PyObject *like, const uint64_t *limbs, int limb_count, int scale) {
        PyTypeObject *type = Py_TYPE(like);
        binlog_decimal_t *d = (binlog_decimal_t *) type->tp_alloc(type, 0);
        int negative = limbs[limb_count - 1] >> 63;
        uint64_t top = limbs[0];
        Py_ssize_t below = 0, digits = 1;
        if (d == NULL)
            return NULL;
        d->data = d->inside;
    #ifdef __SIZEOF_INT128__
        if (limb_count == 2) {
            unsigned __int128 value = (unsigned __int128) limbs[1] << 64 | top;
            value = negative ? -value : value;
            while (value >= BINLOG_TEN_TO_19) {
                d->inside[below++] = (uint64_t) (value % BINLOG_TEN_TO_19);
                value /= BINLOG_TEN_TO_19;
            }
            top = (uint64_t) value;
        } else
    #endif
            top = negative ? 0 - top : top;
        d->inside[below] = top;
        for (; top >= 10; top /= 10)
            digits++;
        d->hash = -1;
        d->flags = (((const binlog_decimal_t *) like)->flags & ~15) | negative;
        d->exponent = -scale;
        d->digits = 19 * below + digits;
        d->words = below + 1;
        d->room = 4;
        return (PyObject *) d;
    }

    #ifdef __SIZEOF_INT128__
    #define BINLOG_DECIMAL_LIMBS 2
    #else
    #define BINLOG_DECIMAL_LIMBS 1
    #endif
    """
    ctypedef struct PyTypeObject:
        object (*tp_new)(type kind, object arguments, PyObject* keywords)
    bint decimal_is "binlog_decimal_is"(object one, type kind, int negative, Py_ssize_t exponent, Py_ssize_t digits,
                                        const uint64_t* words, int count) noexcept
    object decimal_of "binlog_decimal_of"(object like, const uint64_t* limbs, int limb_count, int scale)
    const int DECIMAL_LIMBS "BINLOG_DECIMAL_LIMBS"


cdef inline object decimal_of_text(type Decimal, const uint64_t* limbs, int limb_count, int scale):
    # Decimal reads text exactly, whatever the context's precision.
    cdef char[DECIMAL_TEXT_MAX] text
    cdef size_t length = decimal_text(limbs, limb_count, scale, text)
    arguments = (PyUnicode_DecodeASCII(text, <Py_ssize_t> length, NULL),)
    return (<PyTypeObject*> Decimal).tp_new(Decimal, arguments, NULL)


cdef inline bint decimals_are_known(type Decimal) except -1:
    # Whether decimal_of makes the same decimals as Decimal
    cdef uint64_t[3] words
    words[0], words[1], words[2] = 0, 0, 1
    if not decimal_is(Decimal("0.00"), Decimal, 0, -2, 1, words, 1):
        return False
    if not decimal_is(Decimal(10**38), Decimal, 0, 0, 39, words, 3):
        return False
    words[0], words[1] = 12345, 10**19 - 1
    if not decimal_is(Decimal("-12.345"), Decimal, 1, -3, 5, words, 1):
        return False
    if not decimal_is(Decimal("-9999999999999999999000000000000.0012345"), Decimal, 1, -7, 38, words, 2):
        return False
    for number in (0, 1, -1, 9, 10, 10**18, -(2**63), 10**19 - 1, 10**19, 2**64, 10**38 - 1, -(10**38), 2**127 - 1):
        words[0], words[1] = number & 2**64 - 1, number >> 64 & 2**64 - 1
        for limb_count in range(1 if -(2**63) <= number < 2**63 else 2, DECIMAL_LIMBS + 1):
            for scale in (0, 2, 30):
                made = decimal_of(Decimal(0), words, limb_count, scale)
                told = decimal_of_text(Decimal, words, limb_count, scale)
                if made != told or made.as_tuple() != told.as_tuple() or hash(made) != hash(told):
                    return False
    return True
