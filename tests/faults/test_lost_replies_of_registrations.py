"""Prove that a start count of the standalone hub is never given twice, even if messages are lost.

Properties: every count that was given is new; the record afterwards covers all of them; an unknown outcome is reported
as unknown, in time.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import pytest

from hedwig.errors import MetadataUnavailableError, StandaloneHubExistsError, UncertainStateError
from hedwig.metadata import MetadataStore, StandaloneHub, StoreOptions
from hedwig.metadata.testing.clients import Clients
from hedwig.metadata.testing.subject import Subject
from tests.faults.support.network import Networked
from tests.faults.support.proxy import Action, Step, mute_from, scripted

Others: TypeAlias = Callable[[MetadataStore], Awaitable[list[int]]]

PATIENCE_S: Final = 30.0
CUTS: Final = {"reply": Action.CUT_REPLY, "request": Action.CUT_REQUEST}
HUB: Final = ("hub-1", "10.0.0.5:4080")


async def _nobody(_store: MetadataStore) -> list[int]:
    """Start no hub meanwhile."""
    return []


async def _one_start(store: MetadataStore) -> list[int]:
    return [await store.register_standalone(*HUB)]


async def _three_starts(store: MetadataStore) -> list[int]:
    return [await store.register_standalone(*HUB) for _ in range(3)]


OTHERS: Final[dict[str, Others]] = {"nobody": _nobody, "one start": _one_start, "three starts": _three_starts}


async def _forget(subject: Subject, clients: Clients) -> None:
    await (await clients.probe(subject)).set_named("standalone-hub", None)


@pytest.mark.parametrize("others", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("cuts", [1, 3])
@pytest.mark.parametrize("action", CUTS.values(), ids=CUTS)
@pytest.mark.parametrize("before", [0, 2], ids=["the first start", "a later start"])
async def test_lost_message_repeats_no_count(
    before: int,
    action: Action,
    cuts: int,
    others: Others,
    networked: Networked,
    networked_subject: Subject,
    clients: Clients,
) -> None:
    """Lose the answer to a registration, or the registration itself; other hubs start before the next attempt."""
    await _forget(networked_subject, clients)
    direct = await clients.open(networked_subject)
    given = [await direct.register_standalone(*HUB) for _ in range(before)]

    async def meanwhile() -> None:
        given.extend(await others(direct))

    steps = [Step(action, meanwhile=meanwhile), *[Step(action)] * (cuts - 1)]
    async with (
        networked.proxy(networked_subject, scripted(networked.write, steps)) as proxy,
        await networked.behind(proxy, networked_subject).open() as store,
    ):
        mine = await store.register_standalone(*HUB)
    assert proxy.done[action] >= 1, "nothing was cut"
    assert mine not in given
    assert len(set(given)) == len(given)
    if action is Action.CUT_REQUEST:
        assert proxy.done[action] == cuts
        assert mine > max(given, default=0)
    else:
        # Applied before the others started: either the store can still prove it, or the hub took a new count.
        assert mine == before + 1 or mine > max(given, default=0)
    if others is _nobody:
        # Its own token tells the hub that the registration was applied, so no count is skipped.
        assert mine == before + 1
    record = await direct.standalone_hub()
    assert record is not None
    assert record.starts == max(mine, *given, 0)
    assert await direct.register_standalone(*HUB) == record.starts + 1


async def test_replaced_while_the_answer_was_lost_stays_replaced(
    networked: Networked, networked_subject: Subject, clients: Clients
) -> None:
    """The old hub may learn the count that it had before, but takes none from its successor."""
    await _forget(networked_subject, clients)
    direct = await clients.open(networked_subject)

    async def replaced() -> None:
        assert await direct.register_standalone("hub-2", "b:1", replace=True) == 2

    steps = [Step(Action.CUT_REPLY, meanwhile=replaced)]
    async with (
        networked.proxy(networked_subject, scripted(networked.write, steps)) as proxy,
        await networked.behind(proxy, networked_subject).open() as store,
    ):
        (outcome,) = await asyncio.gather(store.register_standalone(*HUB), return_exceptions=True)
        assert outcome == 1 or isinstance(outcome, StandaloneHubExistsError)
        with pytest.raises(StandaloneHubExistsError) as refusal:
            await store.register_standalone(*HUB)
        assert refusal.value.hub_id == "hub-2"
    assert proxy.done[Action.CUT_REPLY] == 1
    assert await direct.standalone_hub() == StandaloneHub(hub_id="hub-2", address="b:1", starts=2)


async def test_no_answer_in_time_is_reported_as_unknown(
    networked: Networked, networked_subject: Subject, clients: Clients
) -> None:
    """A registration that was sent and never answered may have been applied; the next one never repeats its count."""
    await _forget(networked_subject, clients)
    direct = await clients.open(networked_subject)
    assert await direct.register_standalone(*HUB) == 1
    options = StoreOptions(operation_timeout_s=2)
    # Other connections get no answers either: a client that left the silent one early could read the outcome there.
    async with (
        networked.proxy(networked_subject, mute_from(networked.write)) as proxy,
        await networked.behind(proxy, networked_subject).open(options) as store,
    ):
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(UncertainStateError) as unknown:
                await store.register_standalone(*HUB)
        assert "register again" in str(unknown.value)
        assert "\n" not in str(unknown.value)
    assert proxy.done[Action.HOLD_REPLY] >= 1
    record = await direct.standalone_hub()
    assert record is not None
    assert record.starts == 2, "the server did get it"
    assert await direct.register_standalone(*HUB) == 3


async def test_store_out_of_reach_is_surely_not_registered_with(
    networked: Networked, networked_subject: Subject, clients: Clients
) -> None:
    await _forget(networked_subject, clients)
    async with (
        networked.proxy(networked_subject, scripted(networked.write, [])) as proxy,
        await networked.behind(proxy, networked_subject).open(StoreOptions(operation_timeout_s=2)) as store,
    ):
        proxy.vanish()
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(MetadataUnavailableError) as refusal:
                await store.register_standalone(*HUB)
        assert refusal.value.happened == "no"
        assert "\n" not in str(refusal.value)
    assert await (await clients.open(networked_subject)).standalone_hub() is None
