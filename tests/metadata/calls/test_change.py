"""Prove what `change` does when others write first, the function leaves or deletes the record, or an answer is lost."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from hedwig.errors import (
    BadVersionError,
    MetadataUnavailableError,
    NoTopicOwnerInfoError,
    TopicOwnerInfoExistsError,
    UncertainStateError,
)
from hedwig.metadata import Instead, MetadataStore, TopicRecords, change, open_metadata
from hedwig.model import HubInfo, Topic
from hedwig.versions import ANY, NEW, Version, Versioned

TOPIC = Topic(b"news")
HUB = HubInfo(host="hub.example", port=4080)


@pytest.fixture
async def store() -> AsyncIterator[MetadataStore]:
    async with await open_metadata("sqlite://") as opened:
        yield opened


@dataclass(slots=True)
class Watched:
    """The owner records of a store, which count calls and can lose the answers to writes."""

    manager: TopicRecords[HubInfo]
    lost: type[MetadataUnavailableError] | None = None
    shows: bool = True
    calls: list[str] = field(default_factory=list)

    async def read(self, topic: Topic, /) -> Versioned[HubInfo] | None:
        self.calls.append("read")
        return await self.manager.read(topic)

    async def write(self, topic: Topic, record: HubInfo, version: Version, /) -> Version:
        self.calls.append("write")
        if self.lost is MetadataUnavailableError:
            raise self.lost("not sent")
        try:
            written = await self.manager.write(topic, record, version)
        except BadVersionError as refused:
            raise refused if self.shows else BadVersionError("refused") from None
        if self.lost is not None:
            raise self.lost("the answer was lost")
        return written

    async def delete(self, topic: Topic, version: Version, /) -> None:
        self.calls.append("delete")
        await self.manager.delete(topic, version)


def later(current: Versioned[HubInfo] | None) -> HubInfo:
    """Return the hub of the next epoch."""
    return HUB if current is None else replace(current.value, epoch=current.value.epoch + 1)


async def epoch(store: MetadataStore) -> int | None:
    record = await store.ownership.read(TOPIC)
    return None if record is None else record.value.epoch


async def test_one_that_nobody_disturbs_takes_a_read_and_a_write(store: MetadataStore) -> None:
    watched = Watched(store.ownership)
    created = await change(watched, TOPIC, later)
    assert created is not None
    assert await store.ownership.read(TOPIC) == Versioned(HUB, created)
    changed = await change(watched, TOPIC, later)
    assert changed is not None
    assert await store.ownership.read(TOPIC) == Versioned(replace(HUB, epoch=1), changed)
    assert watched.calls == ["read", "write"] * 2


async def test_what_the_caller_has_seen_saves_the_read(store: MetadataStore) -> None:
    watched = Watched(store.ownership)
    created = await change(watched, TOPIC, later, seen=None)
    assert created is not None
    await change(watched, TOPIC, later, seen=Versioned(HUB, created))
    assert watched.calls == ["write", "write"]
    # The record that the caller saw, or its absence, is outdated. The refusal carries the current record.
    await change(watched, TOPIC, later, seen=Versioned(HUB, created))
    await change(watched, TOPIC, later, seen=None)
    assert await epoch(store) == 3
    assert watched.calls == ["write"] * 6


async def test_a_refusal_that_shows_nothing_is_followed_by_a_read(store: MetadataStore) -> None:
    await change(store.ownership, TOPIC, later)
    watched = Watched(store.ownership, shows=False)
    await change(watched, TOPIC, later, seen=None)
    assert await epoch(store) == 1
    assert watched.calls == ["write", "read", "write"]


async def test_a_record_deleted_meanwhile_is_made_anew(store: MetadataStore) -> None:
    await change(store.ownership, TOPIC, later)
    await change(store.ownership, TOPIC, later)
    given: list[Any] = []

    async def disturbed(current: Versioned[HubInfo] | None) -> HubInfo:
        given.append(current)
        if current is not None:
            await store.ownership.delete(TOPIC, ANY)
        return later(current)

    await change(store.ownership, TOPIC, disturbed)
    assert [each and each.value.epoch for each in given] == [1, None]
    assert await epoch(store) == 0


@pytest.mark.parametrize("tries", [1, 3])
async def test_others_who_are_always_faster_end_it(store: MetadataStore, tries: int) -> None:
    await change(store.ownership, TOPIC, later)
    rounds = 0

    async def disturbed(current: Versioned[HubInfo] | None) -> HubInfo:
        nonlocal rounds
        rounds += 1
        await store.ownership.write(TOPIC, HUB, ANY)
        return later(current)

    with pytest.raises(BadVersionError) as refused:
        await change(store.ownership, TOPIC, disturbed, tries=tries)
    assert rounds == tries
    assert refused.value.current == await store.ownership.read(TOPIC)


async def test_the_errors_of_the_end_are_those_of_the_manager(store: MetadataStore) -> None:
    async def created(current: Versioned[HubInfo] | None) -> HubInfo:
        await store.ownership.write(TOPIC, HUB, ANY)
        return HUB

    async def deleted(current: Versioned[HubInfo] | None) -> Instead:
        await store.ownership.delete(TOPIC, ANY)
        return Instead.DELETE

    with pytest.raises(TopicOwnerInfoExistsError):
        await change(store.ownership, TOPIC, created, tries=1)
    with pytest.raises(NoTopicOwnerInfoError):
        await change(store.ownership, TOPIC, deleted, tries=1)


async def test_left_and_deleted(store: MetadataStore) -> None:
    watched = Watched(store.ownership)
    assert await change(watched, TOPIC, lambda _: Instead.LEAVE) is None
    assert await change(watched, TOPIC, lambda _: Instead.DELETE) is None
    assert watched.calls == ["read", "read"]
    version = await store.ownership.write(TOPIC, HUB, NEW)
    assert await change(watched, TOPIC, lambda _: Instead.LEAVE) == version
    assert await change(watched, TOPIC, lambda _: Instead.DELETE) is None
    assert watched.calls == ["read", "read", "read", "read", "delete"]
    assert await epoch(store) is None


async def test_what_the_function_raises_ends_it(store: MetadataStore) -> None:
    def refuse(current: Versioned[HubInfo] | None) -> HubInfo:
        raise BadVersionError("not what was wanted")

    watched = Watched(store.ownership)
    with pytest.raises(BadVersionError, match="not what was wanted"):
        await change(watched, TOPIC, refuse)
    assert watched.calls == ["read"]


@pytest.mark.parametrize("lost", [UncertainStateError, MetadataUnavailableError])
async def test_an_unknown_outcome_and_none_at_all_end_it(
    store: MetadataStore, lost: type[MetadataUnavailableError]
) -> None:
    """A caller that repeated the change could apply it twice, or take another client's write for its own."""
    watched = Watched(store.ownership, lost=lost)
    with pytest.raises(lost) as failed:
        await change(watched, TOPIC, later)
    assert type(failed.value) is lost
    assert watched.calls == ["read", "write"]
    assert await epoch(store) == (None if lost.happened == "no" else 0)
