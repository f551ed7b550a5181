"""Prove what works while HBase is away: owned topics with an open ledger. Other requests wait or fail.

Properties: topics with an open ledger keep publishing and delivering; claims, first publishes and the next ledger of a
topic wait or are refused with a status that allows another attempt; afterwards nothing is lost, and all is served.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from hedwig.cli.dev import DevServers
from tests.chaos.support.history import ChaosHistory, Fault
from tests.chaos.support.hubs import hubs_on
from tests.chaos.support.turmoil import Healing, too_slow
from tests.chaos.support.verdict import judge
from tests.chaos.support.workload import Workload, names_of
from tests.faults.support.waiting import until
from tests.hub.support.delivery_history import Acknowledged

STEADY: Final = list(names_of(20, "steady"))
CLAIMED: Final = list(names_of(20, "claimed"))
NEW: Final = list(names_of(20, "new"))
ROLLING: Final = list(names_of(4, "rolling"))
LEDGER_MESSAGES: Final = 400
SETTINGS: Final = ("cluster.rebalance_interval_s=0", f"ledger_messages_max={LEDGER_MESSAGES}")
RATE: Final = 40.0
REDIRECTED: Final = "NOT_RESPONSIBLE_FOR_TOPIC"
RETRYABLE: Final = {"SERVICE_DOWN", "UNCERTAIN_STATE", "UncertainAnswerError"}
"""Outcomes after which our client tries again; the client itself raises the last one after a timeout."""


async def publish_many(load: Workload, topics: Sequence[bytes], what: str, enough: asyncio.Event) -> Counter[str]:
    """Publish to each of these topics, one after the other, until `enough` is set; return the count of each outcome."""
    came: Counter[str] = Counter()

    async def go_on(topic: bytes) -> None:
        number = 0
        while not enough.is_set():
            outcome = await load.publish(topic, what, b"%d" % number)
            came[type(outcome).__name__] += 1
            number += 1
            await asyncio.sleep(0.1 if isinstance(outcome, Acknowledged) else 0.5)

    await asyncio.gather(*(go_on(topic) for topic in topics))
    return came


async def fill(load: Workload, topic: bytes) -> None:
    """Publish more messages than a ledger takes, many at a time."""
    for begin in range(0, LEDGER_MESSAGES + 50, 50):
        await asyncio.gather(*(load.publish(topic, f"filler.{slot}", b"%d" % begin) for slot in range(50)))


@pytest.mark.parametrize(
    "seconds",
    [
        pytest.param(15.0, id="quick"),
        pytest.param(60.0, id="full", marks=[pytest.mark.full, pytest.mark.timeout(600)]),
    ],
)
async def test_owned_topics_go_on_without_hbase(
    seconds: float, stack: DevServers, source: random.Random, seed: int, tmp_path: Path
) -> None:
    history = ChaosHistory()
    regionserver = next(each.name for each in stack.status() if each.kind == "regionserver")
    async with hubs_on(stack, tmp_path, SETTINGS) as hubs, Workload(hubs.addresses, source, RATE, history) as load:
        for topic in (*STEADY, *CLAIMED, *ROLLING):
            load.subscriber(topic, "follower")
        await load.all_attached(30.0)
        for topic in STEADY:
            load.publisher(topic, "publisher")
        for topic in ROLLING:
            await load.publish(topic, "first", b"")
        await until(lambda: load.served(0.0).keys() >= {*STEADY, *ROLLING}, "open ledgers")

        began = time.monotonic()
        fault = Fault("kill the region server", began)
        history.faults.append(fault)
        await asyncio.to_thread(stack.kill, regionserver)
        enough = asyncio.Event()
        others = [
            asyncio.create_task(publish_many(load, CLAIMED, "claimed", enough)),
            asyncio.create_task(publish_many(load, NEW, "new", enough)),
        ]
        rolls = asyncio.gather(*(fill(load, topic) for topic in ROLLING))
        await asyncio.sleep(seconds)
        away_until = time.monotonic()
        acknowledged = {topic: load.last_id(topic) for topic in STEADY}
        await until(lambda: not any("steady" in each for each in load.behind()), "delivered meanwhile", 10.0)
        fault.ended = time.monotonic()
        healing = Healing(stack, hubs, load)
        await healing.all_answer()
        fault.answered = time.monotonic()
        await healing.measure(fault, fault.answered)
        await rolls
        enough.set()
        came = dict(zip(("claimed", "new"), await asyncio.gather(*others), strict=True))
        for topic in (*CLAIMED, *NEW, *ROLLING):
            assert isinstance(await load.publish(topic, "after", b"all"), Acknowledged)
        await load.finish(30.0)

    meanwhile = [each for each in history.attempts if began < each.sent and each.ended < away_until]
    answers: dict[str, Counter[str]] = {sort: Counter() for sort in ("steady", "claimed", "new", "rolling")}
    for each in meanwhile:
        if each.action == "Publish":
            answers[each.topic.decode().partition("-")[0]][each.came] += 1
    print(f"away for {away_until - began:.1f} s; told meanwhile: {answers}; of all: {came}; {dict(load.outcomes)}")
    print(fault.line(began))
    judge(history, hubs, seed, tmp_path, too_slow(history.faults, began))
    assert set(answers["steady"]) == {"SUCCESS"}, "topics with an open ledger go on"
    assert answers["steady"]["SUCCESS"] > RATE * seconds / 4
    assert all(acknowledged.values())
    for sort in ("claimed", "new"):
        assert answers[sort], "it was tried"
        assert set(answers[sort]) <= {*RETRYABLE, REDIRECTED}, f"{sort}: {answers[sort]}"
    assert set(answers["rolling"]) <= {*RETRYABLE, REDIRECTED, "SUCCESS"}
    assert set(answers["rolling"]) & RETRYABLE, "a ledger was full while there was no HBase"
