"""Prove that no acknowledged message is lost, moved or repeated without need when a hub is killed repeatedly.

Properties: no acknowledged message lost; order per topic; no gap in acknowledged ids; a consume pointer never moves
back, except by what a crash may forget.
"""

import asyncio
import itertools
import math
import os
import random
import signal
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest

from hedwig.metadata import open_metadata
from hedwig.model import Topic
from tests.hub.support.crash_workload import CrashWorkload
from tests.hub.support.delivery_history import HubEnd, Promise, violations
from tests.hub.support.running import RunningHub

SEED_VARIABLE: Final = "HEDWIG_FAULT_SEED"
TOPICS: Final = 4
PUBLISHERS: Final = 2
ROAMERS: Final = 3
LEDGER_MESSAGES: Final = 20
RATE_MIN: Final = 20.0
"""A run with fewer acknowledged messages a second, over all its crashes, proves nothing."""

PROMISE: Final = Promise(consume_interval=20, patience_s=2.0)
FLUSH_S: Final = 0.5
SETTINGS: Final = (
    f"consume_interval={PROMISE.consume_interval}",
    f"ledger_messages_max={LEDGER_MESSAGES}",
    "retention_interval_s=0.3",
    "repeat_window_s=1",  # Consumed messages are kept for so long.
    "topic_sweep_s=0.2",
    "cache_bytes=20000",  # The cache is so small that slow subscribers read from the ledgers.
    "read_retry_s=0.2",
)
QUICK_FLUSH: Final = f"consume_flush_s={FLUSH_S}"
NO_FLUSH: Final = "consume_flush_s=3600"
RELEASING: Final = "topic_age_s=2"
WAYS: Final[tuple[tuple[str, ...], ...]] = ((NO_FLUSH,), (QUICK_FLUSH,), (QUICK_FLUSH, RELEASING))
"""The differences between starts: the pointers are stored by the interval alone, by the time too, or by a release."""


Step: TypeAlias = Callable[[], Coroutine[Any, Any, None]]


def _topic(number: int) -> bytes:
    return b"topic-%d" % number


class _Harm:
    """The faults of a run, and their record."""

    def __init__(self, hub: RunningHub, load: CrashWorkload, source: random.Random) -> None:
        self._hub = hub
        self._load = load
        self._source = source
        self.pids = [hub.pid]
        self.kills = 0
        self.way = WAYS[0]
        """The settings of the next start."""

    @property
    def _flush_s(self) -> float:
        return FLUSH_S if QUICK_FLUSH in self._hub.settings else math.inf

    async def kill(self) -> None:
        """Crash the hub and start it again."""
        self.kills += 1
        await self._crash()
        await self._start()

    async def kill_later(self) -> None:
        """Crash the hub after it had the time to store what it must not forget."""
        await asyncio.sleep(PROMISE.patience_s + 2 * FLUSH_S)
        await self.kill()

    async def _crash(self) -> None:
        flush_s = self._flush_s
        began = time.monotonic()
        # On a busy machine, the hub may still answer before the signal is sent.
        await asyncio.to_thread(self._hub.kill)
        end = HubEnd(began, time.monotonic(), is_crash=True, consume_flush_s=flush_s)
        self._load.history.ends.append(end)

    async def kill_while_starting(self) -> None:
        """Crash the hub, and crash it again during its recovery."""
        await self._crash()
        process = self._hub.begin()
        self.pids.append(process.pid)
        await asyncio.sleep(self._source.uniform(0.05, 1.0))
        await self._crash()
        await self._start()

    async def stop(self) -> None:
        """End the hub in order, and start it again."""
        began = time.monotonic()
        await asyncio.to_thread(self._hub.stop)
        self._load.history.ends.append(HubEnd(began, time.monotonic(), is_crash=False))
        await self._start()

    async def pause(self) -> None:
        """Stop the process for a while."""
        since = time.monotonic()
        os.kill(self._hub.pid, signal.SIGSTOP)
        await asyncio.sleep(self._source.uniform(0.2, 2.0))
        os.kill(self._hub.pid, signal.SIGCONT)
        self._load.history.pauses.append((since, time.monotonic()))

    async def _start(self) -> None:
        self._hub.settings = (*SETTINGS, *self.way)
        await asyncio.to_thread(self._hub.start)
        self.pids.append(self._hub.pid)


@pytest.mark.parametrize(
    ("kills", "others"),
    [
        pytest.param(5, 1, id="quick"),
        pytest.param(20, 5, id="full", marks=[pytest.mark.full, pytest.mark.timeout(900)]),
    ],
)
async def test_nothing_acknowledged_is_lost_by_a_hub_that_is_killed_again_and_again(
    kills: int, others: int, tmp_path: Path
) -> None:
    """Kill, stop and pause the hub under its publishers and subscribers, and check all that they recorded."""
    seed = int(os.environ.get(SEED_VARIABLE) or random.SystemRandom().randrange(10**9))
    print(f"repeat with {SEED_VARIABLE}={seed}")
    source = random.Random(seed)
    with RunningHub(tmp_path, *SETTINGS, *WAYS[0]) as hub:
        load = CrashWorkload(hub.port, source)
        harm = _Harm(hub, load, source)
        began = time.monotonic()
        try:
            await _begin(load)
            plan = (
                [harm.kill, harm.kill_later] * (kills // 2)
                + [harm.kill] * (kills % 2)
                + [harm.stop, harm.pause, harm.kill_while_starting] * others
            )
            source.shuffle(plan)
            print("plan:", *(each.__name__ for each in plan))
            ways = _ways(harm, plan[1:], source)
            for step, way in zip(plan, ways, strict=True):
                harm.way = way
                await load.more(source.randint(50, 300))
                await step()
            await load.more(200)
            rate = load.acknowledged / (time.monotonic() - began)
            await load.finish(90.0)
        finally:
            await load.cancel()
        hub.stop()
        print(f"{rate:.0f} messages/s; {dict(load.outcomes)}; {len(load.history.sessions)} sessions")
        breaches = violations(load.history, PROMISE)
        assert not breaches, "\n".join([f"{len(breaches)} breaches:", *breaches[:20]])
        assert harm.kills == kills
        assert len(set(harm.pids)) == len(harm.pids) > kills, "the hub was really another one"
        assert rate >= RATE_MIN
        assert load.outcomes["again"] > kills, "crashes made messages come again"
        assert load.outcomes["confirmed consumes"] > kills
        assert len({session.subscriber for session in load.history.sessions}) == TOPICS * (ROAMERS + 1)
        await _assert_ranges(tmp_path, load)


def _ways(harm: _Harm, steps: Sequence[Step], source: random.Random) -> list[tuple[str, ...]]:
    """Return the settings for the start before each step, and for the last one."""
    ways = [source.choice(WAYS)]
    later = itertools.cycle(WAYS[:2])  # A crash shows best what it forgets when only one mechanism stores pointers.
    for step in reversed(steps):
        if step == harm.kill_later:
            ways.append(next(later))
        else:
            ways.append(ways[-1] if step == harm.pause else source.choice(WAYS))
    return ways[::-1]


async def _begin(load: CrashWorkload) -> None:
    """Start all clients: subscribers of two kinds, some of them from the first message on."""
    attached = []
    for number in range(TOPICS):
        attached.append(asyncio.Event())
        load.subscriber(load.follow(_topic(number), f"follower-{number}", attached[-1]))
        load.subscriber(load.roam(_topic(number), f"roamer-{number}-0"))
    async with asyncio.timeout(60):
        await asyncio.gather(*(each.wait() for each in attached))
    for number in range(TOPICS):
        for index in range(PUBLISHERS):
            load.publisher(_topic(number), f"publisher-{number}-{index}")
    await load.more(100)
    for number in range(TOPICS):
        for index in range(1, ROAMERS):
            load.subscriber(load.roam(_topic(number), f"roamer-{number}-{index}"))


async def _assert_ranges(directory: Path, load: CrashWorkload) -> None:
    """Check the metadata: ranges end where the messages do, and consumed ones are gone.

    The length of a range proves nothing: its ledger takes messages until a busy disk has made the next one.
    """
    async with await open_metadata(f"sqlite://{directory / 'data' / 'metadata.db'}") as store:
        for number in range(TOPICS):
            record = await store.persistence.read(Topic(_topic(number)))
            assert record is not None
            ranges = record.value.ranges
            assert ranges[-1].end is not None
            assert ranges[-1].end.local >= load.last_id(_topic(number))
            assert (ranges[0].start or 0) > 1, "consumed ledgers were deleted"
