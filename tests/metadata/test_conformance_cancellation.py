"""Prove that cancelled operations leave a client usable, that closing ends them, and that Ctrl-C ends a program."""

import asyncio
import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterable, Awaitable, Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest

import hedwig
from hedwig.errors import BadVersionError, HedwigError, MetadataUnavailableError, NoRecordError
from hedwig.metadata import Delete, MetadataStore, Operation, Read, RecordKey, StoreOptions, Write
from hedwig.metadata.testing import samples
from hedwig.metadata.testing.clients import Clients, Names
from hedwig.metadata.testing.doors import CALLS, Call
from hedwig.metadata.testing.subject import Subject
from hedwig.model import Topic
from hedwig.versions import ANY, NEW, Version, Versioned

T = TypeVar("T")

PATIENCE_S: Final = 30.0
"""No operation here takes nearly as long. One that waits longer hangs."""

TIGHT: Final = StoreOptions(in_flight_max=4, page_rows=5)
"""The store allows so few operations at once that each lost slot shows."""

OWNERSHIP, PERSISTENCE, SUBSCRIPTION = CALLS


async def _all(items: AsyncIterable[T]) -> list[T]:
    return [item async for item in items]


async def _cancelled(dice: random.Random, work: list[Awaitable[Any]]) -> list[Any]:
    """Run `work` all at once, and cancel each item at a random moment; return the results."""
    tasks = [asyncio.ensure_future(one) for one in work]
    loop = asyncio.get_running_loop()
    for task in tasks:
        # The moments go from before the first step to after the end.
        loop.call_later(dice.random() ** 3 * 0.05, task.cancel)
    async with asyncio.timeout(PATIENCE_S):
        return await asyncio.gather(*tasks, return_exceptions=True)


def _nothing_worse(results: list[Any]) -> None:
    """Fail unless each result is a value, a cancellation, or an error that a caller can expect."""
    for result in results:
        if isinstance(result, BaseException) and not isinstance(result, asyncio.CancelledError):
            assert isinstance(result, BadVersionError | NoRecordError), repr(result)


async def _usable(store: MetadataStore, names: Names, turn: int) -> None:
    """Check that many operations at once still end."""
    keys = [OWNERSHIP.key(names(b"usable-%d-%d" % (turn, number))) for number in range(12)]
    async with asyncio.timeout(PATIENCE_S):
        created = await asyncio.gather(*(OWNERSHIP.write(store, key, samples.hub(1), NEW) for key in keys))
        records = await asyncio.gather(*(OWNERSHIP.read(store, key) for key in keys))
    assert records == [Versioned(samples.hub(1), version) for version in created]


Work = Callable[[MetadataStore, random.Random, Names], Awaitable[Any]]


async def _write(store: MetadataStore, dice: random.Random, names: Names) -> Any:
    manager: Call = dice.choice(CALLS)
    return await manager.write(store, manager.key(names(b"%d" % dice.randrange(4))), manager.value(1), ANY)


async def _delete(store: MetadataStore, dice: random.Random, names: Names) -> Any:
    manager: Call = dice.choice(CALLS)
    return await manager.delete(store, manager.key(names(b"%d" % dice.randrange(4))), ANY)


async def _create(store: MetadataStore, dice: random.Random, names: Names) -> Any:
    manager: Call = dice.choice(CALLS)
    return await manager.write(store, manager.key(names(b"%d" % dice.randrange(40))), manager.value(1), NEW)


async def _read(store: MetadataStore, dice: random.Random, names: Names) -> Any:
    manager: Call = dice.choice(CALLS)
    return await manager.read(store, manager.key(names(b"%d" % dice.randrange(4))))


async def _apply(store: MetadataStore, dice: random.Random, names: Names) -> Any:
    keys = [OWNERSHIP.key(names(b"%d" % number)) for number in range(30)]
    kinds: list[Callable[[RecordKey], Operation[Any]]] = [
        Read,
        lambda key: Write(key, samples.hub(2), ANY),
        lambda key: Delete(key, ANY),
    ]
    return await OWNERSHIP.apply(store, [dice.choice(kinds)(key) for key in keys])


async def _list(store: MetadataStore, dice: random.Random, names: Names) -> Any:
    return await _all(store.topics(start_after=Topic(names(b"%d" % dice.randrange(4)))))


async def _scan(store: MetadataStore, dice: random.Random, names: Names) -> Any:
    return await _all(store.subscriptions.read_subscriptions(Topic(names(b"scanned"))))


async def _count(store: MetadataStore, dice: random.Random, names: Names) -> Any:
    return await store.count()


WORKS: Final[dict[str, Work]] = {
    "write": _write,
    "create": _create,
    "delete": _delete,
    "read": _read,
    "apply": _apply,
    "list": _list,
    "scan": _scan,
    "count": _count,
}


@pytest.mark.parametrize("what", WORKS)
async def test_client_is_usable_after_cancellations(
    what: str, subject: Subject, clients: Clients, names: Names
) -> None:
    store = await clients.open(subject, TIGHT)
    dice = random.Random(what)
    topic = Topic(names(b"scanned"))
    keys = [RecordKey(topic, samples.subscriber(number)) for number in range(12)]
    for outcome in await SUBSCRIPTION.apply(store, [Write(key, samples.subscription(1), NEW) for key in keys]):
        outcome.check()
    cancelled = done = 0
    for turn in range(6):
        results = await _cancelled(dice, [WORKS[what](store, dice, names) for _ in range(20)])
        _nothing_worse(results)
        cancelled += sum(isinstance(result, asyncio.CancelledError) for result in results)
        done += sum(not isinstance(result, asyncio.CancelledError) for result in results)
        await _usable(store, names, turn)
    assert cancelled > 0, "no operation was met in its middle"
    assert cancelled + done == 120


async def test_cancelled_writes_are_done_at_most_once(subject: Subject, clients: Clients, names: Names) -> None:
    """The outcome of a cancelled write is unknown, but it is one of two: the whole write, once, or nothing."""
    store = await clients.open(subject, TIGHT)
    dice = random.Random(8)
    key = PERSISTENCE.key(names(b"counter"))
    version: Version = await PERSISTENCE.write(store, key, samples.ranges(0), NEW)
    attempts = 0
    for _ in range(60):
        before = await PERSISTENCE.read(store, key)
        assert before is not None
        number = before.value.ranges[0].ledger_id
        attempts += 1
        (result,) = await _cancelled(dice, [PERSISTENCE.write(store, key, samples.ranges(number + 1), before.version)])
        after = await PERSISTENCE.read(store, key)
        assert after is not None
        if isinstance(result, Version):
            assert after == Versioned(samples.ranges(number + 1), result)
        elif isinstance(result, BadVersionError):
            # When the record was read, the write that was cancelled before was still on its way.
            assert after.version != before.version
        else:
            assert isinstance(result, asyncio.CancelledError)
            assert after.value in (samples.ranges(number), samples.ranges(number + 1))
        version = after.version
    last = await PERSISTENCE.read(store, key)
    assert last is not None
    assert last.value.ranges[0].ledger_id <= attempts
    if last.version == version:
        await PERSISTENCE.write(store, key, samples.ranges(999), version)


async def test_cancelled_opening_leaves_nothing_in_the_way(subject: Subject, clients: Clients, names: Names) -> None:
    dice = random.Random(9)
    for _ in range(8):

        async def open_and_close() -> None:
            async with await subject.open(TIGHT):
                pass

        results = await _cancelled(dice, [open_and_close() for _ in range(3)])
        assert all(result is None or isinstance(result, asyncio.CancelledError) for result in results), results
    await _usable(await clients.open(subject), names, 0)


async def test_closing_ends_what_is_under_way(subject: Subject, clients: Clients, names: Names) -> None:
    """No caller waits for ever, and none takes an undone operation for done."""
    dice = random.Random(10)
    keeper = await clients.open(subject)
    for turn in range(5):
        store = await subject.open(StoreOptions(in_flight_max=8))
        keys = [OWNERSHIP.key(names(b"closing-%d-%d" % (turn, number))) for number in range(40)]
        writes = [asyncio.ensure_future(OWNERSHIP.write(store, key, samples.hub(1), NEW)) for key in keys]
        others = [asyncio.ensure_future(_all(store.topics())), asyncio.ensure_future(store.count())]
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.wait(writes, timeout=dice.random() * 0.02)
            await store.close()
            results = await asyncio.gather(*writes, *others, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                assert isinstance(result, MetadataUnavailableError), repr(result)
                assert "\n" not in str(result)
        if not subject.kept:
            continue
        for key, result in zip(keys, results, strict=False):
            record = await OWNERSHIP.read(keeper, key)
            if isinstance(result, Version):
                assert record == Versioned(samples.hub(1), result)
            elif isinstance(result, HedwigError) and result.happened == "no":
                assert record is None


async def test_closed_store_refuses_at_once_and_closes_again(subject: Subject, names: Names) -> None:
    store = await subject.open()
    await store.close()
    await store.close()
    topic = Topic(names(b"topic"))
    async with asyncio.timeout(PATIENCE_S):
        for call in (
            OWNERSHIP.read(store, OWNERSHIP.key(topic)),
            OWNERSHIP.write(store, OWNERSHIP.key(topic), samples.hub(1), NEW),
            OWNERSHIP.delete(store, OWNERSHIP.key(topic), ANY),
            _all(store.topics()),
            _all(store.subscriptions.read_subscriptions(topic)),
            store.count(),
        ):
            with pytest.raises(MetadataUnavailableError, match="closed"):
                await call
        outcomes = await OWNERSHIP.apply(store, [Read(OWNERSHIP.key(topic))])
        assert isinstance(outcomes[0].error, MetadataUnavailableError)


async def test_listing_left_in_its_middle_holds_nothing_up(subject: Subject, clients: Clients, names: Names) -> None:
    store = await clients.open(subject, TIGHT)
    topic = Topic(names(b"scanned"))
    keys = [RecordKey(topic, samples.subscriber(number)) for number in range(30)]
    for outcome in await SUBSCRIPTION.apply(store, [Write(key, samples.subscription(1), NEW) for key in keys]):
        outcome.check()
    left: list[Any] = []
    for _ in range(10):
        listing = store.subscriptions.read_subscriptions(topic)
        await anext(listing)
        left.append(listing)
    await _usable(store, names, 0)
    async with asyncio.timeout(PATIENCE_S):
        for listing in left:
            await listing.aclose()
    assert len(await _all(store.subscriptions.read_subscriptions(topic))) == 30


def test_interrupted_program_ends_and_leaves_the_store_sound(kept_subject: Subject) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.metadata.support.endless_writer", kept_subject.url],
        cwd=Path(hedwig.__file__).parents[1],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        try:
            assert program.stdout is not None
            lines = [program.stdout.readline() for _ in range(100)]
            program.send_signal(signal.SIGINT)
            rest, complaints = program.communicate(timeout=PATIENCE_S)
        finally:
            program.kill()
    assert program.returncode in (-signal.SIGINT, 130), complaints
    assert complaints.rstrip().endswith("KeyboardInterrupt"), complaints
    for sign in ("never retrieved", "never awaited", "was destroyed", "Exception ignored", "Fatal Python"):
        assert sign not in complaints
    acknowledged = dict(line.split() for line in [*lines, *rest.splitlines()])
    assert len(acknowledged) >= 100
    asyncio.run(_see_all(kept_subject, acknowledged))


async def _see_all(subject: Subject, acknowledged: dict[str, str]) -> None:
    async with await subject.open() as store:
        for number, version in acknowledged.items():
            record = await store.ownership.read(Topic(b"topic-" + number.encode()))
            assert record is not None
            assert (record.value, str(record.version)) == (samples.hub(int(number)), version)
        topic = Topic(b"afterwards")
        try:
            written = await store.ownership.write(topic, samples.hub(1), NEW)
        except HedwigError as error:
            raise AssertionError("the store is not usable afterwards") from error
        assert await store.ownership.read(topic) == Versioned(samples.hub(1), written)
