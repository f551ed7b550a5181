"""Prove that parting a hub from ZooKeeper, HBase or the bookies, in one direction or both, loses nothing.

Properties: those of the random faults. The network is parted for longer and for shorter than the hub's session.
Connections stand still meanwhile, and all held data arrives when the network is whole again.
"""

import asyncio
import random
import time
from pathlib import Path
from typing import Final

import pytest

from hedwig.cli.dev import DevServers
from tests.chaos.support.divider import Divider, Way
from tests.chaos.support.history import ChaosHistory, Fault
from tests.chaos.support.hubs import SESSION_S, Detour, hubs_on
from tests.chaos.support.turmoil import Healing, too_slow
from tests.chaos.support.verdict import judge
from tests.chaos.support.visitors import Visitors
from tests.chaos.support.workload import Workload, names_of

TOPICS: Final = 100
VISITED: Final = 8
"""Topics on which visitors subscribe under new names, and unsubscribe."""
RATE: Final = 80.0
SETTINGS: Final = ("ledger_messages_max=20", "cluster.rebalance_interval_s=3")
LONG: Final = (SESSION_S + 0.5, SESSION_S + 2.0)
SHORT: Final = (0.5, SESSION_S / 2)

_QUICK: Final = (
    ("zookeeper", Way.BOTH, LONG),
    ("zookeeper", Way.FROM_SERVER, LONG),
    ("zookeeper", Way.TO_SERVER, SHORT),
    ("hbase", Way.BOTH, SHORT),
    ("bookies", Way.TO_SERVER, LONG),
    ("hbase", Way.FROM_SERVER, LONG),
    ("bookies", Way.FROM_SERVER, SHORT),
)
_FULL: Final = tuple(
    (what, way, span)
    for what in ("zookeeper", "hbase", "bookies")
    for way in (Way.BOTH, Way.TO_SERVER, Way.FROM_SERVER)
    for span in (SHORT, LONG)
)


@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(_QUICK, id="quick"),
        pytest.param(_FULL, id="full", marks=[pytest.mark.full, pytest.mark.timeout(900)]),
    ],
)
async def test_a_hub_that_is_cut_off_loses_nothing(
    plan: tuple[tuple[str, Way, tuple[float, float]], ...],
    stack: DevServers,
    source: random.Random,
    seed: int,
    tmp_path: Path,
) -> None:
    history = ChaosHistory()
    zookeeper = stack.address("zookeeper")
    async with (
        Divider([zookeeper]) as to_zookeeper,
        Divider(stack.address("regionserver").split(",")) as to_hbase,
        Divider(stack.address("bookie").split(",")) as to_bookies,
    ):
        dividers = {"zookeeper": to_zookeeper, "hbase": to_hbase, "bookies": to_bookies}
        detour = Detour(to_zookeeper.at(zookeeper), {**to_hbase.routes, **to_bookies.routes})
        async with (
            hubs_on(stack, tmp_path, SETTINGS, {1: detour}) as hubs,
            Workload(hubs.addresses, source, RATE, history) as load,
            Visitors(hubs.addresses, random.Random(f"{seed} visitors"), history) as visitors,
        ):
            for topic in names_of(TOPICS):
                load.subscriber(topic, "follower")
            await load.all_attached(30.0)
            for topic in names_of(TOPICS):
                load.publisher(topic, "publisher")
            healing = Healing(stack, hubs, load)
            started = Fault("nothing yet", began := time.monotonic())
            await healing.measure(started, began)
            visitors.begin(names_of(VISITED))
            assert all(each.opened for each in dividers.values()), "the hub goes through the proxy"
            for what, way, span in source.sample(plan, len(plan)):
                owned = sum(owner == hubs.hubs["hub-1"].address for owner in load.owners().values())
                held = dividers[what].held
                fault = Fault(f"part hub-1 from {what}, {way.name}; it has {owned} topics", time.monotonic())
                history.faults.append(fault)
                dividers[what].part(way)
                await asyncio.sleep(source.uniform(*span))
                dividers[what].heal()
                fault.ended = time.monotonic()
                await healing.all_answer()
                fault.answered = time.monotonic()
                await healing.measure(fault, fault.answered)
                fault.what += f"; {dividers[what].held - held} chunks waited"
                print(fault.line(began))
            await load.finish(30.0)
            wrong = await visitors.finish(30.0)
    print(visitors)
    print(f"{history.acknowledged()} acknowledged; {dict(load.outcomes)}")
    judge(history, hubs, seed, tmp_path, [*wrong, *too_slow(history.faults, began)])
    assert all(each.held for each in dividers.values()), "the network was really parted"
    assert history.acknowledged() > RATE
