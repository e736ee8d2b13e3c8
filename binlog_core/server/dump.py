"""One dump: the events that a server sends on one connection, from a requested place on.

Source: MySQL server, sql/rpl_binlog_sender.cc, sql/rpl_replica.cc; MariaDB, sql/sql_repl.cc.
"""

from __future__ import annotations

import select
import ssl
import struct
import threading
from dataclasses import dataclass

from .._core import _packets
from .._core._packets import Packets
from .._format.event_header import (
    CHECKSUM_LENGTH,
    FIRST_EVENT,
    HEADER_LENGTH_V3,
    ends_with_checksum,
    length_of,
    next_position_of,
    type_of,
)
from .._format.event_types import EventType
from .._sources.log_names import is_servers_name
from ..errors import (
    DecodeError,
    DivergedError,
    PositionError,
    ProtocolError,
    ServerError,
    UnreachableError,
)
from ..events.gtid import gtids_of_list
from ..gtids import GtidSet, MariadbGtid
from ..limits import Limits
from .compressed import framed
from .connection import Connection, Facts
from .refusals import COPY_AGAIN, NO_EVENT, is_passing, refusal
from .run import ServerRun, is_before

COM_REGISTER_SLAVE = 0x15
COM_BINLOG_DUMP = 0x12
COM_BINLOG_DUMP_GTID = 0x1E
NON_BLOCK = 1  # end where the logs end
SEND_ANNOTATE_ROWS = 2  # for MariaDB; without it the logs have gaps. (On MySQL, 2 means longer heartbeats.)
_ROTATE_NAME_AT = HEADER_LENGTH_V3 + 8  # after the position
_MARIADB_CAPABILITY = 4  # GTID events as they are in the logs
_BUFFER = 1 << 20
_MOST_POSITION = 2**32 - 1
_SLICE = 0.2  # seconds between two checks for a request to stop
_WRITE_TIMEOUT = 3600  # seconds that the server waits for a busy reader


class LineLost(Exception):
    """The connection was lost; a new one may be able to continue."""


@dataclass(frozen=True, slots=True)
class Begin:
    """Where a dump begins.

    Parameters
    ----------
    file : str
        The name of the log; "" means the oldest one that the server has.
    position : int
        The position of the first event.
    gtids : bytes or str or None
        MySQL's encoded set of transactions not to send, or MariaDB's list of GTIDs to continue after; None:
        everything is sent.
    """

    file: str = ""
    position: int = FIRST_EVENT
    gtids: bytes | str | None = None


class Dump:
    """Runs of events from one connection.

    Parameters
    ----------
    connection : Connection
        The connection, which is used for nothing else and closed with this.
    facts : Facts
        What the server says about itself.
    begin : Begin
        Where the dump begins.
    server_id : int
        The server id to register as a replica with.
    uuid : str
        The UUID of that replica.
    wait : bool
        False: the dump ends where the server's logs end.
    limits : Limits
        Its `event_bytes` limit one event.
    stop : threading.Event
        Ends waiting when set.

    Attributes
    ----------
    file : str
        The log of the events; "" until the server has named it.
    host : (str, int)
        The server's host and port.
    ended : bool
        Whether the server has sent everything.
    """

    def __init__(
        self,
        connection: Connection,
        facts: Facts,
        begin: Begin,
        *,
        server_id: int,
        uuid: str,
        wait: bool,
        limits: Limits,
        stop: threading.Event,
    ) -> None:
        self.file = begin.file
        self.name = connection.name
        self.host = connection.host
        self.stop = stop
        self.ended = False
        self._connection = connection
        self._facts = facts
        self._begin = begin
        self._wait = wait
        self._limits = limits
        self._heartbeat = connection.address.heartbeat
        self._world = connection.address.world
        self._packets = Packets(
            limits.event_bytes,
            semi_sync=connection.address.semi_sync,
            numbered=connection.frames is None,
        )
        self._buffer = bytearray(_BUFFER)
        self._handed = False  # whether the caller has the events in the buffer, until the next call
        self._pending = _packets.MORE
        self._behind: tuple[str, int] | None = None  # what comes before it is dropped
        self._inside = False  # inside its log
        self._described = False  # whether the descriptor, which is not dropped, was handed out
        self._prepare(server_id, uuid)
        self._socket = connection.take_socket()
        self._frames = connection.frames
        if self._frames is not None:
            self._frames.expect(1, may_restart=connection.address.semi_sync)
        self._tls = isinstance(self._socket, ssl.SSLSocket)
        self._line = threading.Lock()  # two threads cannot read and write TLS at the same time
        self._heard = self._world.now()

    # ------------------------------------------------------------ before

    def _prepare(self, server_id: int, uuid: str) -> None:
        connection, facts, begin = self._connection, self._facts, self._begin
        period = int(self._heartbeat * 1e9)
        settings = [f"@master_heartbeat_period={period}"]
        settings.append("@master_binlog_checksum=@@global.binlog_checksum")
        if facts.mariadb:
            settings.append(f"@mariadb_slave_capability={_MARIADB_CAPABILITY}")
            if isinstance(begin.gtids, str):
                settings.append(f"@slave_connect_state='{begin.gtids}'")
                settings += ["@slave_gtid_strict_mode=0", "@slave_gtid_ignore_duplicates=0"]
        else:
            settings += [f"@source_heartbeat_period={period}"]
            settings += ["@source_binlog_checksum=@@global.binlog_checksum"]
            settings += [f"@slave_uuid='{uuid}'", f"@replica_uuid='{uuid}'"]
        if connection.address.semi_sync:
            settings += ["@rpl_semi_sync_slave=1"]
            if not facts.mariadb:
                settings += ["@rpl_semi_sync_replica=1"]
        settings.append(f"net_write_timeout={_WRITE_TIMEOUT}")
        connection.query("SET " + ", ".join(settings))
        connection.command(
            COM_REGISTER_SLAVE,
            struct.pack("<I", server_id) + b"\x0bbinlog_core" + b"\0\0" + struct.pack("<HII", 0, 0, 0),
        )
        connection.take_ok()
        flags = (0 if self._wait else NON_BLOCK) | (SEND_ANNOTATE_ROWS if facts.mariadb else 0)
        name = begin.file.encode()
        position = begin.position
        if isinstance(begin.gtids, bytes):
            arguments = struct.pack("<HII", flags, server_id, len(name)) + name
            arguments += struct.pack("<QI", position, len(begin.gtids)) + begin.gtids
            connection.command(COM_BINLOG_DUMP_GTID, arguments)
            return
        if isinstance(begin.gtids, str):  # they decide where it begins: at a transaction
            self._behind = (begin.file, begin.position) if begin.file else None
        elif position > _MOST_POSITION:  # of the command: read from the log's beginning
            self._behind = begin.file, position
            position = FIRST_EVENT
        connection.command(COM_BINLOG_DUMP, struct.pack("<IHI", position, flags, server_id) + name)

    # ------------------------------------------------------------ runs

    def next_run(self, timeout: float | None) -> ServerRun | None:
        """The next run; the events of the one before are no longer valid then.

        Parameters
        ----------
        timeout : float or None
            Seconds to wait; None: as long as it takes.

        Returns
        -------
        Run or None
            None: nothing in time, stopped, or `ended`.

        Raises
        ------
        LineLost
            The connection is gone.
        ServerError
            The server refuses.
        DecodeError
            An event is larger than `Limits.event_bytes`.
        """
        packets = self._packets
        if self._handed:
            self._handed = False
            self._forget()
        until = None if timeout is None else self._world.now() + timeout
        passed = False  # events that are not handed out: also during a flood of them the time counts
        while True:
            status, self._pending = self._pending, _packets.MORE
            if status == _packets.MORE:
                status = packets.strip(self._buffer)
            if packets.whole:
                self._pending = status  # the complete events before it come first
                if (run := self._hand_out()) is not None:
                    return run
                passed = True
                self._forget()
            elif status == _packets.MORE:
                if (passed and self._is_over(until)) or not self._receive(until):
                    return None
            elif status == _packets.SPECIAL:
                run = self._special(bytes(self._buffer[: packets.written]))
                packets.drop()
                if run is not None:
                    return run
                passed = True
            elif status == _packets.HOLE:
                self._over_hole()
                passed = True
            elif status == _packets.REFUSED:
                self._refused(bytes(self._buffer[: packets.written]))
                return None
            else:
                raise self._wrong(status)

    def _hand_out(self) -> ServerRun | None:
        packets = self._packets
        start = packets.position - packets.whole
        events = memoryview(self._buffer)[: packets.whole]
        if (
            self._behind is not None
            and self.file == self._behind[0]
            and start == FIRST_EVENT
            and not self._described
        ):
            self._described = True
            description = bytes(events[: length_of(events)])
            return ServerRun("descriptor", self.file, self._behind[1], memoryview(description), False)
        self._handed = True
        if self._behind is not None:
            if self.file == self._behind[0] and packets.position >= self._behind[1]:
                begun = 0
                while start + begun < self._behind[1]:
                    begun += length_of(events[begun:])
                if start < self._behind[1] != start + begun:
                    raise self._no_event()
                self._behind = None
                start, events = start + begun, events[begun:]
            else:
                events = events[:0]
            if not events:
                self._handed = False
                return None
        return ServerRun("events", self.file, start, events, packets.acknowledge)

    def _no_event(self) -> PositionError:
        return PositionError(NO_EVENT, path=self._begin.file, offset=self._begin.position)

    def gtids(self) -> tuple[GtidSet | tuple[MariadbGtid, ...] | None, bytes]:
        """For the last run's events: the GTIDs before their log, and their GTIDs as runs (gtid_run_t)."""
        packets = self._packets
        state = None
        if packets.state_len:
            event = bytes(self._buffer[packets.state_at : packets.state_at + packets.state_len])
            state = _state(event)
        return state, packets.take_gtids()

    def running_gtid(self) -> tuple[int, bytes, bytes, int, int, int] | None:
        """The GTID of the transaction that may still continue (see `gtid_of`)."""
        return self._packets.running_gtid() if self._packets.begun == 1 else None

    @property
    def between_transactions(self) -> bool | None:
        """Whether the last transaction has ended; None: nothing of one was seen here."""
        return None if self._packets.begun < 0 else not self._packets.begun

    @property
    def reached(self) -> tuple[str, int]:
        """The log, and the position in it up to which it has come; of an incomplete event whole MiB count."""
        packets = self._packets
        return self.file, packets.position + (packets.written - packets.whole) // _BUFFER * _BUFFER

    @property
    def patience(self) -> float:
        """Seconds without progress after which a dump that does not wait is given up."""
        return max(self._connection.address.reconnect, 2 * self._heartbeat)

    def stalled(self) -> UnreachableError:
        """The error for a dump that does not wait, and neither ends nor comes on."""
        error = UnreachableError(
            f"nothing new has come for {self.patience:g} s, and the logs have not ended",
            path=self.file or self.name,
            offset=self._packets.position,
        )
        error.lost = False
        return error

    def _over_hole(self) -> None:
        packets = self._packets
        position, gap = packets.position, packets.gap
        if type_of(self._buffer) == EventType.MARIADB_START_ENCRYPTION:
            packets.drop()  # sent again, before what was requested
        elif gap - position < 2**31:
            packets.accept(self._buffer, gap)  # withheld: transactions that we reported to have
        else:
            # Old logs have other positions in their headers; no event is missing.
            packets.accept(self._buffer, position)

    def _special(self, event: bytes) -> ServerRun | None:
        """Handle an event that is not in the log; return its run, or None if the reader needs none."""
        packets = self._packets
        kind = type_of(event)
        if kind == EventType.ROTATE:
            position, name = _rotation(event)
            if self._behind is not None and self._inside and name != self._behind[0]:
                raise self._no_event()  # the log was shorter
            if self._behind is not None and is_before(self._behind, (name, 0)):
                self._behind = None  # by the GTIDs nothing of that log is left
            self.file = name
            packets.go_to(position)
            if self._behind is not None:
                self._inside = name == self._behind[0]
                if not self._inside or position > self._behind[1]:
                    return None
                position = self._behind[1]
            return ServerRun("file", name, position, memoryview(b""), False)
        if kind == EventType.FORMAT_DESCRIPTION:
            return ServerRun("descriptor", self.file, packets.position, memoryview(event), False)
        if kind in (EventType.HEARTBEAT, EventType.HEARTBEAT_V2, EventType.MARIADB_GTID_LIST):
            if kind != EventType.MARIADB_GTID_LIST:
                self._check_reached()
            self._pass_over(event)
            return ServerRun("heartbeat", self.file, packets.position, memoryview(event), False)
        return None

    def _check_reached(self) -> None:
        """Now that the server has sent all that it has: the log in which reading goes on was among it."""
        if self._behind is not None and self._begin.gtids is not None and not self._inside:
            raise DivergedError(
                f"the server has only older logs than the one that was read, up to {self.file}: it was"
                f" restored or reset; {COPY_AGAIN}",
                path=self._behind[0],
                offset=self._behind[1],
            )

    def _pass_over(self, event: bytes) -> None:
        """Go to where an event says that the withheld transactions end, those that we reported to have."""
        packets = self._packets
        further = (next_position_of(event) - packets.position) % 2**32
        if self._begin.gtids is not None and self._behind is None and packets.position and further < 2**31:
            packets.go_to(packets.position + further)

    def _refused(self, packet: bytes) -> None:
        if packet[0] == 0xFE and len(packet) < 9:
            if not self._wait:
                if self._behind is not None and self._begin.gtids is None:
                    raise self._no_event()
                self._check_reached()
                self.ended = True
                return
            raise LineLost("the server ended the dump (for example by KILL QUERY)")
        if packet[0] != 0xFF or len(packet) < 3:
            raise ProtocolError("a packet is neither an event nor an error", path=self.name)
        code = int.from_bytes(packet[1:3], "little")
        text, sqlstate = packet[3:], None
        if text[:1] == b"#":
            sqlstate, text = text[1:6].decode("ascii", "replace"), text[6:]
        said = text.decode("utf-8", "replace")
        error = refusal(
            code,
            said,
            sqlstate,
            path=self.file or self.name,
            offset=self._packets.position or self._begin.position,
        )
        if is_passing(code) or (type(error) is ServerError and "shutdown" in said.lower()):
            raise LineLost(error.message)
        raise error

    def _wrong(self, status: int) -> ServerError | DecodeError:
        position = self._packets.position
        if status == _packets.TOO_LARGE:
            return self._limits.event_too_large(self._packets.event_length, self.file, position)
        why = {
            _packets.OUT_OF_ORDER: "a packet is missing or duplicated: its number is not the next",
            _packets.NOT_AN_EVENT: "a packet does not contain exactly one event",
        }[status]
        return ProtocolError(why, path=self.file or self.name, offset=position)

    # ------------------------------------------------------------ bytes

    def _forget(self) -> None:
        """Make room: move the bytes after the complete events to the front."""
        packets = self._packets
        rest = packets.written - packets.whole + packets.fill - packets.unread
        target = self._buffer
        if len(target) > _BUFFER and rest <= _BUFFER // 2:  # a large event is over
            target = bytearray(_BUFFER)
        packets.compact(self._buffer, target)
        self._buffer = target

    def _receive(self, until: float | None) -> bool:
        """More bytes into the buffer; False: none in time, or stopped."""
        packets = self._packets
        if packets.written < packets.unread:
            packets.compact(self._buffer, self._buffer)
        if len(self._buffer) - packets.fill < _BUFFER // 4:
            # Room for a whole large event: doubling step by step would hold it twice while it is moved.
            larger = bytearray(max(2 * len(self._buffer), packets.event_length + _BUFFER))
            packets.compact(self._buffer, larger)
            self._buffer = larger
        room = memoryview(self._buffer)[packets.fill :]
        while True:
            got = self._read_into(room)
            if got:
                packets.fill += got
                self._heard = self._world.now()
                return True
            now = self._world.now()
            if now - self._heard > 2 * self._heartbeat:
                raise LineLost(
                    f"silent for {now - self._heard:.0f} s, with a heartbeat every {self._heartbeat:g} s"
                )
            if self._is_over(until):
                return False
            self._world.wait_for_bytes(self._socket, min(_SLICE, _SLICE if until is None else until - now))

    def _is_over(self, until: float | None) -> bool:
        return self.stop.is_set() or (until is not None and self._world.now() >= until)

    def _read_into(self, room: memoryview) -> int:
        """Bytes of packets that are there now; 0: none."""
        frames = self._frames
        if frames is None:
            return self._take_into(room)
        if not (got := frames.take(room)) and (count := self._take_into(frames.room())):
            self._heard = self._world.now()
            frames.received(count)
            got = frames.take(room)
        return got

    def _take_into(self, room: memoryview) -> int:
        """Receive what is there now; how many bytes that were."""
        got = 0
        try:
            while got < len(room):
                with self._line:
                    count = self._socket.recv_into(room[got:])
                if count == 0:
                    if got:
                        return got
                    raise LineLost("the server closed the connection")
                got += count
                if not self._tls:
                    break
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        except OSError as exc:
            if not got:
                raise LineLost(exc.strerror or str(exc)) from None
        return got

    def acknowledge(self, file: str, position: int) -> None:
        """Tell a semi-synchronous server that everything before a position is stored safely.

        Raises
        ------
        LineLost
            The connection is lost.
        """
        payload = b"\xef" + struct.pack("<Q", position) + file.encode()
        packet = len(payload).to_bytes(3, "little") + b"\0" + payload
        data = memoryview(packet if self._frames is None else framed(packet))
        try:
            while data:
                try:
                    with self._line:
                        sent = self._socket.send(data)
                    data = data[sent:]
                except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                    select.select([], [self._socket], [], _SLICE)
        except OSError as exc:
            raise LineLost(exc.strerror or str(exc)) from None

    def close(self) -> None:
        """End the connection; may be called again."""
        self._connection.close()


def _state(event: bytes) -> GtidSet | tuple[MariadbGtid, ...] | None:
    """The GTIDs in an event at a log's beginning, whether or not it ends with a CRC32."""
    body = memoryview(event)[HEADER_LENGTH_V3 : -CHECKSUM_LENGTH if ends_with_checksum(event) else None]
    try:
        if type_of(event) == EventType.PREVIOUS_GTIDS:
            return GtidSet.from_bytes(body)
        return tuple(gtids_of_list(body))
    except DecodeError:
        return None  # the decoder reports what is wrong


def _rotation(event: bytes) -> tuple[int, str]:
    """(position, name) of a ROTATE_EVENT, whether or not it ends with a CRC32."""
    end = len(event) - CHECKSUM_LENGTH * ends_with_checksum(event)
    if end <= _ROTATE_NAME_AT:
        raise ProtocolError("the server does not name the log that it sends")
    name = event[_ROTATE_NAME_AT:end].split(b"\0")[0].decode("utf-8", "replace")
    position = int.from_bytes(event[HEADER_LENGTH_V3:_ROTATE_NAME_AT], "little")
    if not is_servers_name(name) or position >= 1 << 63:
        raise ProtocolError("the server does not name the log that it sends, and a position in it")
    return position, name
