"""Ledger metadata in a real ZooKeeper, at the original's paths, and changed only by compare-and-set."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from kazoo.client import KazooClient

from hedwig.clock import Deadline, SystemClock
from hedwig.errors import (
    BadVersionError,
    ConfigurationError,
    CorruptRecordError,
    LedgerStoreUnavailableError,
    LedgerWriteError,
    NoSuchLedgerError,
)
from hedwig.hub.ledgers.bookkeeper.bookies.zookeeper_registry import ZookeeperRegistry
from hedwig.hub.ledgers.bookkeeper.bookkeeper_pb2 import BookieServiceInfoFormat
from hedwig.hub.ledgers.bookkeeper.records.ledger_metadata import Ensemble, LedgerMetadata, LedgerState
from hedwig.hub.ledgers.bookkeeper.records.metadata_format import decode_metadata
from hedwig.hub.ledgers.bookkeeper.records.metadata_store import update
from hedwig.hub.ledgers.bookkeeper.records.session import BridgedSession, Session
from hedwig.hub.ledgers.bookkeeper.records.znode_paths import LedgerLayout, layout_text
from hedwig.hub.ledgers.bookkeeper.records.zookeeper_metadata import ZookeeperLedgerMetadata
from hedwig.hub.ledgers.bookkeeper.wire.digests import DigestKind
from hedwig.hub.ledgers.bookkeeper.wire.quorums import Quorums
from hedwig.versions import Versioned
from hedwig.zookeeper import Request
from tests.hub.ledgers.bookkeeper.support.sessions import session_with
from tests.support.servers import RunningServers

CLOCK = SystemClock()

RECORD = LedgerMetadata(
    quorums=Quorums(ensemble=1, write=1, ack=1),
    state=LedgerState.OPEN,
    ensembles=(Ensemble(first_entry_id=0, bookies=("127.0.0.1:3181",)),),
    digest=DigestKind.CRC32C,
    password=b"pw",
    creation_token=77,
)


@pytest.fixture
def raw(servers: RunningServers) -> Iterator[KazooClient]:
    """Return a client beside the code under test."""
    client = KazooClient(servers.address("zookeeper"))
    client.start(30)
    yield client
    client.stop()
    client.close()


@pytest.fixture
def root(raw: KazooClient) -> str:
    path = f"/ledgers-{uuid.uuid4().hex}"
    raw.create(path)
    raw.create(f"{path}/LAYOUT", layout_text(LedgerLayout.HIERARCHICAL))
    raw.create(f"{path}/available")
    return path


@pytest.fixture
async def session(servers: RunningServers) -> AsyncIterator[BridgedSession]:
    async with session_with(servers.address("zookeeper")) as opened:
        yield opened


@pytest.fixture
async def store(session: BridgedSession, root: str) -> ZookeeperLedgerMetadata:
    return await ZookeeperLedgerMetadata.open(session, root, CLOCK)


async def test_ids_come_one_after_the_other_and_leave_next_to_nothing(
    store: ZookeeperLedgerMetadata, raw: KazooClient, root: str
) -> None:
    assert [await store.new_ledger_id() for _ in range(3)] == [0, 1, 2]
    many = await asyncio.gather(*[store.new_ledger_id() for _ in range(50)])
    assert sorted(many) == list(range(3, 53))
    # The nodes that gave the ids are deleted with the next id, or at the end of the session.
    assert len(raw.get_children(f"{root}/idgen")) <= 50
    assert await store.new_ledger_id() == 53
    (left,) = raw.get_children(f"{root}/idgen")
    assert left.endswith("53")
    assert raw.get(f"{root}/idgen/{left}")[1].ephemeralOwner != 0


async def test_ids_are_long_once_somebody_began_with_that(
    store: ZookeeperLedgerMetadata, raw: KazooClient, root: str
) -> None:
    raw.create(f"{root}/idgen-long")
    assert await store.new_ledger_id() == 1 << 32
    raw.create(f"{root}/idgen-long/HOB-0000000007")
    assert await store.new_ledger_id() == 7 << 32
    assert await store.new_ledger_id() == (7 << 32) + 1


async def test_a_record_is_where_the_original_keeps_it(
    store: ZookeeperLedgerMetadata, raw: KazooClient, root: str
) -> None:
    version = await store.create(7, RECORD)
    assert version is not None
    content, _ = raw.get(f"{root}/00/0000/L0007")
    assert decode_metadata(content) == RECORD
    assert await store.read(7) == Versioned(RECORD, version)
    assert await store.create(7, replace(RECORD, creation_token=78)) is None
    assert await store.create(1099511627781, RECORD) is not None
    assert raw.exists(f"{root}/000/0001/0995/1162/L7781")


async def test_a_record_changes_by_compare_and_set_alone(store: ZookeeperLedgerMetadata) -> None:
    version = await store.create(7, RECORD)
    assert version is not None
    later = await store.write(7, RECORD.in_recovery(), version)
    with pytest.raises(BadVersionError):
        await store.write(7, RECORD, version)
    assert (await store.read(7)).value.state is LedgerState.IN_RECOVERY
    await store.write(7, RECORD.closed(5, 50), later)
    assert (await store.read(7)).value.last_entry_id == 5


async def test_what_does_not_exist(store: ZookeeperLedgerMetadata) -> None:
    version = await store.create(7, RECORD)
    assert version is not None
    await store.delete(7)
    await store.delete(7)
    with pytest.raises(NoSuchLedgerError):
        await store.read(7)
    with pytest.raises(NoSuchLedgerError):
        await store.write(7, RECORD, version)


async def test_folders_go_with_their_last_ledger(store: ZookeeperLedgerMetadata, raw: KazooClient, root: str) -> None:
    for ledger_id in (7, 8, 10_007):
        await store.create(ledger_id, RECORD)
    await store.delete(7)
    assert raw.get_children(f"{root}/00/0000") == ["L0008"]
    await store.delete(8)
    assert raw.get_children(f"{root}/00") == ["0001"]
    await store.delete(10_007)
    assert not raw.exists(f"{root}/00")
    await store.create(7, RECORD)
    assert (await store.read(7)).value == RECORD


async def test_all_ledgers_are_listed_and_nothing_else(
    store: ZookeeperLedgerMetadata, raw: KazooClient, root: str
) -> None:
    ids = [0, 7, 9_999, 10_000, 123_456_789, 2147483646, 2147483647, 1099511627781]
    for ledger_id in reversed(ids):
        await store.create(ledger_id, RECORD)
    await store.new_ledger_id()
    raw.create(f"{root}/underreplication")
    raw.create(f"{root}/available/127.0.0.1:3181")
    assert [ledger_id async for ledger_id in store.ledgers()] == ids


async def test_changes_of_many_at_once_all_take_effect(store: ZookeeperLedgerMetadata) -> None:
    await store.create(7, RECORD)

    async def one_more(name: str) -> None:
        for _ in range(5):
            held = await store.read(7)

            def change(stored: LedgerMetadata) -> LedgerMetadata:
                count = int(stored.custom.get(name, b"0")) + 1
                return replace(stored, custom={**stored.custom, name: b"%d" % count})

            await update(store, 7, held, change)

    await asyncio.gather(*[one_more(f"client-{number}") for number in range(4)])
    assert (await store.read(7)).value.custom == {f"client-{number}": b"5" for number in range(4)}


class Forgetful:
    """A session that loses the next answers. The requests take effect, or are not sent at all."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.lose_answers = 0
        self.lose_requests = 0

    async def send(self, deadline: Deadline, *requests: Request) -> list[Any]:
        if self.lose_requests:
            self.lose_requests -= 1
            raise LedgerWriteError("lost on the way there")
        answer = await self._session.send(deadline, *requests)
        if self.lose_answers:
            self.lose_answers -= 1
            raise LedgerWriteError("lost on the way back")
        return answer


async def test_a_creation_whose_answer_is_lost_is_found_by_its_token(session: BridgedSession, root: str) -> None:
    forgetful = Forgetful(session)
    store = await ZookeeperLedgerMetadata.open(forgetful, root, CLOCK)
    await store.create(1, RECORD)
    forgetful.lose_answers = 1
    version = await store.create(7, RECORD)
    assert version == (await store.read(7)).version
    forgetful.lose_requests = 2
    assert await store.create(8, RECORD) is not None
    # The store never takes another client's record for its own.
    forgetful.lose_requests = 1
    assert await store.create(7, replace(RECORD, creation_token=78)) is None


async def test_a_change_whose_answer_is_lost_is_settled_by_what_is_stored(session: BridgedSession, root: str) -> None:
    forgetful = Forgetful(session)
    store = await ZookeeperLedgerMetadata.open(forgetful, root, CLOCK)
    version = await store.create(7, RECORD)
    assert version is not None

    def close(stored: LedgerMetadata) -> LedgerMetadata | None:
        return None if stored.state is LedgerState.CLOSED else stored.closed(5, 50)

    forgetful.lose_answers = 1
    held = await update(store, 7, Versioned(RECORD, version), close)
    assert held == await store.read(7)
    assert held.value.last_entry_id == 5


async def test_folders_without_bookkeeper_and_unknown_layouts_are_refused(
    session: BridgedSession, raw: KazooClient, root: str
) -> None:
    with pytest.raises(ConfigurationError, match="LAYOUT"):
        await ZookeeperLedgerMetadata.open(session, f"{root}/none", CLOCK)
    with pytest.raises(LedgerStoreUnavailableError, match="LAYOUT"):
        await ZookeeperLedgerMetadata.open(session, f"{root}/none", CLOCK, made_as=LedgerLayout.FLAT)
    assert raw.exists(f"{root}/none") is None
    raw.set(f"{root}/LAYOUT", b"2\norg.example.OtherFactory:1")
    with pytest.raises(ConfigurationError, match="OtherFactory"):
        await ZookeeperLedgerMetadata.open(session, root, CLOCK, made_as=LedgerLayout.FLAT)


async def test_a_damaged_record_is_named(store: ZookeeperLedgerMetadata, raw: KazooClient, root: str) -> None:
    raw.create(f"{root}/00/0000/L0007", b"nonsense", makepath=True)
    with pytest.raises(CorruptRecordError, match=r"ledger 7, .*/00/0000/L0007"):
        await store.read(7)


async def test_the_registry_hears_of_bookies(session: BridgedSession, raw: KazooClient, root: str) -> None:
    available = f"{root}/available"
    raw.create(f"{available}/readonly")
    raw.create(f"{available}/127.0.0.1:3181")
    # The refresh is so rare that only the watch can report changes.
    registry = await ZookeeperRegistry.open(session, root, CLOCK, refresh_s=3600)
    try:
        assert set(registry.writable()) == {"127.0.0.1:3181"}
        for number in range(3):
            raw.create(f"{available}/bookie-{number}")
            await _until(registry, {"127.0.0.1:3181", f"bookie-{number}"})
            raw.delete(f"{available}/bookie-{number}")
            await _until(registry, {"127.0.0.1:3181"})
    finally:
        await registry.aclose()


async def test_bookies_are_resolved(session: BridgedSession, raw: KazooClient, root: str) -> None:
    endpoint = BookieServiceInfoFormat.Endpoint(host="10.0.0.7", port=3185, protocol="bookie-rpc")
    content = BookieServiceInfoFormat(endpoints=[endpoint]).SerializeToString()
    raw.create(f"{root}/available/readonly/bookie-four", content, makepath=True)
    registry = await ZookeeperRegistry.open(session, root, CLOCK)
    try:
        assert await registry.resolve("bookie-four") == ("10.0.0.7", 3185)
        assert await registry.resolve("127.0.0.1:3181") == ("127.0.0.1", 3181)
        with pytest.raises(OSError, match="bookie-five"):
            await registry.resolve("bookie-five")
    finally:
        await registry.aclose()


async def test_a_registry_without_a_folder_has_no_bookies_until_there_is_one(
    session: BridgedSession, raw: KazooClient, root: str
) -> None:
    registry = await ZookeeperRegistry.open(session, f"{root}/new", CLOCK, refresh_s=3600)
    try:
        assert not registry.writable()
        raw.create(f"{root}/new/available/127.0.0.1:3181", makepath=True)
        await _until(registry, {"127.0.0.1:3181"})
        raw.create(f"{root}/new/available/127.0.0.1:3182")
        await _until(registry, {"127.0.0.1:3181", "127.0.0.1:3182"})
    finally:
        await registry.aclose()


@pytest.mark.parametrize(
    ("made_as", "existing", "made"),
    [
        (LedgerLayout.HIERARCHICAL, (), LedgerLayout.HIERARCHICAL),
        (LedgerLayout.FLAT, (), LedgerLayout.FLAT),
        (LedgerLayout.HIERARCHICAL, ("L0000000003",), LedgerLayout.FLAT),
        (LedgerLayout.HIERARCHICAL, ("available", "00"), LedgerLayout.HIERARCHICAL),
    ],
)
async def test_a_root_without_a_layout_gets_one(
    session: BridgedSession,
    raw: KazooClient,
    root: str,
    made_as: LedgerLayout,
    existing: Sequence[str],
    made: LedgerLayout,
) -> None:
    for name in existing:
        raw.create(f"{root}/new/{name}", makepath=True)
    if not existing:
        raw.create(f"{root}/new")
    with pytest.raises(ConfigurationError, match="LAYOUT"):
        await ZookeeperLedgerMetadata.open(session, f"{root}/new", CLOCK)
    await asyncio.gather(
        *(ZookeeperLedgerMetadata.open(session, f"{root}/new", CLOCK, made_as=made_as) for _ in range(3))
    )
    content, stat = raw.get(f"{root}/new/LAYOUT")
    assert (content, stat.version) == (layout_text(made), 0)


async def _until(registry: ZookeeperRegistry, expected: set[str]) -> None:
    async with asyncio.timeout(20):
        while set(registry.writable()) != expected:  # noqa: ASYNC110 (the registry tells nobody)
            await asyncio.sleep(0.01)
