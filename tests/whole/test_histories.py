"""A sample of the simulated world's histories, and those that once failed. `make world` runs new ones."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from contextlib import closing, nullcontext, suppress
from dataclasses import replace
from itertools import islice, repeat
from pathlib import Path
from typing import Any

import pytest

import binlog_core
from binlog_core import MariadbGtidSet
from binlog_core.errors import DivergedError, MirrorError, PurgedError, UnreachableError
from binlog_core.lake.rows.source_options import SourceOptions
from binlog_core.mirror import serving

pytest.importorskip("pymysql")
sys.path.insert(0, str(Path(__file__).parents[2] / "soak"))

pytest.importorskip("pyspark")
pytest.importorskip("deltalake")
from world.__main__ import failure
from world.archives import keeper
from world.asking import Asker
from world.disk import Disk
from world.folders import exporter, stream
from world.history import VERSIONS, Step, Wrong
from world.line import Fault, Line
from world.mirrors import mirrorer
from world.model import Change, Transaction
from world.objects import Objects, WorldStore
from world.proof import DEFECTS, Defect
from world.readers import Reader, numbers, reader
from world.server import Kind, Server
from world.tables import Tables
from world.world import SimulatedWorld

KINDS: dict[str, Callable[[int], Any]] = {
    "reader": reader,
    "archive": keeper,
    "stream": stream,
    "export": exporter,
    "mirror": mirrorer,
}
SAMPLE = {"reader": 40, "archive": 20, "stream": 10, "export": 10, "mirror": 2}
# Where the histories of seeds change, `make world-proof` says which ones show the defects of before.
FAILED = [
    *(("reader", seed) for seed in (3000289, 3000515, 3000652, 3001716, 3002072)),
    *(("reader", seed) for seed in (1795711218651, 1795711218749, 1795711226745, 1795711226831, 20004550)),
    ("reader", 166121590176),
    *(("archive", seed) for seed in (1795711217257, 8100210)),
    *(("archive", seed) for seed in (166121589914, 770000000, 770000201, 790000069)),
    *(("mirror", seed) for seed in (36, 58, 140, 1049)),
]
_WITHOUT: dict[str, dict[str, Any]] = {  # what histories have had only since then
    "archive": {"down": ()},
    "mirror": {"ways": (), "asks": (), "rate": None},
}
WRONGLY_JUDGED = [  # since then: they are right
    *(("archive", seed) for seed in (857, 15556917939, 901000243)),
    *(("mirror", seed) for seed in (2059, 3011, 3144, 5017)),
]


@pytest.mark.parametrize(("kind", "seed"), FAILED)
def test_what_once_failed(kind: str, seed: int) -> None:
    replace(KINDS[kind](seed), **_WITHOUT.get(kind, {})).run()


@pytest.fixture
def young(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mirrors meet XA and requests."""
    monkeypatch.setattr("world.mirrors.YOUNG", {"xa", "requests"})


@pytest.mark.usefixtures("young")
@pytest.mark.parametrize(("kind", "seed"), WRONGLY_JUDGED)
def test_what_was_judged_wrongly(kind: str, seed: int) -> None:
    """A place without an event, MariaDB 12.3, a server that is down, tables under XA, backups, torn logs."""
    KINDS[kind](seed).run()


def test_what_failed_before_there_were_stores_and_restores() -> None:
    """The seeds of these are others' now."""
    replace(keeper(1795711219894), storing=None, compress=True, down=()).run()
    replace(keeper(9101493), storing=None, compress=True, keeps=5.0, down=()).run()


@pytest.mark.parametrize("seed", [770000136, 770000234, 40204, 41198])
def test_mirrors_of_a_restored_server(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A place in the archive of what the server logged before is not judged by what it logged since."""
    monkeypatch.setattr("world.mirrors.YOUNG", {"restores", "xa", "requests"})
    history = mirrorer(seed)
    assert any(step.what == "restore" for step in history.steps)
    history.run()


@pytest.mark.parametrize("group_rows", [1, 65536])
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("way", ["rollback", "statement"])
def test_a_transaction_that_ends_without_xid_does_not_come_again_after_a_failover(
    version: str, way: str, group_rows: int
) -> None:
    """Nothing in a raw stream of events shows that it has ended, but the reader of its rows knows."""
    last = Transaction(3, (Change(4, 0, "insert"), Change(5, 1, "insert")), (1, 1), "rollback")
    if way == "statement":
        last = Transaction(3, (), statement="CREATE TABLE made_3 (a INT)")
    steps = (
        Step(0.0, "commit", Transaction(1, (Change(1, 0, "insert"),), (1,))),
        Step(10.0, "commit", Transaction(2, (Change(2, 0, "insert"), Change(3, 0, "insert")), (2,))),
        Step(11.0, "commit", last),
        Step(12.0, "failover"),
        Step(13.0, "commit", Transaction(4, (Change(6, 0, "insert"),), (1,))),
    )
    Reader(
        seed=1,
        kind=Kind(version),
        hosts=2,
        opened=5.0,
        steps=steps,
        faults=(),
        start="none",
        follow=True,
        group_rows=group_rows,
        resumes=(),
    ).run()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("catches_up", [True, False])
@pytest.mark.parametrize("way", ["rollback", "statement", "commit"])
def test_a_server_that_takes_over_is_waited_for_however_the_last_transaction_ended(
    version: str, catches_up: bool, way: str
) -> None:
    world = SimulatedWorld(1, repeat(Fault()))
    kind = Kind(version)
    server, other = (Server(world, name, kind, server_id=i + 1) for i, name in enumerate("ab"))
    world.hosts = {"a": server, "b": other}
    last = Transaction(2, (Change(2, 0, "insert"),), (1,), "rollback" if way == "rollback" else "commit")
    if way == "statement":
        last = Transaction(2, (), statement="CREATE TABLE made_2 (a INT)")
    first, late = (Transaction(i, (Change(i, 0, "insert"),), (1,)) for i in (1, 3))
    for committed in (first, last):
        server.commit(committed)
    other.commit(first)
    world.after(10.0, lambda: server.stop(clean=False))
    if catches_up:
        world.after(30.0, lambda: [other.commit(committed) for committed in (last, late)])
    options = {"world": world, "heartbeat": 5.0, "reconnect": 60.0, "ssl_mode": "DISABLED"}
    got: list[int] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with closing(binlog_core.open("mysql://root@a,b", follow=True, server=options)) as log:
            world.after(200.0, log.stop)
            refused = nullcontext() if catches_up else pytest.raises(DivergedError, match="server lacks")
            with refused:
                got += (number for group in log.groups() for number, *_ in numbers(group))
    assert got == [1] + [2] * (way != "statement") + [3] * catches_up


@pytest.mark.parametrize("lacks", [0, 1])
def test_a_mariadb_that_was_restored_and_has_no_later_log_is_noticed(lacks: int) -> None:
    """A reader by GTIDs waited for the log in which it was, and left out all that came meanwhile."""
    world = SimulatedWorld(1, repeat(Fault()))
    server = Server(world, "a", Kind("10.11.18-MariaDB-log"), server_id=1)
    world.hosts = {"a": server}
    first, second = (Transaction(i, (Change(i, 0, "insert"),), (1,)) for i in (1, 2))
    server.commit(first)
    server.rotate()

    def restored() -> None:
        again = server.restore(lacks)
        for one in (*again, second):
            server.commit(one)
        server.up = True

    world.after(10.0, restored)
    options = {"world": world, "heartbeat": 5.0, "reconnect": 60.0, "ssl_mode": "DISABLED"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with closing(
            binlog_core.open("mysql://root@a", start=MariadbGtidSet(), follow=True, server=options)
        ) as log:
            world.after(200.0, log.stop)
            with pytest.raises(DivergedError, match="only older logs than the one that was read"):
                for _ in log.groups():
                    pass


@pytest.mark.parametrize(
    ("kind", "first"), [(kind, first) for kind, size in SAMPLE.items() for first in range(0, size, 20)]
)
def test_a_sample(kind: str, first: int) -> None:
    for seed in range(first, min(first + 20, SAMPLE[kind])):
        KINDS[kind](seed).run()


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda one: one.name)
def test_a_defect_can_be_put_back(defect: Defect) -> None:
    """The package still has the line that it changes, once."""
    text = (Path(binlog_core.__file__).parent / defect.module).read_text("utf-8")
    assert text.count(defect.right) == 1


def test_the_judge_sees_what_is_lost() -> None:
    """A reader that leaves out every second group is wrong."""
    history = next(one for one in map(reader, range(100)) if len(one.steps) > 10 and one.start == "none")
    history.run()
    groups = binlog_core.Log.groups

    def some(log: Any) -> Any:
        return (group for number, group in enumerate(groups(log)) if number % 2)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("binlog_core.Log.groups", some)
        with pytest.raises(Wrong):
            history.run()


def test_the_judge_sees_a_reader_that_has_what_it_calls_purged() -> None:
    """A reader may lack what only a restored server's backup has; one that has it all may not say so."""

    def suits(one: Reader) -> bool:
        steps = {step.what for step in one.steps}
        mysql = one.kind.gtids and not one.kind.mariadb
        return "restore" in steps and "purge" not in steps and mysql and one.follow and one.start == "none"

    history = next(filter(suits, map(reader, range(2000))))
    history.run()
    groups = binlog_core.Log.groups

    def some(log: Any) -> Any:
        yield from groups(log)
        raise PurgedError("some are purged")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("binlog_core.Log.groups", some)
        with pytest.raises(Wrong, match="some are purged"):
            replace(history, resumes=()).run()


@pytest.mark.usefixtures("young")
def test_the_judge_sees_rows_of_what_is_only_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mirror that takes XA transactions as of XA PREPARE has rows that the server's tables lack."""

    def prepared(*arguments: Any, **named: Any) -> SourceOptions:
        return SourceOptions(*arguments, **named | {"xa": "prepared"})

    def suits(one: Any) -> bool:
        return "prepare" in one.ways and len(one.steps) > 10 and not one.cuts and not one.asks

    monkeypatch.setattr("binlog_core.mirror.changes.SourceOptions", prepared)
    some = list(islice(filter(suits, map(mirrorer, range(1000))), 6))
    assert any(failure(one) is not None for one in some)


@pytest.mark.usefixtures("young")
def test_the_judge_sees_a_table_that_is_not_paused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mirror that says nothing of a pause, and goes on."""
    change = serving.change

    def deaf(state: Any, kind: str, tables: tuple[str, ...]) -> None:
        change(state, "resume" if kind == "pause" else kind, tables)

    def suits(one: Any) -> bool:
        return bool(one.asks) and one.asks[0].what == "pause" and not one.cuts

    monkeypatch.setattr(serving, "change", deaf)
    some = list(islice(filter(suits, map(mirrorer, range(1000))), 4))
    assert any("was answered by" in str(failure(one)) for one in some)


@pytest.mark.usefixtures("young")
def test_the_judge_sees_who_waits_for_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("world.asking.resume", lambda *_: None)

    def suits(one: Any) -> bool:
        return bool(one.asks) and not one.cuts

    assert "who asked waits" in str(failure(next(filter(suits, map(mirrorer, range(1000))))))


_BLAMES = {
    "no server": UnreachableError("the server does not answer: refused"),
    "told of no server": MirrorError("the connection was lost: it ended"),
    "locks": MirrorError("the tables could not be locked for reading in 3 attempts"),
}


@pytest.mark.parametrize("error", _BLAMES.values(), ids=[*_BLAMES])
def test_the_judge_knows_whether_a_server_was_down_or_locked(error: Exception, tmp_path: Path) -> None:
    """Who asks may be told so only if it was so meanwhile."""
    world = SimulatedWorld(1, iter([Fault(), Fault(cut=0)]))
    server = Server(world, "a", Kind("8.4.3"), server_id=1)
    server.tables = Tables(world, {})
    world.hosts = {"a": server}
    asker = Asker(world, tmp_path, (), 1.0, {}, None, ())

    def answered(meanwhile: Callable[[], None]) -> Any:
        def work() -> None:
            world.sleep(1.0)
            meanwhile()
            world.sleep(1.0)
            raise error

        return asker._tried(work)

    def connect() -> None:
        world.connect(Line, ("a", 3306), None, 1.0).close()

    def find_down() -> None:
        server.up = False
        with pytest.raises(ConnectionRefusedError):
            connect()
        server.up = True

    def in_vain() -> None:
        pass

    right, others = [find_down, connect], [server.tables.refuse]
    if "locked" in str(error):
        right, others = others, [find_down]
    with pytest.raises(type(error)):
        answered(connect)  # nothing happens to this line
    for one in right:
        assert answered(one) is None
        with pytest.raises(type(error)):
            answered(in_vain)
    for one in others:
        with pytest.raises(type(error)):
            answered(one)


def test_a_list_of_many_names_fails_as_often_as_one_of_few() -> None:
    """The world's pages have three names, a store's a thousand: otherwise no long list would succeed."""
    world = SimulatedWorld(1, repeat(Fault()), most=1e9)
    failed = []
    for count in (1, 60):
        objects = Objects(world, 1, rate=0.3, sound_from=1e9)
        objects.held = {f"store/archive/{number:03d}": (b"", 0.0) for number in range(count)}
        store = WorldStore(objects, Disk(world.chance, world.time))
        succeeded = 0
        for _ in range(300):
            with suppress(OSError):
                succeeded += len(store.ls("store/archive")) == count
        failed.append(300 - succeeded)
    assert all(30 < one < 100 for one in failed)  # of 60: two in three faults are failures
