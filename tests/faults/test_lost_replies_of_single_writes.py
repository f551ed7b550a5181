"""Prove for each kind of write, record by record, that a lost message never makes its report wrong.

Properties: an unknown outcome is never reported as known; no acknowledged write lost; a version never repeats.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import pytest

from hedwig.metadata.testing.clients import Clients, Names
from hedwig.metadata.testing.doors import CALLS, DOORS, Door
from hedwig.metadata.testing.subject import Subject
from tests.faults.support.history import Done, Outcome, Saw, Unknown
from tests.faults.support.network import Networked
from tests.faults.support.proxy import PASS, Action, Step, scripted
from tests.faults.support.recording import NotDone, Recorder, RecordingClient

Others: TypeAlias = Callable[[RecordingClient, bytes], Awaitable[None]]


async def _nobody(_client: RecordingClient, _topic: bytes) -> None:
    """Do not change the record."""


async def _one_write(client: RecordingClient, topic: bytes) -> None:
    await client.put(topic, await client.read(topic))


async def _three_writes(client: RecordingClient, topic: bytes) -> None:
    for _ in range(3):
        await _one_write(client, topic)


async def _deletion(client: RecordingClient, topic: bytes) -> None:
    record = await client.read(topic)
    if record is not None:
        await client.delete(topic, record)


async def _deletion_and_creation(client: RecordingClient, topic: bytes) -> None:
    await _deletion(client, topic)
    await _one_write(client, topic)


async def _deletion_creation_and_write(client: RecordingClient, topic: bytes) -> None:
    await _deletion_and_creation(client, topic)
    await _one_write(client, topic)


OTHERS: Final[dict[str, Others]] = {
    "nobody": _nobody,
    "one write": _one_write,
    "three writes": _three_writes,
    "a deletion": _deletion,
    "a deletion and a creation": _deletion_and_creation,
    "a deletion, a creation and a write": _deletion_creation_and_write,
}


async def _create(client: RecordingClient, topic: bytes, _standing: int) -> Outcome | NotDone:
    return await client.put(topic, None)


async def _update(client: RecordingClient, topic: bytes, standing: int) -> Outcome | NotDone:
    return await client.put(topic, standing)


async def _delete(client: RecordingClient, topic: bytes, standing: int) -> Outcome | NotDone:
    return await client.delete(topic, standing)


WRITES = {"create": _create, "create again": _create, "update": _update, "delete": _delete}
DOORS_ASKED: Final[tuple[Door, ...]] = (*CALLS, DOORS[3])


@pytest.mark.parametrize("others", OTHERS, ids=lambda others: others.replace(" ", "_"))
@pytest.mark.parametrize("cuts", [1, pytest.param(3, marks=pytest.mark.full)])
@pytest.mark.parametrize("action", [Action.CUT_REPLY, Action.CUT_REQUEST], ids=["reply", "request"])
@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.replace(" ", "_"))
async def test_each_write_ends_as_it_is_reported(
    write: str,
    action: Action,
    cuts: int,
    others: str,
    networked: Networked,
    networked_subject: Subject,
    clients: Clients,
    names: Names,
) -> None:
    """Lose the answer to a write, or the write itself, one or more times; others write before the next attempt."""
    direct_store = await clients.open(networked_subject)

    async def through(door: Door) -> None:
        topic = names(f"{write} {action.name} {cuts} {others} {door.label}".encode())
        recorder = Recorder()
        direct = recorder.client("direct", direct_store, door)
        standing = recorder.new_number()
        if write != "create":
            await direct.put(topic, None, standing)
        if write == "create again":
            await direct.delete(topic, standing)
        decisive = networked.decisive.get(write, 1)
        first = Step(action, meanwhile=lambda: OTHERS[others](direct, topic))
        steps = [*[PASS] * (decisive - 1), first, *[Step(action)] * (cuts - 1)]
        async with (
            networked.proxy(networked_subject, scripted(networked.write, steps)) as proxy,
            await networked.behind(proxy, networked_subject).open() as store,
        ):
            outcome = await WRITES[write](recorder.client("behind the proxy", store, door), topic, standing)
        await direct.read(topic)
        recorder.check()
        assert proxy.done[action] >= 1, "nothing was cut"
        if others == "nobody":
            assert outcome == Done()
        elif action is Action.CUT_REPLY and write in networked.decisive:
            assert isinstance(outcome, Done | Unknown)
        else:
            assert isinstance(outcome, Done | Saw | Unknown)

    async with asyncio.TaskGroup() as group:
        for door in DOORS_ASKED:
            group.create_task(through(door))
