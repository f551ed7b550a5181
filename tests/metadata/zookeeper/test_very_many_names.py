"""Prove that the client never asks for the names of too many children, and lists very many names in order."""

import bisect
import random
import struct

import pytest
from kazoo.client import KazooClient

from hedwig.errors import ConfigurationError, TooManyNamesError
from hedwig.metadata import MetadataStore, RecordKey, Write, open_metadata
from hedwig.metadata.zookeeper.reads.child_names import ChildNames
from hedwig.model import LedgerRanges, SubscriberId, SubscriptionData, Topic
from hedwig.versions import NEW
from tests.metadata.zookeeper.conftest import Prefix


def _reply(names: list[str]) -> bytes:
    packed = (struct.pack(">i", len(name.encode())) + name.encode() for name in names)
    return struct.pack(">i", len(names)) + b"".join(packed)


async def _create(store: MetadataStore, names: list[bytes]) -> None:
    outcomes = await store.persistence.apply([Write(RecordKey(Topic(name)), LedgerRanges(), NEW) for name in names])
    assert all(outcome.error is None for outcome in outcomes)


@pytest.mark.parametrize("number", [0, 1, 2, 32_768, 32_769, 100_000])
def test_names_come_in_order_however_many_they_are(number: int) -> None:
    names = [f"{'ü' * (index % 5)}{index * 7919 % 1_000_003}" for index in range(number)]
    random.Random(number).shuffle(names)
    child_names = ChildNames(_reply(names))
    assert len(child_names) == number
    assert list(child_names) == sorted(names)
    assert list(child_names) == sorted(names), "they can be gone through again"


@pytest.mark.parametrize("number", [1, 2, 3, 100, 32_770])
def test_names_from_one_on_are_those_that_do_not_sort_before_it(number: int) -> None:
    names = [f"{'ü' * (index % 5)}{index * 7919 % 1_000_003}" for index in range(number)]
    child_names = ChildNames(_reply(names))
    ordered = sorted(name.encode() for name in names)
    drawn = random.Random(number)
    others = [b"", b"\xff", ordered[0], ordered[-1], ordered[-1] + b"0"]
    for first in (
        *others,
        *(drawn.choice(ordered)[: drawn.randint(1, 12)] + b"5" * drawn.randint(0, 1) for _ in range(9)),
    ):
        assert [name.encode() for name in child_names.since(first)] == ordered[bisect.bisect_left(ordered, first) :]


def test_no_names_begin_nowhere() -> None:
    assert list(ChildNames(_reply([])).since(b"a")) == []


def test_reply_without_a_list_has_no_names() -> None:
    assert list(ChildNames(struct.pack(">i", -1))) == []


async def test_too_many_topics_side_by_side_are_not_asked_for(store: MetadataStore, prefix: Prefix) -> None:
    await _create(store, [b"%03d" % number for number in range(21)])
    async with await open_metadata(f"{prefix.url}?children_max=20") as narrow:
        for listing in (narrow.topics(), narrow.persistence.topics(), narrow.scan()):
            with pytest.raises(TooManyNamesError, match=r"/topics has 21 children.*children_max="):
                await anext(listing)
        with pytest.raises(TooManyNamesError):
            await narrow.count()
        assert await narrow.persistence.read(Topic(b"007")) is not None
    async with await open_metadata(f"{prefix.url}?children_max=21") as wide:
        assert len([topic async for topic in wide.topics()]) == 21
        assert (await wide.count())["persistence"] == 21


async def test_too_many_topics_below_another_end_the_listing_there(store: MetadataStore, prefix: Prefix) -> None:
    await _create(store, [b"a", *(b"b/%03d" % number for number in range(21)), b"c"])
    async with await open_metadata(f"{prefix.url}?children_max=20") as narrow:
        with pytest.raises(TooManyNamesError, match="/topics/b has 21 children"):
            assert [topic async for topic in narrow.topics()] == []


async def test_too_many_subscribers_of_one_topic_are_not_asked_for(store: MetadataStore, prefix: Prefix) -> None:
    await _create(store, [b"few", b"many"])
    keys = [RecordKey(Topic(b"many"), SubscriberId(b"%d" % number)) for number in range(21)]
    keys.append(RecordKey(Topic(b"few"), SubscriberId(b"s")))
    await store.subscriptions.apply([Write(key, SubscriptionData(), NEW) for key in keys])
    async with await open_metadata(f"{prefix.url}?children_max=20") as narrow:
        assert [topic async for topic in narrow.topics()] == [b"few", b"many"]
        assert (await narrow.count())["subscriptions"] == 22, "a number is no names"
        assert len([each async for each in narrow.subscriptions.read_subscriptions(Topic(b"few"))]) == 1
        with pytest.raises(TooManyNamesError, match="/topics/many/subscribers has 21 children"):
            await anext(narrow.subscriptions.read_subscriptions(Topic(b"many")))


async def test_first_topics_are_listed_without_the_others(store: MetadataStore, raw: KazooClient) -> None:
    def requests() -> int:
        lines = dict(line.split("\t") for line in raw.command(b"mntr").splitlines() if "\t" in line)
        return int(lines["zk_packets_received"])

    await _create(store, [b"%04d" % number for number in range(3000)])
    before = requests()
    listing = store.topics()
    assert await anext(listing) == b"0000"
    await listing.aclose()  # type: ignore[attr-defined]
    # No topic has an owner or a subscription, so a search for the first one reads all.
    assert requests() - before < 2000


@pytest.mark.parametrize("limit", ["0", "-1", "many", "", "99999999999", "²"])
async def test_limit_that_is_none_is_refused(prefix: Prefix, limit: str) -> None:
    with pytest.raises(ConfigurationError, match="children_max"):
        await open_metadata(f"{prefix.url}?children_max={limit}")
