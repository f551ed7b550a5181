"""We and the Java client and shell of BookKeeper 4.17 read each other's ledgers, closed or left open."""

import asyncio
import re
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from hedwig.errors import LedgerError, LedgerFencedError
from hedwig.hub.ledgers.bookkeeper.cluster import BookieClusterOptions
from hedwig.hub.ledgers.bookkeeper.options import BookkeeperOptions
from hedwig.hub.ledgers.bookkeeper.records.ledger_metadata import LedgerState
from hedwig.hub.ledgers.bookkeeper.store import BookkeeperLedgerStore
from hedwig.hub.ledgers.bookkeeper.wire.digests import DigestKind
from hedwig.hub.ledgers.bookkeeper.wire.quorums import Quorums
from tests.hub.ledgers.bookkeeper.support.bookies import bookkeeper_store
from tests.hub.ledgers.bookkeeper.support.java_ledgers import JavaError, JavaLedgers, java_payload, summary, uri
from tests.hub.ledgers.support.contents import fill, payload, read_all
from tests.support.servers import RunningServers

STRIPES = Quorums(ensemble=3, write=2, ack=2)
PASSWORD = b"pass \xff"
JAVA_NAMES = {DigestKind.HMAC: "MAC"}

Open = Callable[..., Awaitable[BookkeeperLedgerStore]]


@pytest.fixture(scope="module")
def java(servers: RunningServers) -> Iterator[JavaLedgers]:
    servers.address("bookkeeper")
    with JavaLedgers(servers.launcher) as java:
        yield java


@pytest.fixture
def shell(servers: RunningServers, tmp_path: Path) -> Callable[..., str]:
    """Run a command of the Java shell, and return its output."""
    servers.address("bookkeeper")
    conf = tmp_path / "shell.conf"
    settings = {
        "metadataServiceUri": uri(servers.launcher, "zk+hierarchical"),
        "allowLoopback": "true",
        "journalDirectories": tmp_path / "journal",
        "ledgerDirectories": tmp_path / "ledgers",
    }
    conf.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))

    def run(*arguments: str) -> str:
        words = ["-conf", str(conf), *arguments]
        command = servers.launcher.java_command("bookkeeper", "org.apache.bookkeeper.bookie.BookieShell", words)
        ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
        return ran.stdout + ran.stderr

    return run


@pytest.fixture
async def open_store(servers: RunningServers) -> AsyncIterator[Open]:
    """Open a store: `open_store(digest, metadata_format)`."""
    servers.address("bookkeeper")
    async with AsyncExitStack() as opened:

        async def open_(digest: DigestKind = DigestKind.CRC32C, metadata_format: int = 3) -> BookkeeperLedgerStore:
            options = BookkeeperOptions(
                quorums=STRIPES,
                digest=digest,
                password=PASSWORD,
                metadata_format=metadata_format,
                cluster=BookieClusterOptions(tell_lac_after_s=0.05),
                custom={"application": b"hedwig", "deployment": b"north"} if metadata_format == 3 else {},
            )
            return await opened.enter_async_context(bookkeeper_store(servers.address("zookeeper"), options))

        yield open_


def whose(digest: DigestKind) -> tuple[str, str]:
    """Return the digest and the password in the form that Java expects."""
    return JAVA_NAMES.get(digest, digest.name), PASSWORD.hex()


def ours(ledger: int, count: int) -> list[bytes]:
    return [payload(ledger, entry) for entry in range(count)]


@pytest.mark.parametrize("metadata_format", [2, 3])
@pytest.mark.parametrize("digest", list(DigestKind))
async def test_java_reads_and_recovers_what_we_wrote(
    java: JavaLedgers, open_store: Open, digest: DigestKind, metadata_format: int
) -> None:
    if metadata_format == 2 and digest in (DigestKind.CRC32C, DigestKind.DUMMY):
        digest = DigestKind.CRC32
    store = await open_store(digest, metadata_format)
    closed, left, empty = await store.create(), await store.create(), await store.create()
    await fill(store, [closed, left], range(100))
    await store.close(closed)
    assert await java("read", closed, *whose(digest)) == summary(ours(closed, 100))
    # A client that opens a ledger that its writer left open takes it over.
    assert await java("read", left, *whose(digest)) == summary(ours(left, 100))
    assert await java("read", empty, *whose(digest)) == summary([])
    for ledger, next_entry in ((left, 100), (empty, 0)):
        with pytest.raises(LedgerError):
            await store.append(ledger, next_entry, b"late")
        with pytest.raises(LedgerFencedError):
            await store.append(ledger, next_entry + 1, b"later")
        assert await store.open_and_fence(ledger) == next_entry - 1
    assert await read_all(store, left) == ours(left, 100)


@pytest.mark.parametrize("digest", list(DigestKind))
async def test_we_read_and_recover_what_java_wrote(java: JavaLedgers, open_store: Open, digest: DigestKind) -> None:
    store = await open_store(digest)
    expected = [java_payload(entry) for entry in range(150)]
    ledgers = [int(await java("create", *whose(digest), 3, 2, 2, "application", "java")) for _ in range(3)]
    closed, left, empty = ledgers
    for ledger in (closed, left):
        assert await java("append", ledger, 0, 150) == "149"
    await java("close", closed)
    assert await store.last_entry_id(closed) == 149
    assert await read_all(store, closed) == expected
    assert (await store._cluster.metadata.read(closed)).value.custom == {"application": b"java"}
    assert await store.open_and_fence(left) == 149
    assert await store.open_and_fence(empty) == -1
    assert await read_all(store, left) == expected
    for ledger, next_entry in ((left, 150), (empty, 0)):
        with pytest.raises(JavaError, match="Fenced"):
            await java("append", ledger, next_entry, 1)
        record = (await store._cluster.metadata.read(ledger)).value
        assert (record.state, record.last_entry_id) == (LedgerState.CLOSED, next_entry - 1)
        assert record.length == sum(map(len, expected[:next_entry]))
        assert await java("read", ledger, *whose(digest)) == summary(expected[:next_entry])


async def test_java_takes_over_in_the_middle_of_a_burst(java: JavaLedgers, open_store: Open) -> None:
    store = await open_store()
    ledger = await store.create()
    appends = [store.start_append(ledger, entry, payload(ledger, entry)) for entry in range(3000)]
    await appends[200]
    printed = await java("read", ledger, *whose(DigestKind.CRC32C))
    results = await asyncio.gather(*appends, return_exceptions=True)
    acknowledged = [entry for entry, result in enumerate(results) if result is None]
    assert all(isinstance(result, LedgerError) for result in results[len(acknowledged) :])
    last = int(printed.split()[0])
    assert acknowledged == list(range(len(acknowledged)))
    assert 200 < len(acknowledged) <= last + 1
    assert printed == summary(ours(ledger, last + 1))
    assert await store.open_and_fence(ledger) == last
    assert await read_all(store, ledger) == ours(ledger, last + 1)


async def test_each_follows_a_ledger_that_the_other_has_open(java: JavaLedgers, open_store: Open) -> None:
    store = await open_store()
    ledger = await store.create()
    await fill(store, [ledger], range(20))
    theirs = int(await java("create", *whose(DigestKind.CRC32C), 3, 2, 2, "application", "java"))
    assert await java("append", theirs, 0, 20) == "19"
    # Both clients also report the last entry, after a moment without further appends.
    async with asyncio.timeout(20):
        while await java("follow", ledger, *whose(DigestKind.CRC32C)) != summary(ours(ledger, 20)):  # noqa: ASYNC110 (Java tells us of nothing)
            await asyncio.sleep(0.05)
        reader = await open_store()
        while await reader.last_entry_id(theirs) < 19:  # noqa: ASYNC110 (as above)
            await asyncio.sleep(0.05)
    assert await read_all(reader, theirs) == [java_payload(entry) for entry in range(20)]
    # The readers disturbed neither writer.
    await fill(store, [ledger], range(20, 25))
    assert await java("append", theirs, 20, 5) == "24"
    assert await store.close(ledger) == 24


async def test_java_sees_whose_a_ledger_is(java: JavaLedgers, open_store: Open, shell: Callable[..., str]) -> None:
    store = await open_store()
    ledger = await store.create({"topic": b"weather"})
    await fill(store, [ledger], range(3))
    await store.close(ledger)
    about = await java("about", ledger, *whose(DigestKind.CRC32C))
    assert about == "application=hedwig deployment=north topic=weather"
    said = await asyncio.to_thread(shell, "ledgermetadata", "-ledgerid", str(ledger))
    for words in (
        "ensembleSize=3, writeQuorumSize=2, ackQuorumSize=2, state=CLOSED",
        "length=300, lastEntryId=2",
        "digestType=CRC32C",
        "application=",
        "deployment=",
        "topic=",
    ):
        assert words in said


async def test_the_java_shell_reads_our_entries(open_store: Open, shell: Callable[..., str]) -> None:
    store = await open_store()
    ledger = await store.create()
    await fill(store, [ledger], range(5))
    await store.close(ledger)
    said = await asyncio.to_thread(shell, "readledger", "-ledgerid", str(ledger), "-msg")
    for entry in range(5):
        assert payload(ledger, entry).decode() in said
    listed = await asyncio.to_thread(shell, "listledgers")
    assert re.search(rf"ledgerID: {ledger}\b", listed)
    await asyncio.to_thread(shell, "deleteledger", "-ledgerid", str(ledger), "-force")
    with pytest.raises(LedgerError):
        await (await open_store()).last_entry_id(ledger)
