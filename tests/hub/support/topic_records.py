"""The records of one topic, read and written past the hub that serves it."""

from hedwig.hub.hub import Hub
from hedwig.model import HubInfo, LedgerRange, LedgerRanges, MessageSeqId, SubscriberId, Topic
from hedwig.versions import ANY, NEW
from hedwig.wire import Message

T, S = Topic(b"T"), SubscriberId(b"s")


async def owner_of(hub: Hub, topic: bytes = T) -> HubInfo | None:
    record = await hub.metadata.ownership.read(Topic(topic))
    return record.value if record is not None else None


async def ranges_of(hub: Hub) -> tuple[LedgerRange, ...]:
    record = await hub.metadata.persistence.read(T)
    assert record is not None
    return record.value.ranges


async def write_ranges(hub: Hub, *ranges: LedgerRange) -> None:
    """Write the record of the topic, as another client would."""
    await hub.metadata.persistence.write(T, LedgerRanges(ranges), ANY)


async def release(hub: Hub, topic: bytes = T) -> None:
    owned = hub.topics.get(Topic(topic))
    assert owned is not None
    await hub.topics.release(owned)


async def abandon(hub: Hub) -> None:
    """Make a former start of the hub own the topic, which never released it, instead of this one."""
    await release(hub)
    former = HubInfo(host=hub.me.host, port=hub.me.port, epoch=hub.me.epoch - 1)
    await hub.metadata.ownership.write(T, former, NEW)


async def ledger_with(hub: Hub, first: int, last: int, *, seal: bool) -> int:
    """Return a ledger with the messages `first` to `last`, as a former owner left it."""
    ledger_id = await hub.ledgers.create()
    for number in range(first, last + 1):
        stored = Message(b"%d" % number).accepted(MessageSeqId(number), b"standalone").encode()
        await hub.ledgers.append(ledger_id, number - first, stored)
    if seal:
        await hub.ledgers.close(ledger_id)
    return ledger_id
