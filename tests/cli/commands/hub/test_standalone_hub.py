"""Prove the commands about hubs where there is no cluster: they ask the standalone hub at its admin endpoint."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from hedwig.cli.output.format_names import FORMATS
from hedwig.exit_codes import ExitCode
from tests.cli.support.admin import Admin, Ran
from tests.cli.support.agreement import check_agreement
from tests.cli.support.hub_and_admin import HubAndAdmin
from tests.cli.support.terminal import COLUMNS, Terminal
from tests.support.servers import RunningServers

_HOST = "127.0.91.7"
"""An address of loopback that nobody else uses, so that the admin endpoint can have its usual port."""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubAndAdmin]:
    """A hub with its admin endpoint at the usual port, and hedwig-admin, which knows only its store."""
    settings = (f"host={_HOST}", f"admin_host={_HOST}", "admin_port=4081")
    with HubAndAdmin(tmp_path_factory.mktemp("standalone"), *settings) as started:
        started.admin.environment |= {"HEDWIG_ADMIN": "", "HEDWIG_HUB": started.hub.address}
        started.publish("news", b"hello")
        yield started


@pytest.fixture
def elsewhere(both: HubAndAdmin, admin: Admin) -> Admin:
    """hedwig-admin on an empty store, which knows no hub."""
    admin.environment |= {"HEDWIG_CLUSTER": "", "HEDWIG_ADMIN": ""}
    return admin


def _refused(ran: Ran, code: int, *words: str) -> None:
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (code, "", 1), ran
    for word in words:
        assert word in ran.err


@pytest.mark.parametrize("named", [False, True], ids=["alone", "named"])
def test_the_hub_of_the_store_is_shown(both: HubAndAdmin, named: bool) -> None:
    words = [both.hub.address] if named else []
    shown = both.admin.done("hub", "show", *words, "-o", "json").json
    assert (shown["hub"], shown["state"], shown["admin"], shown["epoch"], shown["ssl_port"]) == (
        both.hub.address,
        "serving",
        f"{_HOST}:4081",
        1,
        None,
    )
    assert (shown["topics"], shown["hindrances"]) == (1, [])
    (load,) = both.admin.done("hub", "load", *words, "-o", "ndjson").rows
    assert (load["hub"], load["topics"]) == (both.hub.address, 1)


@pytest.mark.parametrize("command", ["show", "load"])
def test_the_hub_is_asked_where_it_was_said(both: HubAndAdmin, elsewhere: Admin, command: str) -> None:
    by_variable = elsewhere.run("hub", command, "-o", "ndjson", HEDWIG_ADMIN=both.hub.admin)
    by_flag = elsewhere.run(
        "hub", command, both.hub.address, "-o", "ndjson", "--admin", both.hub.admin, HEDWIG_ADMIN="127.0.0.1:1"
    )
    assert [row["hub"] for row in by_variable.rows + by_flag.rows] == [both.hub.address] * 2
    assert not (elsewhere.directory / "store.db").exists(), "no store is asked for that"


def test_formats_agree(both: HubAndAdmin) -> None:
    check_agreement({output: both.admin.done("hub", "load", "-o", output).out for output in FORMATS})


@pytest.mark.parametrize("command", ["show", "load", "drain", "undrain"])
def test_what_is_wrong_is_said_in_words(both: HubAndAdmin, elsewhere: Admin, command: str) -> None:
    name = both.hub.address
    elsewhere.done("metadata", "format")
    _refused(elsewhere.run("hub", command, name), ExitCode.NOT_FOUND, "no hub is known", "--admin HOST:PORT")
    _refused(both.admin.run("hub", command, "127.0.0.1:1"), ExitCode.NOT_FOUND, name, "'127.0.0.1:1'", "--cluster")
    other = both.admin.run("hub", command, "127.0.0.1:1", "--admin", both.hub.admin)
    _refused(other, ExitCode.FAILED, f"what answers at {both.hub.admin} is hub {name}")
    silent = both.admin.run("hub", command, name, "--admin", "127.0.0.1:1")
    _refused(silent, ExitCode.UNAVAILABLE, "127.0.0.1:1", "Connection refused")
    clients = both.admin.run("hub", command, name, "--admin", name)
    _refused(clients, ExitCode.UNAVAILABLE, name, "is the port for clients", "--admin HOST:PORT")


def test_what_needs_other_hubs_says_so(both: HubAndAdmin) -> None:
    for command in ("drain", "undrain"):
        ran = both.admin.run("hub", command, both.hub.address)
        _refused(ran, ExitCode.FAILED, "a standalone hub cannot be drained: there is no other to take its topics")
    ran = both.admin.run("hub", "list")
    _refused(ran, ExitCode.USAGE, "no cluster was named", "--cluster", "hedwig-admin hub show")


def test_store_in_zookeeper_may_serve_a_standalone_hub(servers: RunningServers, tmp_path: Path) -> None:
    """hedwig-admin takes such a store for its own cluster, in which that hub is not registered."""
    url = f"zookeeper://{servers.address('zookeeper')}/hedwig/{uuid.uuid4().hex}"
    Admin(tmp_path, url).done("metadata", "format")
    with HubAndAdmin(tmp_path, f"metadata={url}") as started:
        started.admin.environment |= {"HEDWIG_METADATA": url}
        for words in (("hub", "show"), ("hub", "show", started.hub.address), ("hub", "load")):
            (row,) = started.admin.done(*words, "-o", "ndjson").rows
            assert row["hub"] == started.hub.address
        assert started.admin.done("hub", "list", "-o", "ndjson").rows == []
        nobody = started.admin.run("hub", "show", "--cluster", url)
        _refused(nobody, ExitCode.USAGE, "Give HUB")


@pytest.mark.parametrize("command", ["show", "load", "drain", "undrain"])
def test_help_names_the_variable(admin: Admin, command: str) -> None:
    assert "HEDWIG_ADMIN" in admin.done("hub", command, "--help").out


def test_way_that_leads_to_no_admin_endpoint_is_named(both: HubAndAdmin) -> None:
    words = ("topic", "stats", "news", "--over", "0", "--admin")
    clients = both.admin.done(*words, both.hub.address)
    assert "the port for clients" in clients.err
    assert "Connection refused" in both.admin.done(*words, "127.0.0.1:1").err
    ran = both.admin.run("topic", "delete", "news", "--force", "--yes", "--admin", both.hub.address)
    _refused(ran, ExitCode.UNAVAILABLE, "the port for clients")


def test_top_says_why_a_hub_is_silent_in_one_line_of_the_terminal(both: HubAndAdmin) -> None:
    (row,) = both.admin.done("top", "--count", "1", "--admin", "127.0.0.1:1").rows
    assert (row["state"], row["why"]) == ("silent", "Connection refused at its admin endpoint 127.0.0.1:1")
    with Terminal(both.admin, "top", "--every", "0.5", HEDWIG_ADMIN="127.0.0.1:1") as terminal:
        screen = terminal.wait_for_line("Connection refused")
        (line,) = (line for line in screen if "Connection refused" in line)
        assert len(line) < COLUMNS
        assert "…" not in line
        assert line.count("127.0.0.1:1") == 1
        terminal.press("q")
        terminal.wait_for_line("ended 0")
