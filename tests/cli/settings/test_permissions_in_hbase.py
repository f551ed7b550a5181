"""Prove that a user without rights in HBase gets one line with the grant to make, exit code 1, nothing half done."""

import asyncio
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest

from hedwig.cli.dev import DevServers
from hedwig.client import BlockingClient, ClientOptions, HubAddress
from hedwig.clock import Deadline
from hedwig.errors import ServiceDownError
from hedwig.exit_codes import ExitCode
from hedwig.metadata import MetadataUrl, StoreOptions
from hedwig.metadata.contract.kinds import PERSISTENCE
from hedwig.metadata.hbase.native import connect
from hedwig.metadata.hbase.native.wire.identity import Identity
from hedwig.metadata.hbase.schema import Tables
from hedwig.model import SubscriberId, Topic
from hedwig.operations.checks.verdicts import CheckExit
from hedwig.outcomes import ForbiddenError
from tests.cli.support.admin import Admin, Ran, wait_until
from tests.cli.support.store_contents import contents, fill
from tests.hub.support.running import RunningHub
from tests.support.hbase_rights import GATEWAY_USER, KEEPER, RIGHTS_ARE_CHECKED, grant, revoke
from tests.support.servers import UNSYNCED

_HEAP_MB: Final = {"zookeeper": 128, "hbase-master": 256, "regionserver": 384, "thrift2": 192}
_READS: Final[Sequence[tuple[str, ...]]] = (
    ("topic", "list"),
    ("topic", "show", "weather/5"),
    ("subscription", "list", "weather/5"),
    ("metadata", "stats"),
    ("metadata", "check", "--kind", "range-gap"),
    ("metadata", "export", "records.gz", "--overwrite"),
)
_WRITES: Final[Sequence[tuple[str, ...]]] = (
    ("topic", "create", "new"),
    ("subscription", "create", "weather/5", "new"),
    ("subscription", "delete", "weather/5", "s-0\\xff", "--offline", "--yes"),
    ("topic", "delete", "weather/5", "--force", "--offline", "--yes"),
)
_NEWS, _READER = Topic(b"news"), SubscriberId(b"reader")
_AT_ONCE_S: Final = 10.0
"""A hub that tries again and again would take its whole operation timeout of 30 s."""


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevServers]:
    """An HBase that checks rights, with a gateway that runs as another user."""
    servers = DevServers(
        tmp_path_factory.mktemp("guarded"),
        heap_mb=_HEAP_MB,
        zookeeper_properties=UNSYNCED["zookeeper_properties"],
        hbase_properties=RIGHTS_ARE_CHECKED,
        java_flags={"thrift2": f"-DHADOOP_USER_NAME={GATEWAY_USER}"},
    )
    try:
        servers.up(["hbase", "thrift2"])
        yield servers
    finally:
        servers.down()


class _Store:
    """A store in that HBase, as its keeper and as other users see it."""

    def __init__(self, servers: DevServers, directory: Path) -> None:
        self.servers = servers
        self.directory = directory
        self.namespace = f"p{uuid.uuid4().hex[:12]}"
        self.keeper = self.seen_by(KEEPER)

    @property
    def url(self) -> str:
        return self.keeper.url

    def seen_by(self, user: str) -> Admin:
        url = f"hbase://{self.servers.address('zookeeper')}/{self.namespace}?user={user}"
        return Admin(self.directory, url)

    def grant(self, user: str, rights: str) -> None:
        """Give a user these rights, and no others. Return once the master has told all servers."""
        grant(self.url, user, rights)
        seen = self.seen_by(user)
        wait_until(lambda: seen.run("topic", "list").code == 0, f"{user} may read")
        if "W" in rights:
            # The check tries a compare-and-set, in a record of its own.
            wait_until(lambda: seen.run("check", "health").code != CheckExit.CRITICAL, f"{user} may write")
        if "C" in rights:
            wait_until(lambda: "families" in seen.done("metadata", "describe").out, f"{user} may make tables")

    def revoke(self, user: str) -> None:
        """Take all rights from a user; return once the servers know it."""
        revoke(self.url, user)
        wait_until(lambda: self.seen_by(user).run("topic", "list").code != 0, f"{user} may not read")

    def through_the_gateway(self) -> Admin:
        return Admin(self.directory, f"hbase+thrift://{self.servers.address('thrift2')}/{self.namespace}")


@pytest.fixture
def store(guarded: DevServers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _Store:
    """A store with topics and subscriptions, and a working directory for exports."""
    monkeypatch.chdir(tmp_path)
    store = _Store(guarded, tmp_path)
    store.keeper.done("metadata", "format", "--regions", "2", "--timeout", "120")
    fill(store.url, 20)
    return store


def _check_refused(ran: Ran, advice: str, code: int = ExitCode.FAILED) -> None:
    assert (ran.code, ran.out.count("created")) == (code, 0), ran
    (line,) = [line for line in ran.err.splitlines() if line.startswith("error: ")]
    assert f"in the shell of HBase: {advice}" in line
    assert "Insufficient permissions" in line
    assert "Traceback" not in ran.err
    assert "--timeout" not in line, "waiting does not help"


def test_whoever_has_no_right_is_told_which_to_get(store: _Store) -> None:
    stranger = store.seen_by("stranger")
    before = contents(store.url)
    for command in (*_READS, *_WRITES, ("metadata", "describe"), ("metadata", "format"), ("metadata", "sweep")):
        code = CheckExit.UNKNOWN if "check" in command else ExitCode.FAILED
        _check_refused(stranger.run(*command), f"grant 'stranger', 'RW', '@{store.namespace}'", code)
    _check_refused(
        stranger.run("metadata", "format", "--wipe", "--yes", "--force"),
        f"grant 'stranger', 'RW', '@{store.namespace}'",
    )
    health = stranger.run("check", "health", "--columns", "verdict,check,detail")
    assert health.code == CheckExit.CRITICAL
    assert f"grant 'stranger', 'RW', '@{store.namespace}'" in health.out
    assert contents(store.url) == before


def test_whoever_may_only_read_reads(store: _Store) -> None:
    store.grant("reader", "R")
    reader = store.seen_by("reader")
    before = contents(store.url)
    for command in _READS:
        assert reader.run(*command).code == 0, command
    assert reader.done("metadata", "describe").out.count("only to users who may create tables") == 4
    for command in (*_WRITES, ("metadata", "format")):
        _check_refused(reader.run(*command), f"grant 'reader', 'RW', '@{store.namespace}'")
    assert contents(store.url) == before


def test_whoever_may_not_have_memory_written_into_files_migrates_all_the_same(store: _Store, tmp_path: Path) -> None:
    store.grant("writer", "RW")
    store.grant("maker", "RWC")
    with pytest.raises(ForbiddenError):
        asyncio.run(_flush(store.seen_by("writer").url))
    asyncio.run(_flush(store.seen_by("maker").url))
    target = f"sqlite://{tmp_path}/moved.db"
    store.keeper.done("metadata", "format", "--metadata", target)
    moved = store.seen_by("writer").run(
        "metadata",
        "migrate",
        "--from",
        store.seen_by("writer").url,
        "--to",
        target,
        "--with-owners",
        "--hubs-down",
        "--yes",
    )
    assert moved.code == 0, moved
    assert contents(target) == contents(store.url)


async def _flush(url: str) -> None:
    """Flush the memory of a table into files."""
    parsed, options = MetadataUrl.parse(url), StoreOptions()
    driver = await connect(parsed, options)
    try:
        table = Tables(Identity.of(parsed).namespace).name(PERSISTENCE)
        await driver.flush_table(table, Deadline.after(options.clock, 30.0))
    finally:
        await driver.close()


def test_whoever_may_write_need_not_be_let_make_tables(store: _Store) -> None:
    store.grant("writer", "RW")
    writer = store.seen_by("writer")
    for command in (*_READS, *_WRITES, ("metadata", "sweep"), ("metadata", "format")):
        assert writer.run(*command).code == 0, command
    before = contents(store.url)
    # A wipe that begins and then cannot drop the tables would leave a store that nobody can open.
    _check_refused(
        writer.run("metadata", "format", "--wipe", "--yes", "--force"), f"grant 'writer', 'RWC', '@{store.namespace}'"
    )
    assert contents(store.url) == before
    writer.done("topic", "create", "as-before")


def test_whoever_may_make_tables_formats_and_wipes(store: _Store) -> None:
    store.grant("maker", "RWC")
    maker = store.seen_by("maker")
    maker.done("metadata", "format", "--wipe", "--yes", "--force", "--regions", "2", "--timeout", "120")
    assert contents(store.url) == {}
    maker.done("topic", "create", "news")


def test_namespace_is_not_made_by_whoever_may_not(guarded: DevServers, tmp_path: Path) -> None:
    store = _Store(guarded, tmp_path)
    stranger = store.seen_by("stranger")
    _check_refused(
        stranger.run("metadata", "format"),
        f"grant 'stranger', 'RWC', '@{store.namespace}' (after create_namespace '{store.namespace}', if there is none)",
    )
    assert "there is no metadata" in store.keeper.run("topic", "list").err


def test_user_of_the_gateway_is_who_needs_the_rights(store: _Store) -> None:
    through = store.through_the_gateway()
    before = contents(store.url)
    for command in (*_READS[:2], *_WRITES[:2]):
        _check_refused(through.run(*command), f"grant '{GATEWAY_USER}', 'RW', '@{store.namespace}'")
    store.grant(GATEWAY_USER, "R")
    for command in _READS[:2]:
        assert through.run(*command).code == 0, command
    for command in _WRITES:
        _check_refused(through.run(*command), f"grant '{GATEWAY_USER}', 'RW', '@{store.namespace}'")
    _check_refused(
        through.run("metadata", "format", "--wipe", "--yes", "--force"),
        f"grant '{GATEWAY_USER}', 'RWC', '@{store.namespace}'",
    )
    assert contents(store.url) == before
    store.grant(GATEWAY_USER, "RW")
    for command in _WRITES:
        assert through.run(*command).code == 0, command


def test_user_is_that_of_the_environment_where_the_url_names_none(store: _Store) -> None:
    url = store.url.partition("?")[0]
    for environment, user in ((KEEPER, None), ("stranger", "stranger")):
        ran = store.keeper.run_apart("topic", "list", "--limit", "1", "--metadata", url, HADOOP_USER_NAME=environment)
        assert (ran.code == 0) == (user is None), ran
        assert user is None or f"grant '{user}'" in ran.err
    ran = store.keeper.run("topic", "list", "--metadata", f"{url}?user=")
    assert ran.code == ExitCode.USAGE
    assert "the name of a user" in ran.err


def _refused_at_once(ask: Callable[[], object]) -> None:
    began = time.monotonic()
    with pytest.raises(ServiceDownError) as refusal:
        ask()
    assert "grant 'hub', 'RW'" in str(refusal.value)
    assert time.monotonic() - began < _AT_ONCE_S


def test_hub_that_loses_its_rights_says_so_and_goes_on_once_it_has_them(store: _Store) -> None:
    store.grant("hub", "RW")
    settings = (f"metadata={store.seen_by('hub').url}", "consume_flush_s=0.2")
    with (
        RunningHub(store.directory / "hub", *settings) as hub,
        BlockingClient(ClientOptions(hub=HubAddress.parse(hub.address))) as client,
        client.subscribe(_NEWS, _READER) as subscription,
    ):
        client.publish(_NEWS, b"one")
        before = contents(store.url)
        store.revoke("hub")
        # The hub owns the topic, so it does not ask the store.
        client.publish(_NEWS, b"two")
        for body in (b"one", b"two"):
            message = subscription.receive(_AT_ONCE_S)
            assert message is not None
            assert message.seq_id is not None
            assert message.body == body
            subscription.consume(message.seq_id)
        with BlockingClient(ClientOptions(hub=HubAddress.parse(hub.address), answer_timeout_s=2.0)) as impatient:
            _refused_at_once(lambda: impatient.publish(Topic(b"other"), b"lost"))
        _refused_at_once(lambda: client.subscribe(_NEWS, SubscriberId(b"another")))
        wait_until(lambda: "consume pointer" in hub.log, "the hub says that a consume pointer was not stored")
        assert contents(store.url) == before
        assert hub.log.count("Traceback") == 0
        assert len(hub.log.splitlines()) < 200, "it asks again and again"
        store.grant("hub", "RW")
        client.publish(Topic(b"other"), b"not lost")
        client.subscribe(_NEWS, SubscriberId(b"another")).close()

        def consumed() -> bool:
            shown = store.keeper.done("subscription", "show", "news", "reader", "-o", "json").json
            return bool(shown["consumed"] == 2)

        wait_until(consumed, "the consume pointer is stored")
        hub.stop()


def test_hub_without_rights_does_not_start(store: _Store) -> None:
    hub = RunningHub(store.directory / "hub", f"metadata={store.seen_by('stranger').url}")
    process = hub.begin()
    try:
        assert process.wait(60) not in (0, None)
    finally:
        hub.kill()
    (line,) = [line for line in hub.log.splitlines() if line.startswith("error: ")]
    assert f"grant 'stranger', 'RW', '@{store.namespace}'" in line
    assert "Traceback" not in hub.log
