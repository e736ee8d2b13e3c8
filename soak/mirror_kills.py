"""A mirror is killed at random moments while eight writers change its tables. Lake and server must agree.

    python soak/mirror_kills.py --kills 50                # starts the machine's mariadbd
    python soak/mirror_kills.py --kills 50 --port 3306    # a server that runs, root has no password
    python soak/mirror_kills.py --kills 0 --keep lake     # what `make mirror` shows: no kills, the lake stays
    python soak/mirror_kills.py --format iceberg          # tables of a catalog in SQLite, beside the lake
    python soak/mirror_kills.py --format vectors          # Delta tables with deletion vectors
    python soak/mirror_kills.py --runner both             # in turn without Spark (the default) and with it

Writers insert, update, delete, change keys, write transactions over several tables, alter, truncate and
create tables, and swap a table for a copy of it as gh-ost does. Each round starts the mirror, and ends it by
SIGKILL: every fourth time at a random moment, otherwise shortly after it began one of ``WANTED``. At the end
the histories must lead to the same rows.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from phases import phase
from server import port_of

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from support.lake_forms import FORMS, Form

DATABASE = "mirrored"
TABLES = ("orders", "items", "people", "events")
PATTERN = f"{DATABASE}.*"
WANTED = ("copy", "copy commit", "decode", "fold", "fold commit", "history", "history commit", "compaction")
WANTED += ("compaction commit", "note")
_PATIENCE = 300  # seconds until it comes to that
_LOCAL = """
import sys
sys.modules.update(pyspark=None, py4j=None)
from binlog_core.mirror import mirror
who = {}
"""
_SPARK = """
from binlog_core.spark import start_session
from binlog_core.spark.mirror import mirror
who = {"spark": start_session("local[2]")}
"""
_MIRROR = """
import json, sys
from phases import tell
tell(sys.argv[5])
print("ready", flush=True)
sys.stdin.readline()
mirror(sys.argv[1], sys.argv[2], tables=sys.argv[3], **who, **json.loads(sys.argv[4]))
"""
RUNNERS = {"local": (_LOCAL,), "spark": (_SPARK,), "both": (_LOCAL, _SPARK)}


def connect(port: int) -> Any:
    import pymysql

    return pymysql.connect(
        host="127.0.0.1", port=port, user="root", autocommit=True, database=DATABASE, charset="utf8mb4"
    )


def prepare(port: int) -> None:
    import pymysql

    plain = pymysql.connect(host="127.0.0.1", port=port, user="root")
    with closing(plain) as connection, connection.cursor() as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS {DATABASE}")
        cursor.execute(f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4")
    with closing(connect(port)) as connection, connection.cursor() as cursor:
        for name in TABLES:
            cursor.execute(create(name))
            for _ in range(5):
                rows = ", ".join(f"({random.randrange(10**6)}, 'row', 1.5, NOW(3))" for _ in range(400))
                cursor.execute(f"INSERT IGNORE INTO {name} (id, note, amount, at) VALUES {rows}")


def create(name: str) -> str:
    return f"CREATE TABLE {name} (id INT PRIMARY KEY, note VARCHAR(60), amount DECIMAL(12,2), at DATETIME(3))"


def write(port: int, number: int, stop: threading.Event) -> None:
    """One of the writers; it ignores statements that another writer has made impossible."""
    import pymysql

    chance = random.Random(number)
    with closing(connect(port)) as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION lock_wait_timeout = 5, innodb_lock_wait_timeout = 5")
        while not stop.is_set():
            with suppress(pymysql.MySQLError):
                if number == 0 and chance.random() < 0.03:
                    define(cursor, chance)
                else:
                    change(cursor, chance)
            stop.wait(0.05)


def change(cursor: Any, chance: random.Random) -> None:
    name, other = chance.sample(TABLES, 2)
    key, note = chance.randrange(10**6), f"{chance.choice(('ä', 'x', '日'))}{chance.randrange(1000)}"
    kind = chance.random()
    near = "ORDER BY id LIMIT 1"
    if kind < 0.4:
        values = f"{key}, '{note}', {key} / 7, NOW(3)"
        cursor.execute(f"INSERT INTO {name} (id, note, amount, at) VALUES ({values})")
    elif kind < 0.6:
        cursor.execute(f"UPDATE {name} SET note = '{note}', amount = amount + 1 WHERE id > {key} {near}")
    elif kind < 0.75:
        cursor.execute(f"DELETE FROM {name} WHERE id > {key} {near}")
    elif kind < 0.85:
        cursor.execute(f"UPDATE {name} SET id = {chance.randrange(10**6)} WHERE id > {key} {near}")
    else:
        cursor.execute("BEGIN")
        try:
            for table in (name, other):
                cursor.execute(f"REPLACE INTO {table} (id, note) VALUES ({key}, 'both')")
                cursor.execute(f"UPDATE {table} SET amount = 0 WHERE id < {key} LIMIT 20")
        finally:
            cursor.execute("ROLLBACK" if chance.random() < 0.1 else "COMMIT")


def define(cursor: Any, chance: random.Random) -> None:
    """Statements that change what the tables are."""
    name = chance.choice(TABLES)
    kind = chance.randrange(6)
    if kind == 0:
        cursor.execute(f"ALTER TABLE {name} ADD COLUMN extra{chance.randrange(3)} INT NOT NULL DEFAULT 5")
    elif kind == 1:
        cursor.execute(f"ALTER TABLE {name} DROP COLUMN extra{chance.randrange(3)}")
    elif kind == 2:
        cursor.execute("TRUNCATE TABLE events")
    elif kind == 3:
        later = f"later{chance.randrange(4)}"
        cursor.execute(f"DROP TABLE IF EXISTS {later}")
        cursor.execute(create(later))
        cursor.execute(f"INSERT INTO {later} SELECT id, note, amount, at FROM people LIMIT 50")
    elif kind == 4:
        cursor.execute(f"DROP TABLE IF EXISTS _{name}_gho, _{name}_del")
        cursor.execute(f"CREATE TABLE _{name}_gho LIKE {name}")
        cursor.execute(f"LOCK TABLES {name} WRITE, _{name}_gho WRITE")
        try:
            cursor.execute(f"INSERT INTO _{name}_gho SELECT * FROM {name}")
        finally:
            cursor.execute("UNLOCK TABLES")
        cursor.execute(f"RENAME TABLE {name} TO _{name}_del, _{name}_gho TO {name}")
    else:
        cursor.execute("FLUSH BINARY LOGS")


def form_of(lake: Path, form: str) -> Form:
    """How the lake's tables are read; Iceberg's catalog is beside the lake."""
    return FORMS[form](lake.parent)


def mirror(port: int, lake: Path, form: str, phases: Path, begin: str) -> subprocess.Popen[str]:
    """A process that mirrors when told to; `phases`: where it reports what it is doing."""
    pipe = subprocess.PIPE
    settings = json.dumps({**form_of(lake, form).settings, "history": True, "compact": 1})
    arguments = [f"mysql://root@127.0.0.1:{port}", str(lake), PATTERN, settings, str(phases)]
    here = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    return subprocess.Popen(
        [sys.executable, "-c", begin + _MIRROR, *arguments],
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        text=True,
        env=here,
    )


def told(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdout.readline()
    process.stdin.write("go\n")
    process.stdin.flush()


def differences(port: int, lake: Path, form: str = "delta") -> list[str]:
    """Tables that differ from a plain SELECT, compared by code that the mirror does not use."""
    from binlog_core.mirror import status

    wrong = []
    with closing(connect(port)) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW TABLES")
        names = [row[0] for row in cursor.fetchall()]
        places = {one.table.partition(".")[2]: Path(one.uri) for one in status(lake)}
        for name in names:
            cursor.execute(f"SELECT * FROM {name} ORDER BY id")
            columns = [column[0] for column in cursor.description]
            if name not in places:
                wrong.append(f"{name}: is not in the lake")
                continue
            here = form_of(lake, form).read(places[name]).select(columns).sort_by("id")
            mine = [tuple(row.values()) for row in here.to_pylist()]
            theirs = list(cursor.fetchall())
            if mine != theirs:
                wrong.append(f"{name}: {len(set(mine) ^ set(theirs))} rows of {len(theirs)}")
    return wrong


def history_differences(port: int, lake: Path, form: str) -> list[str]:
    """Tables whose history, replayed row by row, does not end with the rows of a plain SELECT."""
    from binlog_core.lake.tables.destination import directory_name

    wrong, columns = [], ("id", "note", "amount", "at")
    with closing(connect(port)) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW TABLES")
        for (name,) in list(cursor.fetchall()):
            changes: list[dict[str, Any]] = []
            for folder in (lake / "history").glob(directory_name(DATABASE, name) + "*"):
                if folder.name.partition(".v")[0] == directory_name(DATABASE, name):
                    changes += form_of(lake, form).read(folder).to_pylist()
            names = ("_commit_version", "_change_ordinal", "_change_type", "id")
            logged = [tuple(map(one.get, names)) for one in changes if one["_commit_timestamp"]]
            if doubled := len(logged) - len(set(logged)):
                wrong.append(f"{name}: {doubled} changes are there twice")
            rows: dict[int, tuple[Any, ...]] = {}
            for change in sorted(changes, key=lambda one: (one["_commit_version"], one["_change_ordinal"])):
                if change["_change_type"] in ("copy", "truncate", "drop"):
                    rows.clear()
                elif change["_change_type"] in ("delete", "update_preimage"):
                    rows.pop(change["id"], None)  # changes that came while it was copied may be in the copy
                elif change["_change_type"] in ("insert", "update_postimage"):
                    rows[change["id"]] = tuple(change[one] for one in columns)
            cursor.execute(f"SELECT {', '.join(columns)} FROM {name} ORDER BY id")
            theirs = list(cursor.fetchall())
            if sorted(rows.values()) != theirs:
                wrong.append(f"{name}: {len(set(rows.values()) ^ set(theirs))} rows of {len(theirs)}")
    return wrong


def soak(
    port: int, kills: int, longest: float, seed: int, lake: Path, form: str, runner: str = "local"
) -> int:
    random.seed(seed)
    prepare(port)
    stop = threading.Event()
    writers = [threading.Thread(target=write, args=(port, n, stop), daemon=True) for n in range(8)]
    for writer in writers:
        writer.start()
    killed_in: Counter[str] = Counter()
    told_in = [lake.parent / "even", lake.parent / "odd"]
    begins = RUNNERS[runner]
    following = mirror(port, lake, form, told_in[0], begins[0]) if kills else None
    for kill in range(kills):
        running, following, phases = following, None, told_in[kill % 2]
        if kill + 1 < kills:
            begin = begins[(kill + 1) % len(begins)]
            following = mirror(port, lake, form, told_in[(kill + 1) % 2], begin)  # made ready meanwhile
        assert running is not None
        told(running)
        wanted = None if kill % 4 == 3 else WANTED[(kill - kill // 4) % len(WANTED)]
        wait_for_kill(running, phases, wanted, longest)
        if running.poll() is not None:
            print(f"kill {kill}: it had ended with {running.returncode}: {running.communicate()[1][-3000:]}")
            return 1
        running.send_signal(signal.SIGKILL)
        running.communicate()
        killed_in[phase(phases)] += 1
        print(f"kill {kill + 1} in {phase(phases)}: {stages(lake)}", flush=True)
    if kills:
        print(
            "killed in:", ", ".join(f"{what} {count}" for what, count in killed_in.most_common()), flush=True
        )
    if not kills:
        time.sleep(2)
        command(port, lake, "run", form)
        found = verified(lake)
        meanwhile = [f"{one['table']}: {one['reason']}" for one in found if one["reason"]]
        differ = [one for one in found if one["differ"]]
        print(
            f"verify beside the writers: {len(found)} tables; {', '.join(meanwhile) or 'none changed'}",
            *differ,
        )
        if differ or not found:
            return 1
    stop.set()
    for writer in writers:
        writer.join()
    return proved(port, lake, form, history=kills > 0)


def verified(lake: Path) -> list[dict[str, Any]]:
    """What ``verify`` says about each table."""
    program = [sys.executable, "-m", "binlog_core.cli", "mirror", "verify", str(lake), "--json"]
    found = subprocess.run(program, stdout=subprocess.PIPE).stdout.splitlines()
    return [json.loads(line) for line in found]


def proved(port: int, lake: Path, form: str, *, history: bool) -> int:
    """Whether the lake equals the server, ``verify`` agrees, and it names rows that are changed by hand."""
    if command(port, lake, "run", form, history=history):
        return 1
    command(port, lake, "status")
    wrong = differences(port, lake, form)
    print(f"not as SELECT has them: {', '.join(wrong) or 'none'}", flush=True)
    if history:
        past = history_differences(port, lake, form)
        print(f"histories that lead to other rows: {', '.join(past) or 'none'}", flush=True)
        wrong += past
    if wrong or command(port, lake, "verify"):
        return 1
    people, made = lake / f"{DATABASE}.people", form_of(lake, form)
    key, gone, *_ = sorted(made.read(people)["id"].to_pylist())
    made.spoil(people, key, gone, "note")
    print(f"the note of people {key} is changed by hand, and {gone} is deleted", flush=True)
    told = [one for one in verified(lake) if not one["agrees"]]
    print(*told, flush=True)
    whose = [(one["table"], one["changed"], one["missing"], one["extra"], one["reason"]) for one in told]
    return 0 if whose == [(f"{DATABASE}.people", [{"id": key}], [{"id": gone}], [], None)] else 1


def wait_for_kill(running: subprocess.Popen[str], phases: Path, wanted: str | None, longest: float) -> None:
    """Wait for a random moment, or for one after the wanted phase began; a commit takes only milliseconds."""
    if wanted is None:
        time.sleep(random.random() * longest)
        return
    end = time.monotonic() + _PATIENCE
    while phase(phases) != wanted and running.poll() is None and time.monotonic() < end:
        time.sleep(0.001)
    time.sleep(10 ** random.uniform(-4, -2 if wanted.endswith(("commit", "note")) else 0))


def stages(lake: Path) -> str:
    from binlog_core import MirrorError
    from binlog_core.mirror import status

    with suppress(MirrorError):
        found = status(lake)
        return ", ".join(f"{one.table.partition('.')[2]} {one.stage} {one.rows}" for one in found)
    return "nothing yet"


def command(port: int, lake: Path, name: str, form: str = "delta", *, history: bool = False) -> int:
    """Run ``binlog-core mirror`` as a user does."""
    arguments = [name, str(lake)]
    if name == "run":
        arguments = [f"mysql://root@127.0.0.1:{port}", str(lake), "--tables", PATTERN, "--until", "now"]
        settings = form_of(lake, form).settings
        arguments += ["--format", settings["format"], "--deletes", settings.get("deletes", "copy")]
        for one in settings.get("catalog", {}).items():
            arguments += ["--catalog", "=".join(one)]
        arguments += ["--history"] * history
    print("$ binlog-core mirror", *arguments, flush=True)
    return subprocess.run([sys.executable, "-m", "binlog_core.cli", "mirror", *arguments]).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--longest", type=float, default=20, help="seconds that a mirror may live")
    parser.add_argument("--seed", type=int, default=16)
    parser.add_argument("--port", type=int)
    parser.add_argument("--format", choices=tuple(FORMS), default="delta")
    parser.add_argument("--runner", choices=tuple(RUNNERS), default="local")
    parser.add_argument("--keep", type=Path, help="folder of the lake")
    arguments = parser.parse_args()
    os.environ.setdefault("PYTHONSAFEPATH", "1")
    with tempfile.TemporaryDirectory(prefix="mirrored") as name:
        lake = (arguments.keep or Path(name) / "lake").absolute()
        with port_of(arguments.port) as port:
            return soak(
                port,
                arguments.kills,
                arguments.longest,
                arguments.seed,
                lake,
                arguments.format,
                arguments.runner,
            )


if __name__ == "__main__":
    sys.exit(main())
