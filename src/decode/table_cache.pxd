# What a table id means. Ids change whenever a table is reopened, although its definition does not. So definitions are
# kept by the content of their TABLE_MAP events: an event that repeats what its id meant before costs one comparison.
#
# A TABLE_MAP event holds until the next GTID, BEGIN or XA START, as on a replica. So it makes no difference where a
# reader begins, and each part of a log can be read by itself.
#
# Many logs hold thousands of tables of a few shapes, one per tenant or partition. So the content has two
# parts: the head with the names, which is the definition's own, and the shape after it, which is shared.

from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy, memset

from memory.items cimport room_for_one
from memory.memory cimport append, memory_t, release
from wire.codes cimport DECODE_NO_MEMORY, DECODE_OK
from wire.cursor cimport load_le, load_u64

cdef enum:
    NO_TABLE = 0xFFFFFFFF
    MANY_IDS = 1 << 12


cdef struct shape_t:
    size_t at                       # in texts: the bytes before the names (flags), then those after them
    uint32_t before                 # bytes of the first
    uint32_t length                 # of the second
    uint32_t plan                   # of all its definitions; NO_TABLE: Python is asked about each
    uint32_t count                  # number of definitions


cdef struct definition_t:
    size_t at                       # in texts: its head, beginning with the flags
    uint32_t head_len
    uint32_t shape
    uint32_t plan
    int32_t batch                   # in the group; -1: none
    uint32_t last_count             # records in the last group: the first allocation for the next


cdef struct place_t:
    uint32_t index                  # NO_TABLE: free
    uint32_t hash


# Indexes by hash: open addressing, at most half full.
cdef struct lookup_t:
    place_t* places
    uint32_t mask
    uint32_t count


cdef struct table_id_t:
    uint64_t id
    uint32_t definition             # its index; NO_TABLE: this slot is free
    uint32_t transaction            # of the latest TABLE_MAP event with this id


cdef struct table_cache_t:
    uint64_t[2] keys                # secret keys of this cache; the second is odd
    memory_t texts
    shape_t* shapes
    uint32_t shape_count
    uint32_t shape_capacity
    lookup_t shape_places
    definition_t* definitions
    uint32_t definition_count
    uint32_t definition_capacity
    lookup_t definition_places
    uint64_t weight                 # of all definitions
    table_id_t* ids
    uint32_t id_count
    uint32_t id_mask
    uint32_t last_slot              # of ids: usually the same table comes again
    uint32_t transaction            # counts GTID, BEGIN and XA START


cdef extern from *:
    """
    typedef unsigned __int128 binlog_wide;
    static inline uint64_t binlog_fold(uint64_t a, uint64_t b) {
        const binlog_wide product = (binlog_wide) a * b;
        return (uint64_t) product ^ (uint64_t) (product >> 64);
    }
    """
    uint64_t fold "binlog_fold"(uint64_t a, uint64_t b) noexcept nogil


cdef inline uint64_t hash_bytes(const uint64_t* keys, uint64_t h, const uint8_t* p, size_t n) noexcept nogil:
    # Only a hint where to look: memcmp decides. Both factors contain a key, so that whoever writes a log cannot choose
    # contents that collide.
    h ^= n
    while n > 16:
        h = fold(load_u64(p) ^ keys[0], load_u64(p + 8) ^ keys[1] ^ h)
        p += 16
        n -= 16
    if n > 8:
        return fold(load_u64(p) ^ keys[0], load_le(p + 8, n - 8) ^ keys[1] ^ h)
    return fold(load_le(p, n) ^ keys[0], keys[1] ^ h)


cdef inline void free_cache(table_cache_t* cache) noexcept nogil:
    # Empties the cache; its keys stay
    cdef uint64_t[2] keys
    memcpy(keys, cache.keys, sizeof(keys))
    release(&cache.texts)
    free(cache.shapes)
    free(cache.shape_places.places)
    free(cache.definitions)
    free(cache.definition_places.places)
    free(cache.ids)
    memset(cache, 0, sizeof(table_cache_t))
    memcpy(cache.keys, keys, sizeof(keys))


cdef inline int note_place(lookup_t* lookup, uint32_t hash, uint32_t index) noexcept nogil:
    cdef uint32_t size
    cdef uint32_t old_size
    cdef uint32_t i
    cdef uint32_t at
    cdef place_t* places
    if lookup.places == NULL or lookup.count * 2 > lookup.mask:
        old_size = lookup.mask + 1 if lookup.places != NULL else 0
        size = old_size * 2 if old_size else 64
        places = <place_t*> malloc(<size_t> size * sizeof(place_t))
        if places == NULL:
            return DECODE_NO_MEMORY
        memset(places, 0xFF, <size_t> size * sizeof(place_t))
        for i in range(old_size):
            if lookup.places[i].index != NO_TABLE:
                at = lookup.places[i].hash & (size - 1)
                while places[at].index != NO_TABLE:
                    at = (at + 1) & (size - 1)
                places[at] = lookup.places[i]
        free(lookup.places)
        lookup.places = places
        lookup.mask = size - 1
    at = hash & lookup.mask
    while lookup.places[at].index != NO_TABLE:
        at = (at + 1) & lookup.mask
    lookup.places[at].index = index
    lookup.places[at].hash = hash
    lookup.count += 1
    return DECODE_OK


# ---------------------------------------------------------------- table ids


cdef inline void forget_table_ids(table_cache_t* cache) noexcept nogil:
    cdef uint32_t i
    if cache.ids == NULL:
        return
    if cache.id_mask >= MANY_IDS and cache.id_count <= cache.id_mask // 64:
        # It was large once and no longer needs to be: otherwise a log could have all of it cleared again and again.
        free(cache.ids)
        cache.ids = NULL
        cache.id_mask = 0
        cache.last_slot = 0
    elif cache.id_count:
        for i in range(cache.id_mask + 1):
            cache.ids[i].definition = NO_TABLE
    cache.id_count = 0


cdef inline uint32_t slot_of_id(const table_cache_t* cache, uint64_t id, uint32_t mask) noexcept nogil:
    # Ids are mostly consecutive, and a single product would still show that. The last factor is secret, and only the
    # highest bits of the product count, as many as mask has: any two ids collide under about one in (mask + 1) keys.
    cdef uint64_t h = (id ^ cache.keys[0]) * 0x9E3779B97F4A7C15ULL
    h = (h ^ (h >> 32)) * cache.keys[1]
    return <uint32_t> ((h >> 32) * (<uint64_t> mask + 1) >> 32)


cdef inline uint32_t definition_of_id(table_cache_t* cache, uint64_t id) noexcept nogil:
    cdef uint32_t slot
    if cache.ids == NULL:
        return NO_TABLE
    slot = cache.last_slot
    if cache.ids[slot].id == id:
        return cache.ids[slot].definition
    slot = slot_of_id(cache, id, cache.id_mask)
    while cache.ids[slot].definition != NO_TABLE:
        if cache.ids[slot].id == id:
            cache.last_slot = slot
            return cache.ids[slot].definition
        slot = (slot + 1) & cache.id_mask
    return NO_TABLE


cdef inline uint32_t mapped_definition(table_cache_t* cache, uint64_t id) noexcept nogil:
    # The same, if the current transaction has a TABLE_MAP event with this id
    cdef uint32_t definition = definition_of_id(cache, id)
    if definition != NO_TABLE and cache.ids[cache.last_slot].transaction != cache.transaction:
        return NO_TABLE
    return definition


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
        ids[i].definition = NO_TABLE
    for i in range(old_size):
        if old[i].definition != NO_TABLE:
            slot = slot_of_id(cache, old[i].id, size - 1)
            while ids[slot].definition != NO_TABLE:
                slot = (slot + 1) & (size - 1)
            ids[slot] = old[i]
    free(old)
    cache.ids = ids
    cache.id_mask = size - 1
    cache.last_slot = 0
    return DECODE_OK


cdef inline int set_table_id(table_cache_t* cache, uint64_t id, uint32_t definition) noexcept nogil:
    cdef uint32_t slot
    if cache.ids == NULL or cache.id_count * 2 > cache.id_mask:
        if grow_ids(cache) != DECODE_OK:
            return DECODE_NO_MEMORY
    slot = slot_of_id(cache, id, cache.id_mask)
    while cache.ids[slot].definition != NO_TABLE and cache.ids[slot].id != id:
        slot = (slot + 1) & cache.id_mask
    if cache.ids[slot].definition == NO_TABLE:
        cache.id_count += 1
    cache.ids[slot].id = id
    cache.ids[slot].definition = definition
    cache.ids[slot].transaction = cache.transaction
    cache.last_slot = slot
    return DECODE_OK


# ---------------------------------------------------------------- definitions

# The content of a TABLE_MAP event after its table id, as its parts.
cdef struct content_t:
    const uint8_t* data
    uint32_t length
    uint32_t before                 # bytes before the names
    uint32_t head_len               # these and the names; all bytes if no names can be read
    uint32_t shape_hash             # hash of the shape's part
    uint32_t hash                   # hash of all


cdef inline bint says(const table_cache_t* cache, const definition_t* definition, const uint8_t* data,
                      uint32_t length) noexcept nogil:
    # Whether this is the content of the definition's event
    cdef const shape_t* shape = &cache.shapes[definition.shape]
    return (length == definition.head_len + shape.length
            and memcmp(data, cache.texts.data + definition.at, definition.head_len) == 0
            and memcmp(data + definition.head_len, cache.texts.data + shape.at + shape.before, shape.length) == 0)


cdef inline void hash_content(const table_cache_t* cache, content_t* content) noexcept nogil:
    cdef uint64_t hash = hash_bytes(cache.keys, content.before, content.data, content.before)
    hash = hash_bytes(cache.keys, hash, content.data + content.head_len, content.length - content.head_len)
    content.shape_hash = <uint32_t> hash
    content.hash = <uint32_t> hash_bytes(cache.keys, hash, content.data, content.head_len)


cdef inline uint32_t find_shape(const table_cache_t* cache, const content_t* content) noexcept nogil:
    cdef const place_t* places = cache.shape_places.places
    cdef uint32_t at = content.shape_hash & cache.shape_places.mask
    cdef const shape_t* shape
    cdef const uint8_t* text
    while places != NULL and places[at].index != NO_TABLE:
        shape = &cache.shapes[places[at].index]
        text = cache.texts.data + shape.at
        if (places[at].hash == content.shape_hash and shape.before == content.before
                and shape.length == content.length - content.head_len
                and memcmp(text, content.data, shape.before) == 0
                and memcmp(text + shape.before, content.data + content.head_len, shape.length) == 0):
            return places[at].index
        at = (at + 1) & cache.shape_places.mask
    return NO_TABLE


cdef inline uint32_t find_definition(const table_cache_t* cache, const content_t* content,
                                     uint32_t shape) noexcept nogil:
    cdef const place_t* places = cache.definition_places.places
    cdef uint32_t at = content.hash & cache.definition_places.mask
    cdef const definition_t* definition
    while places != NULL and places[at].index != NO_TABLE:
        definition = &cache.definitions[places[at].index]
        if (places[at].hash == content.hash and definition.shape == shape
                and definition.head_len == content.head_len
                and memcmp(content.data, cache.texts.data + definition.at, content.head_len) == 0):
            return places[at].index
        at = (at + 1) & cache.definition_places.mask
    return NO_TABLE


cdef inline uint32_t add_shape(table_cache_t* cache, const content_t* content, uint32_t plan) noexcept nogil:
    # Adds the shape of a content; returns its index, or NO_TABLE: no memory
    cdef shape_t* shape
    cdef shape_t* shapes = <shape_t*> room_for_one(
        cache.shapes, cache.shape_count, &cache.shape_capacity, 16, sizeof(shape_t))
    if shapes == NULL:
        return NO_TABLE
    cache.shapes = shapes
    shape = &cache.shapes[cache.shape_count]
    shape.at = cache.texts.length
    shape.before = content.before
    shape.length = content.length - content.head_len
    shape.plan = plan
    shape.count = 0
    if (append(&cache.texts, content.data, shape.before) != DECODE_OK
            or append(&cache.texts, content.data + content.head_len, shape.length) != DECODE_OK
            or note_place(&cache.shape_places, content.shape_hash, cache.shape_count) != DECODE_OK):
        return NO_TABLE
    cache.shape_count += 1
    return cache.shape_count - 1


cdef inline uint32_t add_definition(table_cache_t* cache, const content_t* content, uint32_t shape,
                                    uint32_t plan, uint32_t column_count) noexcept nogil:
    # Adds a content; returns its definition's index, or NO_TABLE: no memory
    cdef definition_t* definition
    cdef definition_t* definitions = <definition_t*> room_for_one(
        cache.definitions, cache.definition_count, &cache.definition_capacity, 32, sizeof(definition_t))
    if definitions == NULL:
        return NO_TABLE
    cache.definitions = definitions
    definition = &cache.definitions[cache.definition_count]
    definition.at = cache.texts.length
    definition.head_len = content.head_len
    definition.shape = shape
    definition.plan = plan
    definition.batch = -1
    definition.last_count = 0
    if (append(&cache.texts, content.data, content.head_len) != DECODE_OK
            or note_place(&cache.definition_places, content.hash, cache.definition_count) != DECODE_OK):
        return NO_TABLE
    # Wide tables count as several, since the limit is there to bound memory.
    cache.weight += 1 + content.length // 4096 + column_count // 32
    cache.shapes[shape].count += 1
    cache.definition_count += 1
    return cache.definition_count - 1
