"""Ledgers on real bookies of BookKeeper 4.3.2, the release of the original hub."""

import asyncio
import re
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from kazoo.client import KazooClient

from hedwig.cli.dev import DevServers
from hedwig.clock import SystemClock
from hedwig.errors import LedgerError, LedgerFencedError, LedgerStoreUnavailableError, LedgerWriteError
from hedwig.hub.ledgers.bookkeeper.bookies.links import BookieLinks
from hedwig.hub.ledgers.bookkeeper.bookies.zookeeper_registry import ZookeeperRegistry
from hedwig.hub.ledgers.bookkeeper.cluster import BookieCluster
from hedwig.hub.ledgers.bookkeeper.options import BookkeeperOptions
from hedwig.hub.ledgers.bookkeeper.records.ledger_metadata import LedgerState
from hedwig.hub.ledgers.bookkeeper.records.metadata_format import decode_metadata, encode_metadata
from hedwig.hub.ledgers.bookkeeper.records.znode_paths import LedgerLayout
from hedwig.hub.ledgers.bookkeeper.records.zookeeper_metadata import ZookeeperLedgerMetadata
from hedwig.hub.ledgers.bookkeeper.store import BookkeeperLedgerStore
from hedwig.hub.ledgers.bookkeeper.wire.digests import DigestKind
from hedwig.hub.ledgers.bookkeeper.wire.quorums import Quorums
from tests.hub.ledgers.bookkeeper.support.sessions import session_with
from tests.support.servers import UNSYNCED

pytestmark = pytest.mark.timeout(600)

ROOT = "/ledgers"
BOOKIES = 3

Client = Callable[..., Awaitable[BookkeeperLedgerStore]]


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevServers]:
    launcher = DevServers(tmp_path_factory.mktemp("bookies43") / "servers", **UNSYNCED)
    try:
        launcher.up(["bookkeeper43"], bookies=BOOKIES)
        yield launcher
    finally:
        launcher.down()


@pytest.fixture
def shell(stack: DevServers, tmp_path: Path) -> Callable[..., str]:
    """Run a command of the original's shell, and return its output."""
    conf = tmp_path / "shell.conf"
    settings = {
        "zkServers": stack.address("zookeeper"),
        "zkLedgersRootPath": ROOT,
        "journalDirectory": tmp_path / "journal",
        "ledgerDirectories": tmp_path / "ledgers",
    }
    conf.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))

    def run(*arguments: str) -> str:
        words = ["-conf", str(conf), *arguments]
        command = stack.java_command("hedwig43", "org.apache.bookkeeper.bookie.BookieShell", words)
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout

    return run


@pytest.fixture
async def client(stack: DevServers) -> AsyncIterator[Client]:
    """Open a store: `await client(quorums, digest)`."""
    async with session_with(stack.address("zookeeper")) as session:
        clock = SystemClock()
        registry = await ZookeeperRegistry.open(session, ROOT, clock)
        metadata = await ZookeeperLedgerMetadata.open(session, ROOT, clock)
        opened: list[tuple[BookkeeperLedgerStore, BookieLinks]] = []

        async def open_(
            quorums: Quorums, digest: DigestKind = DigestKind.CRC32, password: bytes | None = None
        ) -> BookkeeperLedgerStore:
            links = BookieLinks(registry)
            options = replace(BookkeeperOptions.for_original_hub(quorums), digest=digest)
            if password is not None:
                options = replace(options, password=password)
            store = BookkeeperLedgerStore(BookieCluster(links, registry, metadata, options.cluster, Random()), options)
            opened.append((store, links))
            return store

        yield open_
        for store, links in opened:
            await store.aclose()
            await links.aclose()
        await registry.aclose()


ALL = Quorums(ensemble=3, write=3, ack=2)
STRIPES = Quorums(ensemble=3, write=2, ack=2)
PAIR = Quorums(ensemble=2, write=2, ack=2)


def payloads(count: int) -> list[bytes]:
    return [b"entry %d " % number * (number % 50) for number in range(count)]


async def append_all(store: BookkeeperLedgerStore, ledger_id: int, wanted: list[bytes], first: int = 0) -> None:
    futures = [store.start_append(ledger_id, first + index, payload) for index, payload in enumerate(wanted)]
    async with asyncio.timeout(60):
        await asyncio.gather(*futures)


async def read_all(store: BookkeeperLedgerStore, ledger_id: int, last: int) -> list[bytes]:
    entries: list[bytes] = []
    while len(entries) <= last:
        entries += await store.read(ledger_id, len(entries), entries_max=200, bytes_max=1 << 20)
    return entries


@pytest.mark.parametrize("digest", [DigestKind.CRC32, DigestKind.HMAC])
async def test_a_ledger_is_written_closed_and_read_by_another(client: Client, digest: DigestKind) -> None:
    store = await client(STRIPES, digest)
    ledger_id = await store.create()
    await append_all(store, ledger_id, payloads(500))
    assert await store.close(ledger_id) == 499
    reader = await client(STRIPES)
    assert await read_all(reader, ledger_id, 499) == payloads(500)
    assert await reader.last_entry_id(ledger_id) == 499


async def test_the_original_shell_reads_our_metadata(client: Client, shell: Callable[..., str]) -> None:
    store = await client(STRIPES)
    ledger_id = await store.create()
    await append_all(store, ledger_id, [b"abc", b"", b"defgh"])
    await store.close(ledger_id)
    said = await asyncio.to_thread(shell, "ledgermetadata", "-ledgerid", str(ledger_id))
    for line in (
        "quorumSize: 2",
        "ensembleSize: 3",
        "length: 8",
        "lastEntryId: 2",
        "state: CLOSED",
        "ackQuorumSize: 2",
    ):
        assert line in said


async def test_we_read_what_the_original_client_wrote(
    client: Client, shell: Callable[..., str], stack: DevServers
) -> None:
    words = ("simpletest", "-ensemble", "3", "-writeQuorum", "2", "-ackQuorum", "2", "-numEntries", "20")
    match = re.search(r"20 entries written to ledger (\d+)", await asyncio.to_thread(shell, *words))
    assert match is not None
    ledger_id = int(match[1])
    reader = await client(STRIPES, password=b"")
    metadata = (await reader._cluster.metadata.read(ledger_id)).value
    assert (metadata.state, metadata.digest, metadata.last_entry_id) == (LedgerState.CLOSED, DigestKind.HMAC, 19)
    payloads = await reader.read(ledger_id, 0, entries_max=100, bytes_max=1 << 20)
    assert len(payloads) == 20
    assert sum(map(len, payloads)) == metadata.length
    # We read what the original wrote.
    raw = KazooClient(stack.address("zookeeper"))
    raw.start(30)
    try:
        content, _ = raw.get(f"{ROOT}/{LedgerLayout.FLAT.path(ledger_id)}")
    finally:
        raw.stop()
        raw.close()
    assert encode_metadata(decode_metadata(content)) == content


async def test_a_ledger_is_taken_over_and_its_writer_shut_out(client: Client) -> None:
    store, taker = await client(ALL), await client(ALL)
    ledger_id = await store.create()
    await append_all(store, ledger_id, payloads(50))
    assert await taker.open_and_fence(ledger_id) == 49
    with pytest.raises(LedgerWriteError, match="taken over"):
        await store.append(ledger_id, 50, b"late")
    with pytest.raises(LedgerFencedError):
        await store.append(ledger_id, 51, b"later")
    assert await read_all(taker, ledger_id, 49) == payloads(50)
    assert await taker.open_and_fence(ledger_id) == 49


async def test_a_ledger_is_taken_over_in_the_middle_of_a_burst(client: Client) -> None:
    store, taker = await client(ALL), await client(ALL)
    ledger_id = await store.create()
    futures = [store.start_append(ledger_id, number, b"%d" % number) for number in range(2000)]
    await futures[300]
    last = await taker.open_and_fence(ledger_id)
    outcomes = await asyncio.gather(*futures, return_exceptions=True)
    acknowledged = [number for number, outcome in enumerate(outcomes) if outcome is None]
    assert all(isinstance(outcome, LedgerError) for outcome in outcomes[len(acknowledged) :])
    assert acknowledged == list(range(len(acknowledged)))
    assert 300 < len(acknowledged) <= last + 1
    assert await read_all(taker, ledger_id, last) == [b"%d" % number for number in range(last + 1)]


async def test_an_empty_ledger_is_fenced_too(client: Client) -> None:
    store, taker = await client(ALL), await client(ALL)
    ledger_id = await store.create()
    assert await taker.open_and_fence(ledger_id) == -1
    with pytest.raises(LedgerError):
        await store.append(ledger_id, 0, b"late")
    assert await taker.read(ledger_id, 0, entries_max=1, bytes_max=1) == []


async def test_another_master_key_is_refused(client: Client) -> None:
    store = await client(ALL)
    ledger_id = await store.create()
    await append_all(store, ledger_id, payloads(3))
    stranger = await client(ALL)
    stranger._key = bytes(20)
    with pytest.raises(LedgerStoreUnavailableError, match="master key is wrong"):
        await stranger.open_and_fence(ledger_id)
    assert await (await client(ALL)).open_and_fence(ledger_id) == 2


async def test_killing_a_bookie_loses_nothing(client: Client, stack: DevServers) -> None:
    names = [server.name for server in stack.status() if server.kind == "bookie43"]
    assert len(names) == BOOKIES
    pair = await client(PAIR)
    degraded = await client(ALL)
    first, second = await pair.create(), await degraded.create()
    await append_all(pair, first, payloads(100))
    await append_all(degraded, second, payloads(100))
    victim = names[0]
    await asyncio.to_thread(stack.kill, victim)
    try:
        # The first ledger replaces the killed bookie if it used it. The other has no spare, and goes on with two
        # bookies.
        await append_all(pair, first, payloads(100), 100)
        await append_all(degraded, second, payloads(100), 100)
        taker = await client(ALL)
        for ledger_id in (first, second):
            assert await taker.open_and_fence(ledger_id) == 199
            assert await read_all(taker, ledger_id, 199) == payloads(100) * 2
        held = await taker._cluster.metadata.read(first)
        assert held.value.state is LedgerState.CLOSED
    finally:
        await asyncio.to_thread(stack.start, victim)
