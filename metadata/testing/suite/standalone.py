"""Prove that a store knows its one standalone hub, and that no start count is ever given twice.

The stores of these tests were formatted without a record of a hub, as releases before that record did.
"""

import asyncio

import msgpack
import pytest

from hedwig.errors import CorruptRecordError, InvalidArgumentError, StandaloneHubExistsError
from hedwig.metadata import MetadataStore, StandaloneHub
from hedwig.metadata.testing.clients import Clients
from hedwig.metadata.testing.probe import GARBAGE, Probe
from hedwig.metadata.testing.subject import Subject

NAME = "standalone-hub"
AT_ONCE = 8


@pytest.fixture
async def without_hub(clients: Clients, subject: Subject) -> MetadataStore:
    """A client of the module's store, in which no hub is registered."""
    store = await clients.open(subject)
    await (await clients.probe(subject, store)).set_named(NAME, None)
    return store


def _hub(hub_id: str, address: str, starts: int) -> StandaloneHub:
    return StandaloneHub(hub_id=hub_id, address=address, starts=starts)


async def test_each_start_counts_one_more(without_hub: MetadataStore, other: MetadataStore, probe: Probe) -> None:
    assert await without_hub.standalone_hub() is None
    assert await probe.named(NAME) is None
    tokens = set()
    for starts in range(1, 6):
        client, address = (without_hub, other)[starts % 2], f"10.0.0.5:{4080 + starts % 3}"
        assert await client.register_standalone("hub-1", address) == starts
        for reader in (without_hub, other):
            assert await reader.standalone_hub() == _hub("hub-1", address, starts)
        fields = msgpack.unpackb(await probe.named(NAME) or b"")
        tokens.add(fields.pop("t"))
        assert fields == {"h": "hub-1", "a": address, "s": starts}
    assert len(tokens) == 5


async def test_another_hub_is_refused_and_told_what_to_do(
    without_hub: MetadataStore, other: MetadataStore, probe: Probe, subject: Subject
) -> None:
    await without_hub.register_standalone("hub-1", "10.0.0.5:4080")
    stored = await probe.named(NAME)
    for client in (without_hub, other):
        with pytest.raises(StandaloneHubExistsError) as refusal:
            await client.register_standalone("hub-2", "10.0.0.6:4080")
        assert (refusal.value.hub_id, refusal.value.address) == ("hub-1", "10.0.0.5:4080")
        text = str(refusal.value)
        for part in (
            subject.url,
            "hub-1",
            "10.0.0.5:4080",
            "hub-2",
            "data directory",
            "hedwig-hub --replace-standalone",
        ):
            assert part in text
        assert "\n" not in text
    assert await probe.named(NAME) == stored
    assert await without_hub.register_standalone("hub-1", "10.0.0.5:4080") == 2


async def test_replacement_goes_on_counting_and_shuts_the_old_hub_out(
    without_hub: MetadataStore, other: MetadataStore
) -> None:
    assert await without_hub.register_standalone("hub-1", "a:1", replace=True) == 1
    assert await without_hub.register_standalone("hub-1", "a:1") == 2
    assert await other.register_standalone("hub-2", "b:1", replace=True) == 3
    with pytest.raises(StandaloneHubExistsError):
        await without_hub.register_standalone("hub-1", "a:1")
    assert await other.register_standalone("hub-2", "b:2") == 4
    assert await without_hub.register_standalone("hub-1", "a:1", replace=True) == 5
    assert await other.standalone_hub() == _hub("hub-1", "a:1", 5)


@pytest.mark.parametrize("ids", [1, AT_ONCE], ids=["one hub", "hubs that replace one another"])
async def test_starts_at_once_never_share_a_count(
    ids: int, without_hub: MetadataStore, subject: Subject, clients: Clients
) -> None:
    stores = [without_hub, *[await clients.open(subject) for _ in range(3)]]

    async def start(number: int) -> tuple[int, str]:
        hub_id = f"hub-{number % ids}"
        client = stores[number % len(stores)]
        return await client.register_standalone(hub_id, f"{hub_id}:{number}", replace=ids > 1), f"{hub_id}:{number}"

    started = await asyncio.gather(*(start(number) for number in range(AT_ONCE)))
    assert sorted(count for count, _ in started) == list(range(1, AT_ONCE + 1))
    last = await stores[0].standalone_hub()
    assert last is not None
    assert (last.starts, last.address) == max(started)


async def test_of_different_hubs_at_once_one_wins(
    without_hub: MetadataStore, subject: Subject, clients: Clients
) -> None:
    stores = [without_hub, *[await clients.open(subject) for _ in range(3)]]
    outcomes = await asyncio.gather(
        *(stores[n % len(stores)].register_standalone(f"hub-{n}", f"host-{n}:1") for n in range(AT_ONCE)),
        return_exceptions=True,
    )
    (winner,) = [n for n, outcome in enumerate(outcomes) if outcome == 1]
    losers = [outcome for n, outcome in enumerate(outcomes) if n != winner]
    assert [type(loser) for loser in losers] == [StandaloneHubExistsError] * (AT_ONCE - 1)
    assert {loser.hub_id for loser in losers if isinstance(loser, StandaloneHubExistsError)} == {f"hub-{winner}"}
    assert await stores[0].standalone_hub() == _hub(f"hub-{winner}", f"host-{winner}:1", 1)


async def test_count_outlives_clients_formats_and_wipes(kept_subject: Subject) -> None:
    for starts in (1, 2):
        async with await kept_subject.open() as store:
            assert await store.register_standalone("hub-1", "a:1") == starts
    for starts, wipe in ((3, False), (4, True), (5, True)):
        await kept_subject.format(wipe=wipe)
        async with await kept_subject.open() as store:
            assert await store.standalone_hub() == _hub("hub-1", "a:1", starts - 1)
            with pytest.raises(StandaloneHubExistsError):
                await store.register_standalone("hub-2", "b:1")
            assert await store.register_standalone("hub-1", "a:1") == starts


async def test_fields_of_a_newer_format_are_kept(without_hub: MetadataStore, probe: Probe) -> None:
    await without_hub.register_standalone("hub-1", "a:1")
    fields = msgpack.unpackb(await probe.named(NAME) or b"")
    await probe.set_named(NAME, msgpack.packb(fields | {"newer": [1, b"\x00"]}))
    assert await without_hub.register_standalone("hub-1", "a:2") == 2
    assert await without_hub.register_standalone("hub-2", "b:1", replace=True) == 3
    assert msgpack.unpackb(await probe.named(NAME) or b"")["newer"] == [1, b"\x00"]


DAMAGED = {
    "garbage": GARBAGE,
    "no map": msgpack.packb([1]),
    "no count": msgpack.packb({"h": "hub-1", "a": "a:1", "t": b"12345678"}),
    "count of zero": msgpack.packb({"h": "hub-1", "a": "a:1", "s": 0, "t": b"12345678"}),
    "text for a count": msgpack.packb({"h": "hub-1", "a": "a:1", "s": "1", "t": b"12345678"}),
    "bytes for an id": msgpack.packb({"h": b"hub-1", "a": "a:1", "s": 1, "t": b"12345678"}),
}


@pytest.mark.parametrize("damage", DAMAGED.values(), ids=DAMAGED)
async def test_unreadable_record_is_never_counted_on(damage: bytes, without_hub: MetadataStore, probe: Probe) -> None:
    await without_hub.register_standalone("hub-1", "a:1")
    await probe.set_named(NAME, damage)
    for attempt in (
        without_hub.standalone_hub(),
        without_hub.register_standalone("hub-1", "a:1"),
        without_hub.register_standalone("hub-2", "b:1", replace=True),
    ):
        with pytest.raises(CorruptRecordError) as refusal:
            await attempt
        assert NAME in str(refusal.value)
        assert "\n" not in str(refusal.value)
    assert await probe.named(NAME) == damage
    # The description of the store reports the damage, and everything else.
    described = await without_hub.describe()
    assert NAME in described["standalone hub"]
    assert "backend" in described


@pytest.mark.parametrize("text", ["", "x" * 256, "two\nlines", "zero\0byte", "\ud800"], ids=ascii)
async def test_text_that_no_record_holds_is_refused(text: str, without_hub: MetadataStore, probe: Probe) -> None:
    for attempt in (without_hub.register_standalone(text, "a:1"), without_hub.register_standalone("hub-1", text)):
        with pytest.raises(InvalidArgumentError) as refusal:
            await attempt
        assert "\n" not in str(refusal.value)
    assert await probe.named(NAME) is None
    assert await without_hub.register_standalone("Hub Nr. 1 – " + "ü" * 200, "x" * 255) == 1


async def test_description_names_the_hub(without_hub: MetadataStore) -> None:
    assert "standalone hub" not in await without_hub.describe()
    await without_hub.register_standalone("hub-1", "10.0.0.5:4080")
    await without_hub.register_standalone("hub-1", "10.0.0.5:4080")
    assert (await without_hub.describe())["standalone hub"] == "hub-1 at 10.0.0.5:4080, start 2"


async def test_registration_is_no_record_of_a_topic(without_hub: MetadataStore) -> None:
    before = await without_hub.count(), [topic async for topic in without_hub.topics()]
    await without_hub.register_standalone("hub-1", "a:1")
    assert (await without_hub.count(), [topic async for topic in without_hub.topics()]) == before


async def test_cancelled_registration_leaves_the_client_usable(
    without_hub: MetadataStore, other: MetadataStore
) -> None:
    given = []
    for turns in range(12):
        registering = asyncio.ensure_future(without_hub.register_standalone("hub-1", "a:1"))
        for _ in range(turns):
            await asyncio.sleep(0)
        registering.cancel()
        (outcome,) = await asyncio.gather(registering, return_exceptions=True)
        given += [outcome] if isinstance(outcome, int) else []
        assert isinstance(outcome, int | asyncio.CancelledError)
        given.append(await other.register_standalone("hub-1", "a:1"))
    assert given == sorted(set(given))
    record = await without_hub.standalone_hub()
    assert record is not None
    assert record.starts == given[-1]
