# The GTIDs of a log as runs: most transactions have the number after that of the transaction before, from the same
# source, so one record stands for many thousands.

from libc.string cimport memcmp, memcpy

from batch.records cimport gtid_run_t
from memory.memory cimport memory_t, reserve
from wire.codes cimport DECODE_NO_MEMORY, DECODE_OK
from wire.gtid cimport GTID_MARIADB, GTID_NONE, gtid_t


cdef enum:
    INTERLEAVED = 8                     # sources that take turns without a run for each turn


cdef inline int note_gtid_run(memory_t* runs, const gtid_t* gtid) noexcept nogil:
    cdef gtid_run_t* run
    cdef size_t behind = sizeof(gtid_run_t)
    while behind <= runs.length and behind <= INTERLEAVED * sizeof(gtid_run_t):
        run = <gtid_run_t*> (runs.data + runs.length - behind)
        if run.kind == gtid.kind and run.kind == GTID_NONE:
            return DECODE_OK                # consecutive transactions without a GTID are noted once
        if run.kind == gtid.kind and run.last + 1 == gtid.sequence_number and (
            (run.domain_id == gtid.domain_id and run.server_id == gtid.server_id) if run.kind == GTID_MARIADB
            else memcmp(run.uuid, gtid.uuid, 16) == 0 and memcmp(run.tag, gtid.tag, 32) == 0
        ):
            run.last += 1
            return DECODE_OK
        if run.kind == GTID_MARIADB and gtid.kind == GTID_MARIADB and run.domain_id == gtid.domain_id:
            break                           # the last run of a domain has the domain's last GTID
        behind += sizeof(gtid_run_t)
    if reserve(runs, sizeof(gtid_run_t)) != DECODE_OK:
        return DECODE_NO_MEMORY
    run = <gtid_run_t*> (runs.data + runs.length)
    run.kind = gtid.kind
    memcpy(run.uuid, gtid.uuid, 16)
    memcpy(run.tag, gtid.tag, 32)
    run.domain_id = gtid.domain_id
    run.server_id = gtid.server_id
    run.first = run.last = gtid.sequence_number
    runs.length += sizeof(gtid_run_t)
    return DECODE_OK
