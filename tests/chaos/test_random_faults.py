"""Prove that killing and pausing any process of a cluster loses and reorders nothing that was acknowledged.

Properties: no acknowledged message is lost for any subscriber; order per topic; ids are given and delivered without
gap, and stand for one message each; at most one hub acknowledges publishes for a topic at a time; topics are served
again in time; the calls of hubs on owner records are linearizable; the index of subscribers has every subscription.
"""

import random
import time
from pathlib import Path
from typing import Final

import pytest

from hedwig.cli.dev import DevServers
from tests.chaos.support.history import ChaosHistory
from tests.chaos.support.hubs import hubs_on
from tests.chaos.support.java_load import java_load
from tests.chaos.support.turmoil import Healing, Turmoil, too_slow
from tests.chaos.support.verdict import judge, not_indexed
from tests.chaos.support.visitors import Visitors
from tests.chaos.support.workload import Workload, names_of
from tests.faults.support.waiting import until

TOPICS: Final = 500
TWICE: Final = 50
"""Topics with a second subscriber."""
VISITED: Final = 10
"""Topics on which visitors subscribe under new names, and unsubscribe."""
JAVA: Final = 6
"""Topics that the Java client publishes to and subscribes to as well."""
SETTINGS: Final = ("ledger_messages_max=60",)
"""Makes ledgers end after 60 messages, so that hubs also delete some."""


@pytest.mark.parametrize(
    ("seconds", "rate", "at_once"),
    [
        pytest.param(90.0, 120.0, 0.15, id="quick", marks=[pytest.mark.timeout(400)]),
        pytest.param(600.0, 200.0, 0.3, id="full", marks=[pytest.mark.full, pytest.mark.timeout(1500)]),
    ],
)
async def test_nothing_acknowledged_is_lost_whatever_is_killed_or_paused(
    seconds: float, rate: float, at_once: float, stack: DevServers, source: random.Random, seed: int, tmp_path: Path
) -> None:
    history = ChaosHistory()
    async with hubs_on(stack, tmp_path, SETTINGS) as hubs:
        async with (
            Workload(hubs.addresses, source, rate, history) as load,
            java_load(tmp_path, load, hubs.addresses, source) as java,
            Visitors(hubs.addresses, random.Random(f"{seed} visitors"), history) as visitors,
        ):
            for number, topic in enumerate(names_of(TOPICS)):
                load.subscriber(topic, "follower")
                if number < TWICE:
                    load.subscriber(topic, "second")
            began = time.monotonic()
            await load.all_attached(60.0)
            print(f"attached after {time.monotonic() - began:.1f} s")
            for topic in names_of(JAVA):
                java.subscriber(topic, "java")
            await until(lambda: load.outcomes["java subscriptions"] >= JAVA, "Java subscribers")
            for topic in names_of(JAVA):
                java.publisher(topic, 1.0)
            for topic in names_of(TOPICS):
                load.publisher(topic, "publisher")
            visitors.begin(names_of(VISITED))
            healing = Healing(stack, hubs, load)
            turmoil = Turmoil(healing, load, random.Random(f"{seed} faults"), is_long=seconds > 300)
            began = time.monotonic()
            await turmoil.run(seconds, at_once=at_once)
            took = time.monotonic() - began
            java.end_publishers()
            await load.finish(60.0)
            print(f"caught up {time.monotonic() - began - took:.1f} s later; behind: {load.behind()[:5]}")
            wrong = [*await visitors.finish(60.0), *await not_indexed(hubs.metadata)]
            print(f"{visitors}; looked at {time.monotonic() - began - took:.1f} s later")
        acknowledged = history.acknowledged()
        print(f"{acknowledged / took:.0f} messages/s; {dict(load.outcomes)}; {len(history.sessions)} sessions")
        print(f"{dict(turmoil.kinds)}; hubs {hubs.pids}")
        judge(history, hubs, seed, tmp_path, [*wrong, *too_slow(history.faults, began)])
        assert acknowledged / took > rate / 10
        healing_s = sum(each.answered - each.ended for each in history.faults)
        expected = max(3.0, (seconds - healing_s) / 30)
        assert sum(turmoil.kinds.values()) >= expected, "faults now and then, once all is well after the one before"
        assert len(set(hubs.pids)) == len(hubs.pids) > len(hubs.hubs), "hubs were really killed"
        assert load.outcomes["java Acknowledged"] > JAVA
        assert load.outcomes["java delivered"] > load.outcomes["java Acknowledged"]
        assert load.outcomes["again"], "messages came again, as after faults they must"
