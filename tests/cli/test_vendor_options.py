"""What users of mysqlbinlog type is answered with what does the same here."""

from __future__ import annotations

import itertools
import re

import pytest
from support.golden import DATA

pytest.importorskip("typer")
pytest.importorskip("rich")

from support.cli import run

from binlog_core.cli import app as application
from binlog_core.cli.vendor_options import _ANSWERS

LOG = DATA / "mysql97" / "gtid.binlog"


# What `--help` of mysqlbinlog 9.7 and of mariadb-binlog 10.11 and 11.8 lists.
OPTIONS = re.findall(
    r"\S+",
    """
    -# -? -B -C -D -F -H -P -R -S -T -V -c -d -f -h -i -j -l -o -p -r -s -t -u -v --base64-output
    --bind-address --binlog-row-event-max-size --character-sets-dir --compress --compression-algorithms
    --connection-server-id --database --debug --debug-check --debug-info --default-auth
    --disable-log-bin --do-domain-ids --do-server-ids --exclude-gtids --flashback --force-if-open
    --force-read --get-server-public-key --gtid-strict-mode --help --hexdump --host --idempotent
    --ignore-domain-ids --ignore-server-ids --include-gtids --local-load --offset --open-files-limit
    --password --plugin-dir --port --print-row-count --print-row-event-positions --print-table-metadata
    --protocol --raw --read-from-remote-master --read-from-remote-server --read-from-remote-source
    --require-row-format --result-file --rewrite-db --server-id --server-id-bits
    --server-public-key-path --set-charset --short-form --skip-annotate-row-events --skip-gtids --socket
    --ssl --ssl-ca --ssl-capath --ssl-cert --ssl-cipher --ssl-crl --ssl-crlpath --ssl-fips-mode --ssl-fp
    --ssl-fplist --ssl-key --ssl-mode --ssl-session-data --ssl-session-data-continue-on-failed-reuse
    --ssl-verify-server-cert --start-datetime --start-position --stop-datetime --stop-never
    --stop-never-slave-server-id --stop-position --table --tls-ciphersuites --tls-sni-servername
    --tls-version --to-last-log --user --verbose --verify-binlog-checksum --version
    --zstd-compression-level
    """,
)


@pytest.mark.parametrize("command", ["rows", "events", "transactions", "undo"])
def test_every_option_of_mysqlbinlog_exists_or_is_answered(command: str) -> None:
    known = {name for one in application.command(command).params for name in one.opts} | {"--help", "-h"}
    assert len(OPTIONS) > 90
    for option in set(OPTIONS) - known:
        ran = run(command, LOG, option)
        told = re.sub(r"[│\s]+", " ", ran.err)
        assert (ran.code, f"{option} is mysqlbinlog's: " in told) == (2, True), (option, told)


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (("events", "-R", "-h", "db1", "mysql-bin.000042"), "in place of files: mysql://user@host"),
        (("events", "--read-from-remote-server", LOG), "in place of files: mysql://user@host"),
        (("rows", LOG, "--raw"), "binlog-core archive SERVER FOLDER"),
        (("events", LOG, "--base64-output=decode-rows", "-vv"), "binlog-core rows -v"),
        (("rows", LOG, "--skip-gtids"), "never set a GTID"),
        (("events", LOG, "--hexdump"), "has each event's bytes"),
        (("rows", LOG, "--idempotent"), "undo --check"),
        (("rows", LOG, "--disable-log-bin"), "SET sql_log_bin = 0"),
    ],
)
def test_an_option_of_mysqlbinlog_is_answered(arguments: tuple[object, ...], answer: str) -> None:
    ran = run(*arguments)
    assert ran.code == 2
    assert answer in re.sub(r"[│\s]+", " ", ran.err)


def test_json_by_the_name_that_it_has_in_another_command() -> None:
    for command, option, answer in (
        ("transactions", "--json", "-f jsonl writes JSON lines"),
        ("rows", "--json", "-f jsonl writes JSON lines"),
        ("info", "--format=jsonl", "--json writes JSON"),
        ("verify", "-fjsonl", "JSON comes with --json where a command has it"),
    ):
        ran = run(command, LOG, option)
        assert (ran.code, answer in re.sub(r"[│\s]+", " ", ran.err)) == (2, True), ran.err


def test_other_options_are_not() -> None:
    ran = run("rows", LOG, "--nothing-like-it")
    assert (ran.code, "No such option: --nothing-like-it" in ran.err) == (2, True)


def test_options_that_are_the_same_work() -> None:
    assert run("rows", "-vv", LOG).code == 0
    assert run("rows", LOG, "--start-position", "4", "-d", "shop").code == 0


def test_no_answer_hides_an_option() -> None:
    """Those that a command has are not answered, and the answers name options and commands that exist."""
    commands = {name: application.command(name) for name in application.COMMANDS}
    known = {name for one in commands.values() for option in one.params for name in option.opts}
    everywhere = set.intersection(
        *({n for o in one.params for n in o.opts} for one in commands.values() if one.params)
    )
    assert not everywhere & set(_ANSWERS)
    for answer in _ANSWERS.values():
        assert set(re.findall(r"--[a-z][a-z-]+", answer)) <= known | {"--version", "--help"}, answer
        for name in re.findall(r"binlog-core (\w+)", answer):
            assert name in commands, answer


@pytest.mark.parametrize("command", ["rows", "undo", "history"])
def test_help_at_80_columns(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Options are in panels by subject, and a paragraph is wrapped once."""
    monkeypatch.setenv("COLUMNS", "80")
    text = run(command, "--help").text
    panels = re.findall(r"^╭─ ([^─]+) ─", text, re.MULTILINE)
    assert len(panels) == len(set(panels))
    if command != "history":
        assert {"Options", "Reading", "Which changes", "Which part of the logs"} <= set(panels)
    prose = text.partition("Examples:")[0].splitlines()
    for line, after in itertools.pairwise(prose):
        if line.strip() and after.strip() and not line.lstrip().startswith("Usage"):
            assert len(line.rstrip()) + len(after.split()[0]) >= 80 - 2, (line, after)
