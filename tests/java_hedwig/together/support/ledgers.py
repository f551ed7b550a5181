"""The requirements on the ledgers of a topic, whichever hub wrote each: they are like those of the original."""

import asyncio
from random import Random
from typing import Final

from google.protobuf import text_format
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from hedwig.clock import SystemClock
from hedwig.hub.ledgers.bookkeeper import bookkeeper_pb2 as bk
from hedwig.hub.ledgers.bookkeeper.options import BookkeeperOptions
from hedwig.hub.ledgers.bookkeeper.records.znode_paths import LedgerLayout
from hedwig.hub.ledgers.bookkeeper.store import BookkeeperLedgerStore
from hedwig.hub.ledgers.bookkeeper.wire.quorums import Quorums
from hedwig.wire import pubsub_pb2 as pb
from tests.hub.ledgers.bookkeeper.support.sessions import session_with
from tests.java_hedwig.together.support.deployment import QUORUMS, Deployment
from tests.java_hedwig.together.support.traffic import Traffic

__all__ = ["check_ledgers"]

_ROOT: Final = "/ledgers"
_PASSWORD: Final = b"sillysecret"
_FORMAT_2: Final = b"BookieMetadataFormatVersion\t2\n"


def check_ledgers(deployment: Deployment, traffic: Traffic) -> None:
    """Fail unless range records and ledgers hold a topic as the original keeps it, with one entry for each message."""
    ranges = deployment.ranges(traffic.topic).ranges
    with deployment.java.znodes() as raw:
        stored = [_stored(raw, each.ledgerId) for each in ranges]
    assert None not in stored, f"ledgers are missing: {stored} of {ranges}"
    next_id = 1
    for each, content in zip(ranges, stored, strict=True):
        assert content is not None
        assert content.startswith(_FORMAT_2)
        ledger = text_format.Parse(content[len(_FORMAT_2) :].decode(), bk.LedgerMetadataFormat())
        assert (ledger.ensembleSize, ledger.quorumSize, ledger.ackQuorumSize) == tuple(QUORUMS.values())
        assert ledger.digestType == bk.LedgerMetadataFormat.CRC32
        assert ledger.password == _PASSWORD
        assert not ledger.customMetadata
        assert each.startSeqIdIncluded == next_id
        if each.HasField("endSeqIdIncluded"):
            assert ledger.state == bk.LedgerMetadataFormat.CLOSED
            assert ledger.lastEntryId == each.endSeqIdIncluded.localComponent - each.startSeqIdIncluded
            next_id = each.endSeqIdIncluded.localComponent + 1
        else:
            assert each is ranges[-1]
    closed = [each for each in ranges if each.HasField("endSeqIdIncluded")]
    messages = asyncio.run(_read(deployment.java.zookeeper, closed))
    assert [message.msgId.localComponent for message in messages] == list(range(1, next_id))
    traffic.check_delivered([(message.msgId.localComponent, message.body) for message in messages])


def _stored(raw: KazooClient, ledger_id: int) -> bytes | None:
    """Return the metadata of a ledger, or None if there is none."""
    for layout in (LedgerLayout.HIERARCHICAL, LedgerLayout.FLAT):
        try:
            return bytes(raw.get(f"{_ROOT}/{layout.path(ledger_id)}")[0])
        except NoNodeError:
            continue
    return None


async def _read(zookeeper: str, ranges: list[pb.LedgerRange]) -> list[pb.Message]:
    options = BookkeeperOptions.for_original_hub(Quorums(ensemble=3, write=2, ack=2))
    messages: list[pb.Message] = []
    async with session_with(zookeeper) as session:
        store = await BookkeeperLedgerStore.open(session, _ROOT, options, SystemClock(), Random())
        for each in ranges:
            entries = await store.read(each.ledgerId, 0, entries_max=1000, bytes_max=1 << 20)
            messages += [pb.Message.FromString(entry) for entry in entries]
        await store.aclose()
    return messages
