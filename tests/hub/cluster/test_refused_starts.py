"""Prove which error a hub of a cluster reports when it cannot start, and its exit code."""

import asyncio
import signal
import uuid

import pytest
from kazoo.client import KazooClient

from hedwig.cli.dev.servers.bookkeeper import LEDGERS_ROOT
from hedwig.exit_codes import ExitCode
from hedwig.hub.main import main
from hedwig.status import StatusCode
from hedwig.wire import Message, Publish
from tests.faults.support.waiting import until
from tests.hub.cluster.support.both import on_both_ledgers, on_per_topic
from tests.hub.cluster.support.deployment import Deployment
from tests.hub.cluster.test_one_owner import is_owner
from tests.hub.support.admin_client import AdminClient
from tests.hub.support.running import RunningHub

_NOBODY = "127.0.0.1:1"
_HIGH_IDS = 1 << 30
_IMPATIENT = ("operation_timeout_s=1", "cluster.session_timeout_s=1")


async def _refusal(hub: RunningHub) -> tuple[int, str]:
    """Return the exit code and the last line of a hub that must not start."""
    hub.begin()
    code = await asyncio.to_thread(hub.wait)
    assert "Traceback" not in hub.log, hub.log
    assert "serving" not in hub.log
    return code, hub.log.splitlines()[-1]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (("metadata=",), ("metadata", "hbase://", "not of a file")),
        (("metadata=sqlite:////tmp/x.db",), ("metadata", "hbase://", "not of a file")),
        (("cluster.zookeeper=",), ("bookkeeper.zookeeper", "cluster.zookeeper")),
        (("cluster.zookeeper=127.0.0.1:2181",), ("cluster.zookeeper", "zookeeper://host:2181/path")),
        (("cluster.zookeeper=zookeeper://127.0.0.1:2181",), ("cluster.zookeeper", "zookeeper://host:2181/path")),
        (("cluster.zookeeper=zookeeper://127.0.0.1:2181/zookeeper/x",), ("cluster.zookeeper", "/zookeeper/x")),
        (("cluster.zookeeper=zookeeper://127.0.0.1:2181/a//b",), ("cluster.zookeeper", "/a//b")),
        (("cluster.zookeeper=zookeeper://127.0.0.1:99999/a",), ("cluster.zookeeper", "zookeeper://host:2181/path")),
        (("cluster.zookeeper=hbase://127.0.0.1:2181/hedwig",), ("cluster.zookeeper", "zookeeper://host:2181/path")),
        (("bookkeeper.zookeeper=/ledgers",), ("bookkeeper.zookeeper", "zookeeper://host:2181/path")),
        (("bookkeeper.ack_quorum=4",), ("ack_quorum 4", "none may be larger")),
        (("bookkeeper.compat=4.2",), ("compat", "4.3 or empty")),
        (("bookkeeper.ledgers=shared",), ("operation_timeout_s is 1;", "4 s or more")),
        (("bookkeeper.ledgers=shared", "bookkeeper.compat=4.3"), ("shared logs", "per-topic")),
        (("cluster.placement=best",), ("placement", "load or uniform")),
        (("cluster.session_timeout_s=0.5",), ("session_timeout_s",)),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_options_that_cannot_go_together_are_refused(
    capsys: pytest.CaptureFixture[str], settings: tuple[str, ...], words: tuple[str, ...]
) -> None:
    """The hub refuses them before it opens anything, so this needs no server."""
    given = {
        "metadata": f"zookeeper://{_NOBODY}/hedwig/x",
        "cluster.zookeeper": f"zookeeper://{_NOBODY}/hedwig/x",
        "bookkeeper.zookeeper": f"zookeeper://{_NOBODY}/ledgers",
        "operation_timeout_s": "1",
        **dict([setting.split("=", 1) for setting in settings]),
    }
    with pytest.raises(SystemExit) as ended:
        main([word for key, value in given.items() for word in ("--set", f"{key}={value}")])
    (line,) = capsys.readouterr().err.splitlines()
    assert (ended.value.code, line.partition(":")[0]) == (ExitCode.USAGE, "error")
    for word in words:
        assert word in line


async def test_hub_whose_bookkeeper_was_never_set_up_waits_for_it(deployment: Deployment) -> None:
    """This happens in a new deployment whose hubs start before the first bookie."""
    raw = deployment.raw()
    root = f"{deployment.prefix}/new/ledgers"
    hub = deployment.apart(f"bookkeeper.zookeeper=zookeeper://{deployment.zookeeper}{root}")
    hub.begin()
    await _waits_for(hub, root)
    assert not raw.exists(f"{deployment.prefix}/hosts"), "nobody is sent to it"
    _take_bookies(raw, root)
    await until(lambda: "serving" in hub.log or not hub.is_running, "it serves")
    assert [hub.log.count(words) for words in ("waits for BookKeeper", "BookKeeper is set up now")] == [1, 1]
    assert hub.end(signal.SIGTERM) == ExitCode.DONE
    hub.start()
    client = await deployment.connect(hub)
    assert await client.publish(b"t", b"first") == 1
    hub.stop()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_hub_that_waits_for_bookkeeper_ends_in_order(deployment: Deployment, number: signal.Signals) -> None:
    hub = deployment.apart(f"bookkeeper.zookeeper=zookeeper://{deployment.zookeeper}/no/such/ledgers")
    hub.begin()
    await _waits_for(hub, "/no/such/ledgers")
    assert hub.end(number) == (ExitCode.INTERRUPTED if number is signal.SIGINT else ExitCode.DONE)
    assert "Traceback" not in hub.log, hub.log


async def _waits_for(hub: RunningHub, root: str) -> None:
    await until(lambda: root in hub.log or not hub.is_running, "it says what it waits for")
    assert hub.is_running, hub.log
    assert f"there is no {root} in ZooKeeper" in hub.log


def _take_bookies(raw: KazooClient, root: str) -> None:
    """Register the bookies of the tests below another root, which is created too.

    Bookies tell ledgers of two roots apart by their ids alone. So this root starts with ids that the other never gives.
    """
    raw.create(f"{root}/idgen-long/HOB-{uuid.uuid4().int % _HIGH_IDS + 1:010}", makepath=True)
    for name in raw.get_children(f"{LEDGERS_ROOT}/available"):
        if name != "readonly":
            data, _ = raw.get(f"{LEDGERS_ROOT}/available/{name}")
            raw.create(f"{root}/available/{name}", data, makepath=True)


@on_per_topic  # Shared logs need a longer timeout.
@pytest.mark.parametrize("key", ["cluster.zookeeper", "bookkeeper.zookeeper", "metadata"])
async def test_hub_without_zookeeper_ends_as_one_whose_store_is_not_available(deployment: Deployment, key: str) -> None:
    hub = deployment.apart(f"{key}=zookeeper://{_NOBODY}/hedwig/x", *_IMPATIENT)
    code, line = await _refusal(hub)
    assert code == ExitCode.UNAVAILABLE
    assert line.startswith("error: ")
    assert _NOBODY in line


@on_per_topic
async def test_address_of_a_hub_that_lives_is_refused(deployment: Deployment) -> None:
    """A wrong `advertised_host` causes this: the port itself is free on this machine."""
    raw = deployment.raw()
    first = await deployment.start(advertised_host="hub.example")
    second = deployment.apart(f"port={first.port}", "advertised_host=hub.example", *_IMPATIENT)
    second.settings = (*second.settings, "host=127.0.0.2")
    code, line = await _refusal(second)
    assert code == ExitCode.UNAVAILABLE
    assert f"hub.example:{first.port}" in line
    assert "another hub is registered there" in line
    assert deployment.epoch_of(raw, first.me.address) == first.me.epoch
    assert is_owner(await deployment.ask(await deployment.connect(first), b"t"))


@on_both_ledgers
async def test_hub_starts_without_bookies_and_is_ready_once_they_are_there(deployment: Deployment) -> None:
    """This happens after the loss of a machine room. Topics, subscriptions and redirects need no bookie."""
    raw = deployment.raw()
    root = f"{deployment.prefix}/ledgers"
    raw.create(f"{root}/available/readonly", makepath=True)
    layout, _ = raw.get(f"{LEDGERS_ROOT}/LAYOUT")
    raw.create(f"{root}/LAYOUT", layout)
    hub = await deployment.start(
        bookkeeper=deployment.on_bookies(zookeeper=f"zookeeper://{deployment.zookeeper}{root}"), admin_port=0
    )
    admin = AdminClient(f"127.0.0.1:{hub.admin_port}")
    readiness = await asyncio.to_thread(admin.ask, "GET", "/ready")
    assert readiness.status == 503
    assert "too few bookies" in readiness.text
    client = await deployment.connect(hub)
    await client.subscribed(b"t", b"ann")
    answer = await client.request(b"t", Publish(Message(b"first")))
    assert answer.status is StatusCode.SERVICE_DOWN
    assert "bookies" in (answer.text or "")
    _take_bookies(raw, root)
    await asyncio.to_thread(admin.wait, "/ready", lambda readiness: readiness["ready"], "the bookies are found")
