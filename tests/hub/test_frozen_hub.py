"""Prove that a frozen hub writes nothing, keeps its pending writes, and does not stay frozen for ever."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from random import Random
from typing import Any, Final

import pytest

from hedwig.client import ClientOptions, HedwigClient, HubAddress
from hedwig.clock import SystemClock
from hedwig.errors import (
    ConfigurationError,
    MetadataUnavailableError,
    ServiceDownError,
    UncertainStateError,
)
from hedwig.hub.hub import Hub
from hedwig.metadata import open_metadata
from hedwig.metadata.contract.write_gate import WriteGate
from hedwig.metadata.freezing import FreezeLostError, FreezeState, StoreFreeze, read_freeze
from hedwig.model import SubscriberId, Topic
from tests.hub.admin.test_admin_endpoint import locked
from tests.hub.conftest import StartHub
from tests.hub.support.admin_client import AdminClient

__all__: list[str] = []

NEWS: Final = Topic(b"news")
READER: Final = SubscriberId(b"reader")
_DEADLINE_S: Final = 60.0
_LONG_S: Final = 3600.0
"""A lease that no test outlives."""
_SHORT_S: Final = 2.0

Open = Callable[..., Awaitable[HedwigClient]]


@pytest.fixture
async def client_of() -> AsyncIterator[Open]:
    """Open a client of a hub."""
    async with AsyncExitStack() as stack:

        async def opened(hub: Hub, answer_timeout_s: float = 30.0) -> HedwigClient:
            address = HubAddress("127.0.0.1", hub.port)
            options = ClientOptions(hub=address, consume_every=1, answer_timeout_s=answer_timeout_s)
            return await stack.enter_async_context(HedwigClient(options))

        yield opened


def freeze_of(hub: Hub, lease_s: float = _LONG_S) -> StoreFreeze:
    records = hub.metadata.named_records
    return StoreFreeze(records, b"m-1", "sqlite:///next.db", lease_s=lease_s, clock=SystemClock(), random=Random())


def admin_of(hub: Hub) -> AdminClient:
    return AdminClient(f"127.0.0.1:{hub.admin_port}")


async def ask(hub: Hub, method: str, path: str) -> Any:
    return await asyncio.to_thread(admin_of(hub).ask, method, path, {})


async def is_frozen(hub: Hub) -> bool:
    return bool((await asyncio.to_thread(admin_of(hub).get, "/freeze"))["frozen"])


async def until(holds: Callable[[], Awaitable[bool]], what: str) -> None:
    try:
        async with asyncio.timeout(_DEADLINE_S):
            while not await holds():  # noqa: ASYNC110 (the hub is asked over HTTP)
                await asyncio.sleep(0.02)
    except TimeoutError:
        pytest.fail(f"waited {_DEADLINE_S:g} s in vain: {what}")


async def stored_pointer(hub: Hub) -> int:
    record = await hub.metadata.subscriptions.read(NEWS, READER)
    assert record is not None
    assert record.value.state is not None
    return record.value.state.consumed.local


async def dump(hub: Hub) -> list[Any]:
    """Return all records, with their versions."""
    return [(item.kind.name, item.key, item.read()) async for page in hub.metadata.scan() for item in page]


async def test_nothing_is_written_by_a_frozen_hub_and_deliveries_go_on(start_hub: StartHub, client_of: Open) -> None:
    hub = await start_hub(admin_port=0, consume_interval=1, consume_flush_s=0.05, ledger_messages_max=2)
    client = await client_of(hub)
    subscription = await client.subscribe(NEWS, READER, auto_consume=False)
    gone = SubscriberId(b"gone")
    await (await client.subscribe(NEWS, gone)).close()
    ids = [await client.publish(NEWS, b"%d" % number) for number in range(5)]
    async with asyncio.timeout(_DEADLINE_S):
        first = await anext(subscription)
    assert first.seq_id is not None
    await subscription.consume(first.seq_id)
    freeze = freeze_of(hub)
    await freeze.begin()
    answer = await ask(hub, "POST", "/freeze")
    assert (answer.status, answer.json["frozen"], answer.json["target"]) == (200, True, "sqlite:///next.db")
    before = await dump(hub)
    assert await stored_pointer(hub) == ids[0].local, "what was consumed before is on record"
    impatient = await client_of(hub, 2.0)
    for refused in (
        impatient.publish(NEWS, b"more"),
        impatient.publish(Topic(b"other"), b"more"),
        client.subscribe(NEWS, SubscriberId(b"new")),
        client.unsubscribe(NEWS, gone),
    ):
        with pytest.raises(ServiceDownError, match="frozen"):
            await refused
    async with asyncio.timeout(_DEADLINE_S):
        second = await anext(subscription)
        third = await anext(subscription)
    assert third.seq_id is not None
    last = third.seq_id.local
    assert [second.body, third.body] == [b"1", b"2"]
    await subscription.consume(third.seq_id)
    await until(lambda: _consumed(hub, last), "the hub has taken the consume")
    # The hub keeps the pointer of a subscription that closes.
    await subscription.close()
    for path in ("/seek?topic=news&subscriber=gone&to=end", "/unsubscribe?topic=news&subscriber=gone"):
        assert (await ask(hub, "POST", path)).status == 503
    await hub.topics.sweep()
    assert await dump(hub) == before
    health = await ask(hub, "GET", "/health")
    assert "sqlite:///next.db" in health.json["hindrances"][0]
    assert "hedwig_hub_frozen 1.0" in (await ask(hub, "GET", "/metrics")).text
    assert (await ask(hub, "POST", "/thaw")).status == 409

    await freeze.lift()
    assert (await ask(hub, "POST", "/thaw")).json == {
        "frozen": False, "state": None, "target": None, "since_ms": None
    }  # fmt: skip

    async def is_stored() -> bool:
        return await stored_pointer(hub) == last

    await until(is_stored, "the consume pointer is stored after the thaw")
    assert (await client.publish(NEWS, b"more")).local == 6
    await client.unsubscribe(NEWS, gone)


async def _consumed(hub: Hub, local: int) -> bool:
    topic = hub.topics.get(NEWS)
    assert topic is not None
    held = topic.subscription(READER)
    return held is not None and held.consumed == local


async def test_hub_freezes_with_its_store_only(start_hub: StartHub) -> None:
    hub = await start_hub(admin_port=0)
    answer = await ask(hub, "POST", "/freeze")
    assert (answer.status, "metadata migrate" in answer.json["error"]) == (409, True)
    assert not await is_frozen(hub)


async def test_freeze_waits_for_what_is_under_way(start_hub: StartHub, client_of: Open) -> None:
    hub = await start_hub(admin_port=0)
    client = await client_of(hub)
    await client.publish(NEWS, b"1")
    freeze = freeze_of(hub)
    await freeze.begin()
    with locked(hub.options.data_directory / "metadata.db"):
        subscribing = asyncio.create_task(client.subscribe(NEWS, READER).open())
        await until(lambda: _is_writing(hub), "the subscription is on its way to the store")
        freezing = asyncio.create_task(ask(hub, "POST", "/freeze"))
        await until(lambda: is_frozen(hub), "no other write begins")
        assert not freezing.done()
    async with asyncio.timeout(_DEADLINE_S):
        await subscribing
        assert (await freezing).status == 200
    assert await stored_pointer(hub) == 1


async def _is_writing(hub: Hub) -> bool:
    return hub.freezing.is_writing


async def test_write_that_the_store_did_not_take_hinders_no_freeze(start_hub: StartHub, client_of: Open) -> None:
    hub = await start_hub(admin_port=0, operation_timeout_s=1.0)
    client = await client_of(hub)
    await client.publish(NEWS, b"1")
    freeze = freeze_of(hub)
    await freeze.begin()
    with locked(hub.options.data_directory / "metadata.db"):
        subscribing = asyncio.create_task(client.subscribe(NEWS, READER).open())
        await until(lambda: _is_writing(hub), "the subscription is on its way to the store")
        answer = await ask(hub, "POST", "/freeze")
        assert answer.status == 200
        with pytest.raises(ServiceDownError):
            await subscribing
    assert await is_frozen(hub)
    assert not [key for kind, key, _ in await dump(hub) if kind == "subscriptions"]


async def test_freeze_that_nobody_sees_to_is_lifted_for_all(start_hub: StartHub, client_of: Open) -> None:
    hub = await start_hub(admin_port=0)
    client = await client_of(hub)
    freeze = freeze_of(hub, _SHORT_S)
    await freeze.begin()
    assert (await ask(hub, "POST", "/freeze")).status == 200
    keeping = asyncio.create_task(freeze.keep())
    # A freeze that is kept lasts longer than its lease.
    await asyncio.wait([keeping], timeout=2 * _SHORT_S)
    assert await is_frozen(hub)
    keeping.cancel()
    await asyncio.wait([keeping])
    await until(lambda: _is_thawed(hub), "the hub goes on by itself")
    record = await read_freeze(hub.metadata.named_records)
    assert record is not None
    assert record.state is FreezeState.LIFTED
    await client.publish(NEWS, b"1")
    with pytest.raises(FreezeLostError):
        await freeze.move()


async def _is_thawed(hub: Hub) -> bool:
    return not await is_frozen(hub)


async def test_no_hub_starts_on_a_store_that_was_moved(start_hub: StartHub) -> None:
    hub = await start_hub(admin_port=0)
    freeze = freeze_of(hub, _SHORT_S)
    await freeze.begin()
    await freeze.move()
    assert (await ask(hub, "POST", "/freeze")).json["state"] == "moved"
    url = hub.options.metadata_url
    await hub.close()
    with pytest.raises(ConfigurationError, match=r"sqlite:///next\.db.*metadata thaw"):
        await start_hub()
    async with await open_metadata(url) as store:
        record = await read_freeze(store.named_records)
    assert record is not None
    assert record.state is FreezeState.MOVED


async def test_hub_that_starts_in_a_freeze_is_frozen_until_that_ends(start_hub: StartHub, client_of: Open) -> None:
    hub = await start_hub()
    freeze = freeze_of(hub, _LONG_S)
    await freeze.begin()
    await hub.close()
    hub = await start_hub(admin_port=0)
    client = await client_of(hub)
    assert await is_frozen(hub)
    with pytest.raises(ServiceDownError, match="frozen"):
        await (await client_of(hub, 2.0)).publish(NEWS, b"1")
    again = freeze_of(hub)
    await again.begin()  # This is the same migration, started again.
    await again.lift()
    await until(lambda: _is_thawed(hub), "the hub goes on by itself")
    await client.publish(NEWS, b"1")


async def test_write_of_unknown_outcome_keeps_a_gate_from_settling() -> None:
    timeout_s = 0.2
    gate = WriteGate(SystemClock(), timeout_s)
    await gate.enter()
    with contextlib.suppress(asyncio.CancelledError), gate.under_way():
        gate.close("frozen")
        with pytest.raises(MetadataUnavailableError, match="frozen"):
            await gate.enter()
        with pytest.raises(UncertainStateError, match="longer than it may"):
            await gate.settle()
        raise asyncio.CancelledError
    with pytest.raises(UncertainStateError, match="is unknown"):
        await gate.settle()

    async def settles() -> bool:
        try:
            await gate.settle()
        except UncertainStateError:
            return False
        return True

    await until(settles, "the doubt is over")
    gate.hold()
    waiting = asyncio.create_task(gate.enter())
    await asyncio.sleep(0)
    assert not waiting.done()
    gate.open()
    await waiting
