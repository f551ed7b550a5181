"""Prove that the watch over a store's tree reports every change there, or reports that it lost some."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from kazoo.client import KazooClient

from hedwig.cli.dev import DevServers
from hedwig.metadata import Delete, MetadataStore, RecordKey, StoreOptions, Write, format_metadata, open_metadata
from hedwig.metadata.contract.changes import ChangedRecord, Changes, ChangesLostError, ChangesUnsupportedError
from hedwig.metadata.contract.kinds import KINDS, OWNERSHIP, PERSISTENCE, SUBSCRIPTIONS
from hedwig.metadata.testing import samples
from hedwig.metadata.zookeeper.reads.changes import ZookeeperChanges
from hedwig.metadata.zookeeper.records.paths import Paths
from hedwig.model import LedgerRanges, SubscriberId, Topic
from hedwig.versions import ANY, NEW
from hedwig.zookeeper import Bridge, BridgeOptions
from tests.faults.support.proxy import Action, Exchange, Plan, Proxy, Step, scripted
from tests.faults.support.wires import ZooKeeperWire
from tests.metadata.zookeeper.conftest import Prefix
from tests.support.servers import UNSYNCED

NEWS: Final = Topic(b"news/of/today")
READER: Final = SubscriberId(b"hub")
_ALL: Final = 1000
_OPTIONS: Final = StoreOptions(operation_timeout_s=20)


@pytest.fixture
async def changes(store: MetadataStore) -> Changes:
    return await _begun(store)


async def _begun(store: MetadataStore) -> Changes:
    changes = store.changes()
    assert changes is not None
    await changes.begin()
    return changes


async def _changed(changes: Changes) -> set[ChangedRecord]:
    changed: set[ChangedRecord] = set()
    while taken := await changes.take(_ALL):
        changed.update(taken)
    return changed


async def _create(store: MetadataStore, *topics: Topic) -> None:
    for outcome in await store.persistence.apply([Write(RecordKey(topic), LedgerRanges(), NEW) for topic in topics]):
        outcome.check()


# ----------------------------------------------------------------------------------------------- what happens in a tree


async def test_nodes_that_are_no_records_are_not_told(prefix: Prefix, changes: Changes, raw: KazooClient) -> None:
    def change() -> None:
        # These are nodes of topics, parents of subscriptions, paths that no name maps to, and nodes outside the tree.
        for path in ("t/subscribers", "t/a/b", "%=A/hub", "%=a/hub", "u/subscribers/%=plain", "hub", "t/hub/below"):
            raw.create(f"{prefix.path}/topics/{path}", b"data", makepath=True)
            raw.set(f"{prefix.path}/topics/{path}", b"other")
        raw.create(f"{prefix.path}/hosts/t/hub", b"data", makepath=True)
        raw.create(f"{prefix.path}/topics2/t/hub", b"data", makepath=True)

    await asyncio.to_thread(change)
    assert await _changed(changes) == {ChangedRecord(OWNERSHIP, RecordKey(Topic(b"t")))}


async def test_records_that_the_original_writes_and_deletes_are_told(
    prefix: Prefix, changes: Changes, raw: KazooClient
) -> None:
    """The original uses no guards, deletes whole topics node by node, and may keep owners in ephemeral nodes."""
    topic = f"{prefix.path}/topics/news/of/today"
    everything = {
        ChangedRecord(OWNERSHIP, RecordKey(NEWS)),
        ChangedRecord(PERSISTENCE, RecordKey(NEWS)),
        ChangedRecord(SUBSCRIPTIONS, RecordKey(NEWS, READER)),
    }

    def write() -> None:
        raw.create(f"{topic}/hub", b"10.0.0.1:4080:9876", makepath=True)
        raw.create(f"{topic}/ledgers", b"")
        raw.create(f"{topic}/subscribers/hub", b"", makepath=True)

    await asyncio.to_thread(write)
    assert await _changed(changes) == everything
    await asyncio.to_thread(raw.delete, topic, recursive=True)
    assert await _changed(changes) == everything


async def test_owner_that_vanishes_with_its_hub_is_told(prefix: Prefix, changes: Changes, raw: KazooClient) -> None:
    hub = KazooClient(hosts=prefix.address)
    await asyncio.to_thread(hub.start)
    try:
        path = f"{prefix.path}/topics/news/of/today/hub"
        await asyncio.to_thread(hub.create, path, b"10.0.0.1:4080:9876", ephemeral=True, makepath=True)
        assert await _changed(changes) == {ChangedRecord(OWNERSHIP, RecordKey(NEWS))}
    finally:
        await asyncio.to_thread(hub.stop)
        await asyncio.to_thread(hub.close)
    assert await asyncio.to_thread(raw.exists, path) is None
    assert await _changed(changes) == {ChangedRecord(OWNERSHIP, RecordKey(NEWS))}


async def test_wipe_and_what_comes_after_it_are_told(store: MetadataStore, prefix: Prefix, changes: Changes) -> None:
    await _create(store, NEWS)
    await changes.begin()
    await format_metadata(prefix.url, wipe=True)
    assert await _changed(changes) == {ChangedRecord(PERSISTENCE, RecordKey(NEWS))}
    await store.ownership.write(NEWS, samples.hub(2), NEW)
    assert await _changed(changes) == {ChangedRecord(OWNERSHIP, RecordKey(NEWS))}


async def test_two_who_want_to_know_are_both_told(store: MetadataStore, changes: Changes) -> None:
    second = await _begun(store)
    await _create(store, NEWS)
    for each in (changes, second):
        assert await _changed(each) == {ChangedRecord(PERSISTENCE, RecordKey(NEWS))}


# ------------------------------------------------------------------------------------------------------------ the bound


async def test_more_changes_than_are_kept_are_said_to_be_lost(prefix: Prefix, store: MetadataStore) -> None:
    bridge = Bridge(prefix.address, BridgeOptions())
    await bridge.connect()
    try:
        changes = ZookeeperChanges(KINDS, bridge, Paths(prefix.path), _OPTIONS, changes_max=5)
        await changes.begin()
        topics = [Topic(b"t-%d" % number) for number in range(6)]
        await _create(store, *topics[:5])
        assert len(await _changed(changes)) == 5
        await _create(store, *topics[5:])
        (outcome,) = await store.persistence.apply([Delete(RecordKey(topics[5]), ANY)])
        outcome.check()
        assert len(await _changed(changes)) == 1, "one record, however often it is changed"
        await store.persistence.apply([Delete(RecordKey(topic), ANY) for topic in topics])
        await _create(store, *topics)
        for _ in range(2):
            with pytest.raises(ChangesLostError, match="more than 5 records"):
                await changes.take(_ALL)
        await changes.begin()
        assert await changes.take(_ALL) == []
    finally:
        await bridge.close()


async def test_nothing_is_told_after_the_end(prefix: Prefix, store: MetadataStore, raw: KazooClient) -> None:
    def watching() -> bool:
        return f"{prefix.path}/topics" in raw.command(b"wchp")

    changes = await _begun(store)
    assert await asyncio.to_thread(watching)
    await changes.end()
    assert not await asyncio.to_thread(watching)
    with pytest.raises(ChangesLostError):
        await changes.take(_ALL)
    await changes.end()  # Ending it again is harmless, and kazoo must not fail on the answer.
    await changes.begin()
    await _create(store, NEWS)
    assert await _changed(changes) == {ChangedRecord(PERSISTENCE, RecordKey(NEWS))}


async def test_end_of_a_watch_that_is_not_there_is_no_harm(prefix: Prefix, store: MetadataStore) -> None:
    """The server answers with an error code that kazoo does not know."""
    first, second = await _begun(store), await _begun(store)
    await first.end()
    await second.end()
    await _create(store, NEWS)


# ------------------------------------------------------------------------------------------------------- connections


@pytest.fixture
async def proxy(prefix: Prefix) -> AsyncIterator[Proxy]:
    async with Proxy(prefix.address, ZooKeeperWire) as proxy:
        yield proxy


@pytest.fixture
async def behind(prefix: Prefix, store: MetadataStore, proxy: Proxy) -> AsyncIterator[MetadataStore]:
    """Return a client whose connection goes through the proxy. `store` has a connection of its own."""
    url = prefix.url.replace(prefix.address, proxy.address)
    async with await open_metadata(url, _OPTIONS) as opened:
        yield opened


async def _come_back(proxy: Proxy) -> None:
    proxy.vanish()
    await proxy.come_back()


async def _is_lost_and_begins_anew(changes: Changes, store: MetadataStore) -> None:
    for _ in range(2):
        with pytest.raises(ChangesLostError):
            await changes.take(_ALL)
    await changes.begin()
    assert await changes.take(_ALL) == []
    topic = Topic(uuid.uuid4().hex.encode())
    await _create(store, topic)
    assert await _changed(changes) == {ChangedRecord(PERSISTENCE, RecordKey(topic))}


async def test_changes_while_there_is_no_connection_are_never_just_missing(
    store: MetadataStore, behind: MetadataStore, proxy: Proxy
) -> None:
    changes = await _begun(behind)
    proxy.vanish()
    await _create(store, NEWS)
    await proxy.come_back()
    # The new connection answers, but does not have the watch of the old one.
    await behind.persistence.read(NEWS)
    await _is_lost_and_begins_anew(changes, store)


async def test_cut_at_any_moment_of_a_take_is_noticed(
    store: MetadataStore, behind: MetadataStore, proxy: Proxy
) -> None:
    changes = await _begun(behind)
    for number, cut in enumerate((Action.CUT_REQUEST, Action.CUT_REPLY)):
        topic = Topic(b"t-%d" % number)

        async def meanwhile(topic: Topic = topic) -> None:
            await _create(store, topic)

        proxy.plan = scripted("multi", [Step(cut, meanwhile=meanwhile)])
        await _is_lost_and_begins_anew(changes, store)
        assert proxy.done[cut] == 1
        assert await store.persistence.read(topic) is not None


async def test_cut_while_it_begins_is_no_hindrance(store: MetadataStore, behind: MetadataStore, proxy: Proxy) -> None:
    changes = behind.changes()
    assert changes is not None
    for number, cut in enumerate((Action.CUT_REQUEST, Action.CUT_REPLY)):
        proxy.plan = scripted("106", [Step(cut), Step(cut)])
        await changes.begin()
        assert proxy.done[cut] == 2
        topic = Topic(b"t-%d" % number)
        await _create(store, topic)
        assert await _changed(changes) == {ChangedRecord(PERSISTENCE, RecordKey(topic))}


async def test_cuts_at_random_lose_nothing_silently(store: MetadataStore, behind: MetadataStore, proxy: Proxy) -> None:
    """The feed reports every topic created since its last beginning, or reports the loss."""
    changes = await _begun(behind)
    losses = 0
    created: set[Topic] = set()
    reported: set[Topic] = set()
    for number in range(120):
        if number % 7 == 3:
            await _come_back(proxy)
        topic = Topic(b"t-%d" % number)
        await _create(store, topic)
        created.add(topic)
        try:
            reported |= {each.key.topic for each in await changes.take(_ALL)}
        except ChangesLostError:
            losses += 1
            await changes.begin()
            created.clear()
            reported.clear()
        assert reported == created
    assert losses >= 120 // 7


async def test_expired_session_is_noticed(
    store: MetadataStore, behind: MetadataStore, proxy: Proxy, prefix: Prefix
) -> None:
    changes = await _begun(behind)
    session = proxy.wires[-1].session  # type: ignore[attr-defined]  # a ZooKeeperWire
    thief = KazooClient(hosts=prefix.address, client_id=session)
    await asyncio.to_thread(thief.start)
    await asyncio.to_thread(thief.stop)  # This closes the session.
    await asyncio.to_thread(thief.close)
    await _create(store, NEWS)
    await _is_lost_and_begins_anew(changes, store)


async def test_silent_server_is_noticed(store: MetadataStore, behind: MetadataStore, proxy: Proxy) -> None:
    """The server sends no answers. So the client drops the connection, and may lose changes with it."""
    changes = await _begun(behind)
    before = len(proxy.wires)

    def mute(_: Exchange) -> Step:
        return Step(Action.HOLD_REPLY) if len(proxy.wires) == before else Step(Action.PASS)

    plan: Plan = mute
    proxy.plan = plan
    await _is_lost_and_begins_anew(changes, store)


# ---------------------------------------------------------------------------------------------------------- the servers


@contextmanager
def _servers(directory: Path, classpath: str = "zookeeper", number: int = 1) -> Iterator[DevServers]:
    """Run ZooKeeper servers for this test only; `classpath` names their release."""
    servers = DevServers(directory, heap_mb={"zookeeper": 128}, classpaths={"zookeeper": classpath}, **UNSYNCED)
    try:
        servers.up(["zookeeper"], zookeepers=number)
        yield servers
    finally:
        servers.down()


async def _formatted(servers: DevServers) -> str:
    url = f"zookeeper://{servers.address('zookeeper')}/hedwig/{uuid.uuid4().hex}"
    await format_metadata(url)
    return url


async def test_server_that_is_killed_is_noticed(tmp_path: Path) -> None:
    with _servers(tmp_path / "servers") as servers:
        async with await open_metadata(await _formatted(servers), StoreOptions(operation_timeout_s=60)) as store:
            changes = await _begun(store)
            await _create(store, NEWS)
            assert len(await _changed(changes)) == 1
            await asyncio.to_thread(servers.kill, "zookeeper-1")
            await asyncio.to_thread(servers.start, "zookeeper-1")
            await store.persistence.read(NEWS)
            await _is_lost_and_begins_anew(changes, store)


async def test_server_of_an_ensemble_tells_what_was_asked_of_others(tmp_path: Path) -> None:
    """Each take has all changes before it, even those made at another server. The loss of a server is noticed."""
    with _servers(tmp_path / "servers", number=3) as servers:
        url = await _formatted(servers)
        all_three = servers.address("zookeeper")
        options = StoreOptions(operation_timeout_s=60)
        for name in ("zookeeper-1", "zookeeper-2", "zookeeper-3"):
            own = f"127.0.0.1:{servers.port(name)}"
            others = ",".join(each for each in all_three.split(",") if each != own)
            async with (
                await open_metadata(url.replace(all_three, own), options) as watching,
                await open_metadata(url.replace(all_three, others), options) as writing,
            ):
                changes = await _begun(watching)
                for number in range(20):
                    topic = Topic(b"%b/t-%d" % (name.encode(), number))
                    await _create(writing, topic)
                    assert await changes.take(_ALL) == [ChangedRecord(PERSISTENCE, RecordKey(topic))]
                    assert await watching.persistence.read(topic) is not None
                if name == "zookeeper-3":
                    await asyncio.to_thread(servers.kill, name)
                    await asyncio.to_thread(servers.start, name)
                    await _is_lost_and_begins_anew(changes, writing)


async def test_releases_that_have_the_first_form_of_such_watches_tell_too(tmp_path: Path) -> None:
    with _servers(tmp_path / "servers", "hbase") as servers:
        async with await open_metadata(await _formatted(servers), _OPTIONS) as store:
            assert (await store.describe())["server version"].startswith("3.8")
            changes = await _begun(store)
            await _create(store, NEWS)
            await store.subscriptions.create(NEWS, READER, samples.subscription(1))
            expected = {
                ChangedRecord(PERSISTENCE, RecordKey(NEWS)),
                ChangedRecord(SUBSCRIPTIONS, RecordKey(NEWS, READER)),
            }
            assert await _changed(changes) == expected
            for outcome in await store.persistence.apply([Delete(RecordKey(NEWS), ANY)]):
                outcome.check()
            assert await _changed(changes) == {ChangedRecord(PERSISTENCE, RecordKey(NEWS))}
            await changes.begin()
            await changes.end()
            await changes.begin()
            assert await changes.take(_ALL) == []


async def test_releases_that_have_no_such_watches_say_so_and_are_used_on(tmp_path: Path) -> None:
    with _servers(tmp_path / "servers", "hedwig43") as servers:
        async with await open_metadata(await _formatted(servers), _OPTIONS) as store:
            assert (await store.describe())["server version"].startswith("3.4")
            changes = store.changes()
            assert changes is not None
            for number in range(2):
                with pytest.raises(ChangesUnsupportedError, match=r"from release 3\.6 on"):
                    await changes.begin()
                await _create(store, Topic(b"t-%d" % number))
                with pytest.raises(ChangesLostError):
                    await changes.take(_ALL)
