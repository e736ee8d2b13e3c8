"""A server as what `open` reads, in place of files."""

import pytest

import binlog_core


@pytest.mark.parametrize(
    "arguments", [{"mmap": True}, {"keys": "keyring"}, {"storage_options": {"anon": True}}], ids=str
)
def test_what_is_for_files_is_refused_with_a_server(arguments):
    with pytest.raises(ValueError, match="are for files"):
        binlog_core.open("mysql://db1", **arguments)


@pytest.mark.parametrize(
    "place", ["never", 4, ("bin.000001", -1), ("bin.000001", "4"), ("bin.000001", 1 << 63)]
)
def test_what_is_not_a_place_on_a_server_says_so(place):
    for argument in ("start", "stop"):
        with pytest.raises(TypeError, match=f"{argument}=.*a server takes"):
            binlog_core.open("mysql://db1", **{argument: place})


def test_a_server_among_logs_is_refused() -> None:
    with pytest.raises(ValueError, match="together with other logs"):
        binlog_core.open(["mysql://repl:s3cret@db1", "bin.000001"])
