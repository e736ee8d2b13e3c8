# Which plan a table id means. Ids change at every reopen of a table while its definition stays,
# so plans are kept by the content of the TABLE_MAP event behind the id; an event equal to the
# one its id had before costs one memcmp.

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcmp, memcpy, memset

from _codes cimport DECODE_NO_MEMORY, DECODE_OK

cdef enum:
    NO_TABLE = 0xFFFFFFFF


cdef struct content_t:
    uint64_t hash
    uint8_t* data                   # TABLE_MAP event behind its table id, flags first
    uint32_t length
    uint32_t plan


cdef struct table_id_t:
    uint64_t id
    uint32_t content                # index of a content; NO_TABLE: this slot is free


cdef struct table_cache_t:
    content_t* contents
    uint32_t content_count
    uint32_t content_capacity
    uint32_t* content_slots         # open addressing, twice the capacity
    table_id_t* ids
    uint32_t id_count
    uint32_t id_mask
    uint32_t last_slot              # of ids: the same table mostly comes again


cdef inline uint64_t hash_bytes(const uint8_t* p, size_t n) noexcept nogil:
    # Only a hint where to look: memcmp decides.
    cdef uint64_t h = 0xCBF29CE484222325ULL ^ n
    cdef uint64_t word
    while n >= 8:
        memcpy(&word, p, 8)
        h = (h ^ word) * 0x100000001B3ULL
        h ^= h >> 29
        p += 8
        n -= 8
    while n:
        h = (h ^ p[0]) * 0x100000001B3ULL
        p += 1
        n -= 1
    return h ^ (h >> 32)


cdef inline void free_cache(table_cache_t* cache) noexcept nogil:
    cdef uint32_t i
    for i in range(cache.content_count):
        free(cache.contents[i].data)
    free(cache.contents)
    free(cache.content_slots)
    free(cache.ids)
    memset(cache, 0, sizeof(table_cache_t))


cdef inline void forget_table_ids(table_cache_t* cache) noexcept nogil:
    cdef uint32_t i
    if cache.id_count:
        for i in range(cache.id_mask + 1):
            cache.ids[i].content = NO_TABLE
        cache.id_count = 0


cdef inline content_t* content_of_id(table_cache_t* cache, uint64_t id) noexcept nogil:
    cdef uint32_t slot
    if cache.ids == NULL:
        return NULL
    slot = cache.last_slot
    if cache.ids[slot].id == id and cache.ids[slot].content != NO_TABLE:
        return &cache.contents[cache.ids[slot].content]
    slot = <uint32_t> (id * 0x9E3779B97F4A7C15ULL >> 32) & cache.id_mask
    while cache.ids[slot].content != NO_TABLE:
        if cache.ids[slot].id == id:
            cache.last_slot = slot
            return &cache.contents[cache.ids[slot].content]
        slot = (slot + 1) & cache.id_mask
    return NULL


cdef inline int grow_ids(table_cache_t* cache) noexcept nogil:
    cdef uint32_t size = (cache.id_mask + 1) * 2 if cache.ids != NULL else 64
    cdef table_id_t* old = cache.ids
    cdef uint32_t old_size = cache.id_mask + 1 if old != NULL else 0
    cdef table_id_t* ids = <table_id_t*> malloc(size * sizeof(table_id_t))
    cdef uint32_t i
    cdef uint32_t slot
    if ids == NULL:
        return DECODE_NO_MEMORY
    for i in range(size):
        ids[i].id = 0
        ids[i].content = NO_TABLE
    for i in range(old_size):
        if old[i].content != NO_TABLE:
            slot = <uint32_t> (old[i].id * 0x9E3779B97F4A7C15ULL >> 32) & (size - 1)
            while ids[slot].content != NO_TABLE:
                slot = (slot + 1) & (size - 1)
            ids[slot] = old[i]
    free(old)
    cache.ids = ids
    cache.id_mask = size - 1
    cache.last_slot = 0
    return DECODE_OK


cdef inline int set_table_id(table_cache_t* cache, uint64_t id, uint32_t content) noexcept nogil:
    cdef uint32_t slot
    if cache.ids == NULL or cache.id_count * 2 > cache.id_mask:
        if grow_ids(cache) != DECODE_OK:
            return DECODE_NO_MEMORY
    slot = <uint32_t> (id * 0x9E3779B97F4A7C15ULL >> 32) & cache.id_mask
    while cache.ids[slot].content != NO_TABLE and cache.ids[slot].id != id:
        slot = (slot + 1) & cache.id_mask
    if cache.ids[slot].content == NO_TABLE:
        cache.id_count += 1
    cache.ids[slot].id = id
    cache.ids[slot].content = content
    cache.last_slot = slot
    return DECODE_OK


cdef inline uint32_t find_content(const table_cache_t* cache, uint64_t hash, const uint8_t* data,
                                  uint32_t length) noexcept nogil:
    cdef uint32_t mask
    cdef uint32_t slot
    cdef content_t* content
    if cache.content_slots == NULL:
        return NO_TABLE
    mask = cache.content_capacity * 2 - 1
    slot = <uint32_t> hash & mask
    while cache.content_slots[slot] != NO_TABLE:
        content = &cache.contents[cache.content_slots[slot]]
        if content.hash == hash and content.length == length and memcmp(content.data, data, length) == 0:
            return cache.content_slots[slot]
        slot = (slot + 1) & mask
    return NO_TABLE


cdef inline int add_content(table_cache_t* cache, uint64_t hash, const uint8_t* data, uint32_t length,
                            uint32_t plan) noexcept nogil:
    # data is not in the cache yet
    cdef uint32_t capacity
    cdef content_t* contents
    cdef uint32_t* slots
    cdef uint32_t i
    cdef uint32_t slot
    cdef uint8_t* copy
    if cache.content_count == cache.content_capacity:
        capacity = cache.content_capacity * 2 if cache.content_capacity else 32
        contents = <content_t*> realloc(cache.contents, capacity * sizeof(content_t))
        if contents == NULL:
            return DECODE_NO_MEMORY
        cache.contents = contents
        slots = <uint32_t*> malloc(2 * <size_t> capacity * sizeof(uint32_t))
        if slots == NULL:
            return DECODE_NO_MEMORY
        memset(slots, 0xFF, 2 * <size_t> capacity * sizeof(uint32_t))
        for i in range(cache.content_count):
            slot = <uint32_t> contents[i].hash & (capacity * 2 - 1)
            while slots[slot] != NO_TABLE:
                slot = (slot + 1) & (capacity * 2 - 1)
            slots[slot] = i
        free(cache.content_slots)
        cache.content_slots = slots
        cache.content_capacity = capacity
    copy = <uint8_t*> malloc(length if length else 1)
    if copy == NULL:
        return DECODE_NO_MEMORY
    memcpy(copy, data, length)
    i = cache.content_count
    cache.contents[i].hash = hash
    cache.contents[i].data = copy
    cache.contents[i].length = length
    cache.contents[i].plan = plan
    slot = <uint32_t> hash & (cache.content_capacity * 2 - 1)
    while cache.content_slots[slot] != NO_TABLE:
        slot = (slot + 1) & (cache.content_capacity * 2 - 1)
    cache.content_slots[slot] = i
    cache.content_count += 1
    return DECODE_OK
