"""``start=`` as GTIDs in files: where the first transaction begins that they do not have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import NamedTuple

from .._decode.executed import last_of_domains, latest
from .._format.event_header import FIRST_EVENT
from .._format.event_types import GTID_EVENTS, EventType
from .._sources.log_files import LogFile, LogFiles
from ..errors import BinlogError, GtidError
from ..events import Event, MariadbGtidEvent, MariadbGtidListEvent, PreviousGtidsEvent
from ..gtids import AnyGtidSet, GtidSet, MariadbGtid, MariadbGtidSet, parse_gtid_set
from ..position import Position
from .log import Log
from .settings import Settings

_GTIDS = GTID_EVENTS | {EventType.PREVIOUS_GTIDS, EventType.MARIADB_GTID_LIST}


def begun_after(files: LogFiles, settings: Settings, start: Position | AnyGtidSet) -> Settings:
    """The settings with which reading begins behind GTIDs, as a replica would.

    Parameters
    ----------
    files : LogFiles
    settings : Settings
        Without a start.
    start : Position, GtidSet or MariadbGtidSet
        A set of MySQL: everything not in it is read. Of MariaDB: everything behind the last GTID of each
        domain. A position: one without a file.

    Raises
    ------
    GtidError
        The logs are of the other vendor.
    BinlogError
        Earlier logs would be needed, or one of the GTIDs is not in these.
    """
    gtids = start.gtids if isinstance(start, Position) else start
    if gtids is None:
        raise BinlogError("the position has neither a file nor GTIDs", path=files[0].path)
    known = settings.whole()
    i = _last_begun_by(files, known, gtids)
    if isinstance(gtids, MariadbGtidSet):
        found = _behind_domains(files[_with_records_over(files, known, i) :], known, gtids)
        if found is None:
            raise BinlogError(f"not all of start={str(gtids)!r} are in these logs", path=files[0].path)
    else:
        found = _Found(files[i].path, FIRST_EVENT, None, gtids)
    begin = Position(found.path, found.offset, gtids)
    if isinstance(start, Position) and start.records:
        if start.transaction is None or found.next != start.transaction:
            raise BinlogError(
                f"the position is inside transaction {start.transaction}, which does not come next",
                path=found.path,
            )
        begin = replace(begin, records=start.records, transaction=start.transaction)
    return settings._replace(start=begin, done=found.done)


def found_start(log: Log) -> tuple[str, int, str | None]:
    """Where a log begins that was opened with GTIDs: path, position, and GTIDs that are not read there."""
    start, done = log.settings.start, log.settings.done
    assert isinstance(start, Position)
    return start.file, start.offset, str(done) if done else None


class _Found(NamedTuple):
    """Where to begin; the transaction there, if it is known; which ones from there on are not wanted."""

    path: str
    offset: int
    next: MariadbGtid | None
    done: AnyGtidSet


@contextmanager
def _gtid_events(file: LogFile, settings: Settings) -> Iterator[Iterator[Event]]:
    """What a log says of GTIDs, as far as it belongs to its archive's history."""
    until = file.share.until if file.share is not None else None
    repeated = _left_out(file)
    with Log(LogFiles([file]), settings) as log, closing(log.events(types=_GTIDS)) as events:
        if log.opened.is_read_once(0):
            raise BinlogError("GTIDs as start= need logs that can be read twice: save it", path=file.path)
        yield (
            event
            for event in events
            if (until is None or event.position < until)
            and not (isinstance(event, MariadbGtidEvent) and repeated and event.gtid in repeated)
        )


def _left_out(file: LogFile) -> AnyGtidSet | None:
    """The transactions of a log that are not read there, since an earlier log of its archive has them."""
    return parse_gtid_set(file.share.before) if file.share is not None and file.share.before else None


def _last_begun_by(files: LogFiles, settings: Settings, gtids: AnyGtidSet) -> int:
    """The last log before which there is nothing but these GTIDs: no earlier one is needed."""
    lacking: object = None
    for i in range(len(files) - 1, -1, -1):
        with _gtid_events(files[i], settings) as events:
            first = next(events, None)
        mariadb = isinstance(first, MariadbGtidListEvent | MariadbGtidEvent)
        if first is not None and gtids and mariadb != isinstance(gtids, MariadbGtidSet):
            raise GtidError("the GTIDs are not of this log's vendor", path=files[i].path)
        repeated = _left_out(files[i])
        if isinstance(first, PreviousGtidsEvent):
            before = first.gtid_set | repeated if isinstance(repeated, GtidSet) else first.gtid_set
            lacking = next(iter(before - gtids if gtids else before), None)
        elif isinstance(first, MariadbGtidListEvent):
            lacking = _not_behind(first.gtids, gtids)
            if lacking is None and isinstance(repeated, MariadbGtidSet):
                lacking = _not_behind(tuple(_by_domain(repeated).values()), gtids)
            if i and _unknown(first.gtids, gtids):  # an earlier log may tell
                continue
        elif mariadb and not i:  # it does not say what is before it: each of the GTIDs has to be met
            lacking = None
        else:
            lacking = "what is before it, which it does not say"
        if lacking is None:
            return i
    raise BinlogError(f"earlier logs are needed: start= lacks {lacking}", path=files[0].path)


def _with_records_over(files: LogFiles, settings: Settings, i: int) -> int:
    """The file before, of .ibb files: a state within a commit record may not have its transaction yet."""
    with files[i].open() as source:
        if not source.finds_transactions:
            return i
    while i:
        i -= 1
        with _gtid_events(files[i], settings) as events:
            if any(isinstance(event, MariadbGtidEvent) for event in events):
                break
    return i


def _not_behind(before: tuple[MariadbGtid, ...], gtids: AnyGtidSet) -> MariadbGtid | None:
    """One of the GTIDs before a log that lies behind those given; None: reading may begin with this log."""
    given, last = _by_domain(gtids), _by_domain(last_of_domains(before))
    for one in before:
        begin = given.get(one.domain_id)
        if begin is None or (
            begin.server_id == one.server_id
            and begin.seq_no <= one.seq_no
            and begin != last[one.domain_id]  # the domain goes on with this log
        ):
            return one
    return None


def _unknown(before: tuple[MariadbGtid, ...], gtids: AnyGtidSet) -> set[int]:
    """The domains of which a log does not tell whether the GTID lies before it: it does not list its server.

    A server's own log lists the last GTID of each server, that of an archive of MariaDB 12.3 only the last of
    each domain.
    """
    servers = {(one.domain_id, one.server_id) for one in before}
    begun = {domain for domain, _ in servers}
    given = _by_domain(gtids)
    return {
        domain for domain, one in given.items() if domain in begun and (domain, one.server_id) not in servers
    }


def _behind_domains(files: Sequence[LogFile], settings: Settings, gtids: MariadbGtidSet) -> _Found | None:
    """Where the first transaction begins that is behind the last GTID of its domain.

    Domains run side by side: transactions that come before that GTID may follow there. None: a GTID is not in
    these logs, though others of its domain are.
    """
    given = _by_domain(gtids)
    waiting = set(given)
    begin: _Found | None = None
    last = _Found(files[0].path, FIRST_EVENT, None, MariadbGtidSet())
    done: list[tuple[tuple[int, int], tuple[int, int]]] = []
    begun: list[tuple[tuple[int, int], tuple[int, int]]] = []  # where domains are as the logs begin
    met: set[int] = set()
    within: set[int] = set()  # domains whose GTID does not lie before these logs
    for file in files:
        with _gtid_events(file, settings) as events:
            for event in events:
                if isinstance(event, MariadbGtidListEvent):
                    if not met:
                        within = given.keys() - _unknown(event.gtids, gtids)
                    before = _by_domain(last_of_domains(event.gtids))
                    met |= before.keys()
                    for domain in waiting & before.keys():
                        _add(begun, before[domain])
                    waiting -= {domain for domain, one in before.items() if given.get(domain) == one}
                    continue
                if not isinstance(event, MariadbGtidEvent):
                    raise GtidError("the GTIDs are not of this log's vendor", path=file.path)
                gtid = event.gtid
                domain, wanted = gtid.domain_id, given.get(gtid.domain_id)
                met.add(domain)
                if wanted is not None and wanted.server_id == gtid.server_id and wanted.seq_no < gtid.seq_no:
                    waiting -= within & {domain}  # its number was left out
                if gtid != wanted and domain not in waiting:
                    begin = begin or _Found(file.path, event.position, gtid, MariadbGtidSet())
                else:
                    if begin is None:
                        last, done = _Found(file.path, event.position, None, MariadbGtidSet()), []
                    _add(done, gtid)
                if gtid == wanted:
                    waiting.discard(domain)
                if begin is not None and not waiting:
                    return begin._replace(done=MariadbGtidSet(begun + done))
    if waiting & met:
        return None
    return (begin or last)._replace(done=MariadbGtidSet(begun + done))


def _by_domain(gtids: AnyGtidSet) -> dict[int, MariadbGtid]:
    """Of each domain the GTID with the highest number."""
    if not isinstance(gtids, MariadbGtidSet):
        return {}
    return {
        domain: MariadbGtid(domain, server, last) for (domain, server), (_, last) in latest(gtids).intervals()
    }


def _add(intervals: list[tuple[tuple[int, int], tuple[int, int]]], gtid: MariadbGtid) -> None:
    source, number = (gtid.domain_id, gtid.server_id), gtid.seq_no
    if intervals and intervals[-1][0] == source and intervals[-1][1][1] == number - 1:
        intervals[-1] = source, (intervals[-1][1][0], number)
    else:
        intervals.append((source, (number, number)))
