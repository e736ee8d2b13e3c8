# The structs that NumPy reads in place, twins of dtypes: same fields, same order, packed. tests/core/test_records.py
# compares names, offsets and sizes.

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t


cdef packed struct image_t:         # twin of image_dtype up to the bitmaps: what every record begins with
    uint8_t op                      # change_op_t
    uint32_t timestamp              # of the event, seconds since 1970 UTC
    uint32_t server_id
    uint64_t position               # of the event in its file; of the outer event if it was inside one
    uint32_t row                    # number of the row in that event
    uint32_t transaction            # index of a transaction_t


cdef packed struct span_t:          # twin of SPAN_DTYPE: where a value of variable length lies
    uint64_t offset
    uint32_t length


cdef packed struct transaction_t:   # twin of TRANSACTION_DTYPE
    uint64_t begin_position         # of its first event: GTID, BEGIN, XA START
    uint64_t end_position           # first byte after its last event; 0: not seen yet
    uint32_t timestamp              # of the first event's header, seconds since 1970 UTC
    int64_t commit_time             # microseconds since 1970 UTC; -1: not in the log
    uint8_t gtid_kind               # gtid_kind_t
    uint8_t[16] uuid                # MySQL: of the source
    uint32_t domain_id              # MariaDB
    uint32_t server_id              # of the first event's header
    uint64_t sequence_number        # of the GTID, both vendors
    uint8_t[32] tag                 # MySQL 8.3 and later; filled up with NUL
    uint64_t xid                    # of the XID event; 0: none
    uint8_t outcome                 # outcome_t
    uint32_t thread_id              # of the connection; 0: not in the log


cdef packed struct invalid_date_t:  # twin of INVALID_DATE_DTYPE: a date that no calendar has
    uint32_t record
    uint16_t column                 # its index in the table
    uint16_t year
    uint8_t month
    uint8_t day
    uint8_t hour
    uint8_t minute
    uint8_t second
    uint32_t microsecond


cdef packed struct json_diff_t:     # twin of JSON_DIFF_DTYPE: a value that is a list of diffs
    uint32_t record
    uint16_t column


cdef packed struct header_record_t:  # twin of HEADER_DTYPE
    uint64_t position
    uint32_t timestamp
    uint8_t type_code
    uint32_t server_id
    uint32_t event_length
    uint32_t next_position
    uint16_t flags


cdef packed struct gtid_run_t:      # twin of GTID_RUN_DTYPE: consecutive numbers of one source
    uint8_t kind                    # gtid_kind_t
    uint8_t[16] uuid
    uint8_t[32] tag
    uint32_t domain_id
    uint32_t server_id
    uint64_t first
    uint64_t last


cdef enum change_op_t:              # image_t.op; names in binlog_core.batch.change_batch.OPS
    OP_INSERT = 1
    OP_UPDATE_PREIMAGE = 2
    OP_UPDATE_POSTIMAGE = 3
    OP_DELETE = 4


cdef enum outcome_t:                # transaction_t.outcome; names in binlog_core.batch.change_batch.OUTCOMES
    OUTCOME_UNKNOWN = 0
    OUTCOME_COMMITTED = 1
    OUTCOME_ROLLED_BACK = 2
    OUTCOME_XA_PREPARED = 3


cdef inline void copy_image(image_t* out, const image_t* image) noexcept nogil:
    # Field by field: a block copy would wait for the stores that have just written it
    out.op = image.op
    out.timestamp = image.timestamp
    out.server_id = image.server_id
    out.position = image.position
    out.row = image.row
    out.transaction = image.transaction
