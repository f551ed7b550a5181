"""Prove the commands about the hubs of a cluster, against two hubs of ours: list, show, drain, undrain."""

import asyncio
import shlex
import signal
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from kazoo.client import KazooClient

from hedwig.cli.commands.hub.group import hub as hub_group
from hedwig.cli.dev.servers.bookkeeper import LEDGERS_ROOT
from hedwig.cli.output.format_names import FORMATS
from hedwig.exit_codes import ExitCode
from hedwig.metadata import format_metadata
from hedwig.model import SubscriberId
from hedwig.status import StatusCode
from hedwig.wire import Subscribe
from tests.cli.support.admin import Admin, wait_until
from tests.cli.support.agreement import check_agreement
from tests.cli.support.screen import shown_on_terminal
from tests.hub.support.admin_client import AdminClient
from tests.hub.support.running import RunningHub
from tests.hub.support.wire_channel import WireChannel
from tests.support.servers import RunningServers

SESSION_S: Final = 4


class Pair:
    """Two hubs of one deployment. `admin` is hedwig-admin, which knows only their cluster."""

    def __init__(self, servers: RunningServers, directory: Path, *settings: str) -> None:
        zookeeper = servers.address("zookeeper")
        servers.address("bookkeeper")
        self.zookeeper = zookeeper
        self.prefix = f"/hedwig/{uuid.uuid4().hex}"
        self.cluster = f"zookeeper://{zookeeper}{self.prefix}"
        asyncio.run(format_metadata(self.cluster))
        given = (
            f"metadata={self.cluster}",
            f"cluster.zookeeper={self.cluster}",
            f"cluster.session_timeout_s={SESSION_S}",
            f"bookkeeper.zookeeper=zookeeper://{zookeeper}{LEDGERS_ROOT}",
            *settings,
        )
        self.hubs = [RunningHub(directory / name, *given) for name in ("one", "other")]
        self.admin = Admin(directory, "")
        self.admin.environment |= {"HEDWIG_CLUSTER": self.cluster}

    def __enter__(self) -> "Pair":
        for hub in self.hubs:
            hub.start()
        one = AdminClient(self.hubs[0].admin)
        wait_until(lambda: one.get("/drain")["other_hubs"] == 1, "the hubs know each other")
        return self

    def __exit__(self, *_: object) -> None:
        for hub in self.hubs:
            hub.kill()

    def own(self, hub: RunningHub, count: int) -> None:
        """Let a hub claim N topics."""

        async def ask() -> None:
            async with await WireChannel.open(hub.port) as channel:
                for number in range(count):
                    topic = b"%s of %d" % (str(number).encode(), hub.port)
                    txn_id = await channel.send(topic, Subscribe(subscriber=SubscriberId(b"somebody")))
                    assert (await channel.answer(txn_id)).status is StatusCode.SUCCESS

        asyncio.run(ask())


@pytest.fixture(scope="module")
def pair(servers: RunningServers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Two hubs, not drained, for all tests that do not end them."""
    with Pair(servers, tmp_path_factory.mktemp("pair")) as started:
        yield started


def _rows(pair: Pair) -> dict[str, Any]:
    return {row["hub"]: row for row in pair.admin.done("hub", "list", "-o", "json").json["hubs"]}


def test_list_shows_the_hubs_that_are_alive(pair: Pair) -> None:
    one, other = pair.hubs
    pair.own(one, 5)
    rows = wait_until(lambda: (rows := _rows(pair))[one.address]["topics"] >= 5 and rows, "the load is announced")
    assert set(rows) == {one.address, other.address}
    assert rows[one.address]["admin"] == one.admin
    assert rows[other.address]["state"] == "serving"
    assert rows[one.address]["epoch"] != rows[other.address]["epoch"]
    table = pair.admin.done("hub", "list").out.splitlines()
    assert table[0].split() == ["HUB", "STATE", "TOPICS", "ADMIN"]
    assert {line.split()[0] for line in table[1:]} == set(rows)


def test_topics_are_those_whose_owner_record_names_the_hub(pair: Pair) -> None:
    one = pair.hubs[0]
    pair.own(one, 5)
    where = ("--metadata", pair.cluster, "-o", "ndjson", "--all")
    found = {hub.address: pair.admin.done("hub", "topics", hub.address, *where).rows for hub in pair.hubs}
    epochs = {name: row["epoch"] for name, row in _rows(pair).items()}
    for address, rows in found.items():
        assert {(row["hub"], row["epoch"]) for row in rows} <= {(address, epochs[address])}
    topics = [{row["topic"] for row in rows} for rows in found.values()]
    assert {f"{number} of {one.port}" for number in range(5)} <= topics[0]
    assert topics[0].isdisjoint(topics[1])


def test_list_is_cut_and_goes_on_as_all_listings(pair: Pair) -> None:
    first, second = sorted(hub.address for hub in pair.hubs)
    cut = pair.admin.done("hub", "list", "--limit", "1", "-o", "json").json
    assert [row["hub"] for row in cut["hubs"]] == [first]
    rest = pair.admin.done("hub", "list", "--page-token", cut["next_page_token"], "-o", "json").json
    assert ([row["hub"] for row in rest["hubs"]], rest["next_page_token"]) == ([second], None)
    assert [row["hub"] for row in pair.admin.done("hub", "list", "--prefix", second, "-o", "ndjson").rows] == [second]
    assert pair.admin.done("hub", "list", "--start-after", second, "-o", "ndjson").rows == []


def test_tables_of_hubs_fit_a_terminal(pair: Pair) -> None:
    for command in ("list", "load"):
        header = shown_on_terminal(pair.admin, "hub", command).splitlines()[0]
        assert "…" not in header, header


def test_cluster_is_where_the_metadata_are_if_that_is_a_zookeeper(pair: Pair) -> None:
    listed = pair.admin.run("hub", "list", "-o", "json", HEDWIG_CLUSTER="", HEDWIG_METADATA=pair.cluster)
    assert {row["hub"] for row in listed.json["hubs"]} == {hub.address for hub in pair.hubs}
    given = pair.admin.run("hub", "list", "-o", "ndjson", "--cluster", pair.cluster, HEDWIG_CLUSTER="nonsense")
    assert {row["hub"] for row in given.rows} == {hub.address for hub in pair.hubs}


def test_show_tells_what_a_hub_has_to_do(pair: Pair) -> None:
    one = pair.hubs[0]
    pair.own(one, 5)
    shown = pair.admin.done("hub", "show", one.address, "-o", "json").json
    assert (shown["hub"], shown["admin"], shown["state"], shown["hindrances"]) == (
        one.address,
        one.admin,
        "serving",
        [],
    )
    assert shown["topics"] >= 5
    assert shown["uptime_s"] > 0
    assert pair.admin.done("hub", "show", f"{one.address}:-1", "-o", "json").json["hub"] == one.address


def test_drain_empties_a_hub_and_undrain_lets_it_take_topics_again(pair: Pair) -> None:
    one, other = pair.hubs
    pair.own(one, 20)
    pair.own(other, 3)
    planned = pair.admin.done("hub", "drain", one.address, "--wait", "--dry-run", "-o", "json").json
    assert planned == {"hub": one.address, "result": "would drain", "state": "serving", "topics": 20}
    assert not AdminClient(one.admin).get("/drain")["draining"]
    drained = pair.admin.done("hub", "drain", one.address, "--wait", "-o", "json").json
    assert drained == {"hub": one.address, "state": "drained", "topics": 0}
    wait_until(lambda: _rows(pair)[one.address]["state"] == "draining", "it announces that it is drained")
    assert _rows(pair)[one.address]["topics"] is None
    assert pair.admin.done("hub", "show", one.address, "-o", "json").json["state"] == "drained"
    drain = AdminClient(other.admin).get("/drain")
    assert (drain["draining"], drain["topics"]) == (False, 3)
    # A second drain changes nothing.
    assert pair.admin.done("hub", "drain", one.address, "-o", "json").json == drained
    assert pair.admin.done("hub", "undrain", one.address, "-o", "json").json == drained | {"state": "serving"}
    wait_until(lambda: _rows(pair)[one.address]["state"] == "serving", "it announces that it serves")
    pair.own(one, 2)


@pytest.mark.parametrize("path", [("hub", name) for name in hub_group.commands], ids=" ".join)
def test_example_runs(pair: Pair, path: tuple[str, str]) -> None:
    command = hub_group.commands[path[1]]
    example = (command.epilog or "").removeprefix("Example: hedwig-admin ")
    assert example.startswith("hub ")
    here = example.replace("zookeeper://127.0.0.1:2181/hedwig/standalone", pair.cluster)
    here = here.replace("127.0.0.1:4080", pair.hubs[1].address)
    assert pair.admin.done(*shlex.split(here)).out
    pair.admin.done("hub", "undrain", pair.hubs[1].address)


@pytest.mark.parametrize("arguments", [("list",), ("load",), ("show", "ONE")], ids=lambda words: words[0])
def test_formats_agree(pair: Pair, arguments: tuple[str, ...]) -> None:
    words = [pair.hubs[0].address if word == "ONE" else word for word in arguments]
    check_agreement({output: pair.admin.done("hub", *words, "-o", output).out for output in FORMATS})


def test_shells_complete_the_hubs_that_are_alive(pair: Pair) -> None:
    ran = pair.admin.run_apart(
        _HEDWIG_ADMIN_COMPLETE="bash_complete",
        COMP_WORDS="hedwig-admin hub show 127",
        COMP_CWORD="3",
        program=(
            sys.executable,
            "-c",
            "import sys; sys.argv[0] = 'hedwig-admin'; from hedwig.cli.main import main; main()",
        ),
    )
    assert ran.out.split() == sorted(f"plain,{hub.address}" for hub in pair.hubs)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("hub", "show", "127.0.0.1:1"), 3, ["127.0.0.1:1", "hedwig-admin hub list"]),
        (("hub", "drain", "nonsense"), 3, ["nonsense", "hedwig-admin hub list"]),
        (("hub", "drain", "ONE", "--within", "3"), 2, ["--wait"]),
        (("hub", "list", "--cluster", "127.0.0.1:2181"), 2, ["zookeeper://host:2181/hedwig/REGION"]),
        (("hub", "list", "--cluster", "hbase://127.0.0.1:2181/x"), 2, ["zookeeper://host:2181/hedwig/REGION"]),
        (("hub", "list", "--cluster", "zookeeper://127.0.0.1:1/hedwig/x", "--timeout", "1"), 6, ["127.0.0.1:1"]),
        (("hub", "list", "--columns", "colour"), 2, ["colour", "topics"]),
        (("hub", "undrain", "ONE", "--admin", "127.0.0.1:1"), 6, ["127.0.0.1:1", "--admin HOST:PORT"]),
        (("hub", "undrain", "ONE", "--admin", "OTHER-ADMIN"), 1, ["OTHER", "--admin HOST:PORT"]),
        (("hub", "undrain", "ONE", "--admin", "OTHER"), 6, ["OTHER", "the port for clients"]),
        (("hub", "show"), 2, ["Give HUB", "hedwig-admin hub list"]),
        (("hub", "load", "--admin", "OTHER-ADMIN"), 2, ["--admin goes with HUB"]),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, tuple) else "",
)
def test_error_is_one_line_on_standard_error(
    pair: Pair, arguments: tuple[str, ...], code: int, words: list[str]
) -> None:
    one, other = pair.hubs
    names = {"ONE": one.address, "OTHER-ADMIN": other.admin, "OTHER": other.address}
    ran = pair.admin.run(*(names.get(word, word) for word in arguments))
    assert (ran.code, ran.out) == (code, "")
    assert len(ran.err.splitlines()) == 1, ran.err
    assert ran.err.startswith("error: ")
    for word in words:
        assert names.get(word, word) in ran.err


def test_nothing_is_listed_where_no_cluster_is_named_or_no_hub_registered(pair: Pair) -> None:
    unnamed = pair.admin.run("hub", "list", HEDWIG_CLUSTER="", HEDWIG_METADATA="")
    assert unnamed.code == ExitCode.USAGE
    assert "--cluster" in unnamed.err
    empty = pair.admin.done("hub", "list", "-o", "json", "--cluster", f"{pair.cluster}/nobody").json
    assert empty["hubs"] == []


def test_hub_without_an_admin_endpoint_is_listed_and_cannot_be_drained(pair: Pair) -> None:
    """Like an original hub, which announces its host node only."""
    raw = KazooClient(pair.zookeeper)
    raw.start(30)
    try:
        raw.create(f"{pair.prefix}/hosts/127.0.0.1:9:-1", b"numTopics: 7\n", ephemeral=True)
        row = _rows(pair)["127.0.0.1:9"]
        assert (row["topics"], row["admin"]) == (7, None)
        ran = pair.admin.run("hub", "drain", "127.0.0.1:9")
        assert ran.code == ExitCode.FAILED
        assert "announces no admin endpoint" in ran.err
        raw.delete(f"{pair.prefix}/hosts/127.0.0.1:9:-1")
    finally:
        raw.stop()
        raw.close()


def test_wait_can_be_ended_and_the_drain_goes_on(servers: RunningServers, tmp_path: Path) -> None:
    with Pair(servers, tmp_path, "cluster.drain_rate=10") as pair:
        one = pair.hubs[0]
        pair.own(one, 60)
        late = pair.admin.run("hub", "drain", one.address, "--wait", "--within", "0.5")
        assert late.code == ExitCode.OUTCOME_UNKNOWN
        assert "topics left after 0.5 s; the drain goes on" in late.err
        waiting = pair.admin.start("hub", "drain", one.address, "--wait")
        try:
            assert waiting.stderr is not None
            assert b"topics left" in waiting.stderr.readline()
            waiting.send_signal(signal.SIGINT)
            out, err = waiting.communicate(timeout=30)
        finally:
            waiting.kill()
        assert waiting.returncode == ExitCode.INTERRUPTED
        assert out == b""
        assert b"left; the drain goes on" in err
        wait_until(lambda: AdminClient(one.admin).get("/drain")["topics"] == 0, "the drain goes on")
