"""Prove that a second standalone hub is refused, or replaces the first one, and never shares with it.

Properties: at most one acknowledging owner of a topic, once the replaced hub has noticed; a replaced hub changes
nothing in the metadata of its successor; no topic ever gets the messages of another.
"""

import asyncio
import shutil
from pathlib import Path
from typing import Final

import pytest

from hedwig.clock import SystemClock
from hedwig.errors import NotResponsibleForTopicError
from hedwig.hub.standalone import StandaloneLiveness
from hedwig.hub.topics.known_owners import KnownOwners
from hedwig.hub.topics.ownership import Ownership
from hedwig.metadata import open_metadata
from hedwig.model import HubInfo, Topic
from hedwig.status import StatusCode
from hedwig.versions import NEW
from hedwig.wire import CreateOrAttach, Delivery
from tests.faults.support.waiting import until
from tests.hub.support.running import RunningHub
from tests.hub.support.wire_channel import WireChannel

T: Final = b"t"
U: Final = b"u"


def _hub(directory: Path, name: str, *settings: str, replaces: bool = False) -> RunningHub:
    """Return a hub with data of its own, on metadata that all hubs of the test share."""
    arguments = ("--replace-standalone",) if replaces else ()
    shared = f"metadata=sqlite://{directory / 'shared.db'}"
    return RunningHub(directory / name, shared, *settings, arguments=arguments)


async def _publish(hub: RunningHub, topic: bytes, count: int) -> list[int | StatusCode]:
    """Publish one after the other; return the ids, or the statuses of refused ones, 503 if the hub ended."""
    outcomes: list[int | StatusCode] = []
    try:
        async with await WireChannel.open(hub.port) as channel:
            for _ in range(count):
                answer = await channel.answer(await channel.publish(topic, b"%s of %d" % (topic, hub.pid)))
                outcomes.append(answer.status if answer.published is None else answer.published.local)
    except OSError:
        outcomes.append(StatusCode.UNCERTAIN_STATE)
    return outcomes


async def _delivered(hub: RunningHub, topic: bytes, subscriber: bytes, count: int) -> list[tuple[int, bytes]]:
    async with await WireChannel.open(hub.port) as channel:
        txn_id = await channel.subscribe(topic, subscriber, CreateOrAttach.ATTACH)
        assert (await channel.answer(txn_id)).status is StatusCode.SUCCESS
        deliveries = [await channel.receive() for _ in range(count)]
    return [
        (each.message.seq_id.local, each.message.body)
        for each in deliveries
        if isinstance(each, Delivery) and each.message.seq_id is not None
    ]


async def _subscribe(hub: RunningHub, topic: bytes, subscriber: bytes) -> None:
    async with await WireChannel.open(hub.port) as channel:
        answer = await channel.answer(await channel.subscribe(topic, subscriber))
        assert answer.status is StatusCode.SUCCESS


async def _assert_ends(hub: RunningHub, *words: str) -> None:
    await until(lambda: not hub.is_running, "the end of the hub that was replaced")
    assert hub.wait() == 1
    last = hub.log.splitlines()[-1]
    assert last.lower().startswith("error: ")
    for word in words:
        assert word in last


async def test_second_hub_on_the_same_directory_is_refused_and_the_first_serves_on(tmp_path: Path) -> None:
    with _hub(tmp_path, "first") as first:
        assert await _publish(first, T, 2) == [1, 2]
        second = _hub(tmp_path, "second")
        second.data = first.data
        with pytest.raises(RuntimeError, match=f"in use by process {first.pid}; stop it, or choose another"):
            second.start()
        assert await _publish(first, T, 2) == [3, 4]


async def test_second_hub_on_the_same_metadata_is_refused_and_the_first_serves_on(tmp_path: Path) -> None:
    with _hub(tmp_path, "first") as first:
        assert await _publish(first, T, 2) == [1, 2]
        second = _hub(tmp_path, "second")
        with pytest.raises(RuntimeError, match=f"belongs to the standalone hub .* started at {first.address}"):
            second.start()
        assert await _publish(first, T, 2) == [3, 4]


async def test_replaced_hub_ends_by_itself_and_says_who_replaced_it(tmp_path: Path) -> None:
    with _hub(tmp_path, "first") as first:
        async with await WireChannel.open(first.port) as channel:
            assert (await channel.answer(await channel.subscribe(T, b"s"))).status is StatusCode.SUCCESS
            with _hub(tmp_path, "second", replaces=True) as second:
                await _assert_ends(first, "has replaced this hub", second.address)
                with pytest.raises(ConnectionResetError):
                    await channel.receive()
                assert await _publish(second, U, 2) == [1, 2]


async def test_replaced_hub_takes_no_topic_from_its_successor(tmp_path: Path) -> None:
    with _hub(tmp_path, "first") as first:
        await _subscribe(first, T, b"s")
        with _hub(tmp_path, "second", replaces=True) as second:
            for topic in (T, U):
                assert await _publish(second, topic, 3) == [1, 2, 3]
            for topic in (T, U):
                # The first hub may still consider itself the owner. Its next change of the metadata shows that it is
                # not.
                assert not any(type(each) is int for each in await _publish(first, topic, 20))
            for topic in (T, U):
                assert await _publish(second, topic, 3) == [4, 5, 6]
            bodies = [b"t of %d" % second.pid] * 6
            assert await _delivered(second, T, b"s", 6) == list(enumerate(bodies, 1))
            await _assert_ends(first)


async def test_replaced_hub_sends_clients_to_its_successor(tmp_path: Path) -> None:
    async with await open_metadata(f"sqlite://{tmp_path / 'shared.db'}") as store:
        epochs = [await store.register_standalone(name, f"{name}:1:-1", replace=True) for name in ("first", "second")]
        liveness = StandaloneLiveness(HubInfo(host="first", port=1, ssl_port=None, epoch=epochs[0]), store)
        successor = HubInfo(host="second", port=2, ssl_port=None, epoch=epochs[1])
        await store.ownership.write(Topic(T), successor, NEW)
        with pytest.raises(NotResponsibleForTopicError, match="second:2"):
            await Ownership(store.ownership, liveness, KnownOwners(1, 0, SystemClock(), liveness.seems_alive)).claim(
                Topic(T), should_claim=True
            )


async def test_topic_whose_messages_are_elsewhere_is_refused_and_gets_no_others(tmp_path: Path) -> None:
    """Ledgers of two data directories must not have the same ids."""
    with _hub(tmp_path, "first") as first:
        await _subscribe(first, T, b"s")
        assert await _publish(first, T, 3) == [1, 2, 3]
        first.kill()
        with _hub(tmp_path, "second", replaces=True) as second:
            for topic in (b"v", b"w", U):
                assert await _publish(second, topic, 3) == [1, 2, 3]
            assert await _publish(second, T, 1) == [StatusCode.UNEXPECTED_CONDITION]
            async with await WireChannel.open(second.port) as channel:
                answer = await channel.answer(await channel.subscribe(T, b"s"))
            assert answer.status is StatusCode.UNEXPECTED_CONDITION
            assert "no ledger" in (answer.text or "")


async def test_copy_of_a_data_directory_with_the_same_metadata_replaces_the_hub_that_it_was_copied_from(
    tmp_path: Path,
) -> None:
    """A copy looks like a restart to the first hub's metadata, so the first hub ends.

    Messages acknowledged since the copy are only in the first hub's directory. The copy continues from its own content.
    """
    with _hub(tmp_path, "first") as first:
        await _subscribe(first, T, b"s")
        assert await _publish(first, T, 3) == [1, 2, 3]
        (tmp_path / "copy").mkdir()
        await asyncio.to_thread(shutil.copytree, first.data, tmp_path / "copy" / "data")
        with _hub(tmp_path, "copy") as copy:
            assert await _publish(copy, T, 2) == [4, 5]
            await _assert_ends(first, "has replaced this hub", copy.address)
            bodies = [b"t of %d" % first.pid] * 3 + [b"t of %d" % copy.pid] * 2
            assert await _delivered(copy, T, b"s", 5) == list(enumerate(bodies, 1))
            async with await open_metadata(f"sqlite://{tmp_path / 'shared.db'}") as store:
                owner = await store.ownership.read(Topic(T))
            assert owner is not None
            assert owner.value.port == copy.port
