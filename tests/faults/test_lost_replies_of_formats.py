"""Prove that a format is raised, and not lowered again, even if messages are lost."""

from typing import Final

import pytest

from hedwig.metadata import read_layout
from hedwig.metadata.contract.layout import FORMAT_MAJOR, LOGS_PREFIX, SHARED_LOGS_MAJOR
from hedwig.metadata.testing.clients import Clients
from hedwig.metadata.testing.subject import Subject
from tests.faults.support.network import Networked
from tests.faults.support.proxy import Action, Step, scripted

CUTS: Final = {"reply": Action.CUT_REPLY, "request": Action.CUT_REQUEST}


async def _format(subject: Subject) -> int:
    layout = await read_layout(subject.url)
    assert layout is not None
    return layout.major


@pytest.mark.parametrize("action", CUTS.values(), ids=CUTS)
async def test_lost_messages_hinder_neither_a_rise_nor_a_fall(
    action: Action, networked: Networked, networked_subject: Subject
) -> None:
    for major, unless in ((SHARED_LOGS_MAJOR, None), (FORMAT_MAJOR, LOGS_PREFIX)):
        steps = [Step(action), Step(action), Step(Action.PASS), Step(action)]
        async with (
            networked.proxy(networked_subject, scripted(networked.write, steps)) as proxy,
            await networked.behind(proxy, networked_subject).open() as store,
        ):
            assert await store.set_format(major, unless=unless)
        assert proxy.done[action] >= 2
        assert await _format(networked_subject) == major


@pytest.mark.parametrize("action", CUTS.values(), ids=CUTS)
async def test_lost_message_of_a_fall_undoes_no_rise(
    action: Action, networked: Networked, networked_subject: Subject, clients: Clients
) -> None:
    """Lose a message of a process that lowers the format; a hub begins a log before the next attempt."""
    direct = await clients.open(networked_subject)
    name = f"{LOGS_PREFIX}{action.name.lower().replace('_', '-')}"
    await direct.set_format(SHARED_LOGS_MAJOR)

    async def begin_log() -> None:
        assert await direct.named_records.replace(name, None, b"1")
        assert await direct.set_format(SHARED_LOGS_MAJOR)

    steps = [Step(action, meanwhile=begin_log)]
    async with (
        networked.proxy(networked_subject, scripted(networked.write, steps)) as proxy,
        await networked.behind(proxy, networked_subject).open() as store,
    ):
        assert not await store.set_format(FORMAT_MAJOR, unless=LOGS_PREFIX)
    assert proxy.done[action] == 1
    assert await _format(networked_subject) == SHARED_LOGS_MAJOR
    assert await direct.named_records.delete(name, b"1")
    assert await direct.set_format(FORMAT_MAJOR, unless=LOGS_PREFIX)
