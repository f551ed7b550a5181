"""Prove how a hub chooses the owner of a topic without one."""

import asyncio
from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from hedwig.hub.liveness.live_hub import DRAINING_LOAD, LiveHub
from hedwig.hub.liveness.placement import Placement, choose
from hedwig.model import HubInfo
from tests.faults.support.waiting import until
from tests.hub.liveness.support.hubs import Hubs

DRAWS = 20_000


def _hub(number: int, load: int) -> LiveHub:
    return LiveHub(HubInfo(host="h", port=number, epoch=1), load)


def _shares(placement: Placement, *loads: int) -> list[float]:
    """Return which share of topics each hub gets."""
    placed = _placed(placement, DRAWS, *loads)
    return [number / DRAWS for number in placed]


def _placed(placement: Placement, topics: int, *loads: int) -> list[int]:
    """Return how many of N topics each hub gets."""
    random, placed = Random(7), Counter[str]()
    hubs = [_hub(number, load) for number, load in enumerate(loads)]
    for _ in range(topics):
        known = [replace(hub, load=hub.load + placed[hub.info.address]) for hub in hubs]
        placed[choose(known, placement, random, placed).info.address] += 1
    return [placed[hub.info.address] for hub in hubs]


def test_uniform_does_not_look_at_loads() -> None:
    assert _shares(Placement.UNIFORM, 0, 10, 10_000) == pytest.approx([1 / 3] * 3, abs=0.02)


@pytest.mark.parametrize("load", [0, 1, 20_000])
def test_hubs_of_equal_loads_are_chosen_in_turn(load: int) -> None:
    assert _shares(Placement.BY_LOAD, load, load, load) == pytest.approx([1 / 3] * 3, abs=1 / DRAWS)


def test_an_empty_hub_gets_most_but_not_all() -> None:
    empty, *full = _placed(Placement.BY_LOAD, 1_000, 0, 20_000, 20_000, 20_000)
    assert 500 < empty < 800
    assert max(full) - min(full) <= 1


def test_less_load_means_more_topics_until_the_loads_are_equal() -> None:
    few = _shares(Placement.BY_LOAD, 100, 200, 400)
    assert few == sorted(few, reverse=True)
    assert few[0] > few[2]


@pytest.mark.parametrize("asked", ["one", "all"])
@pytest.mark.parametrize("refresh_s", [0.2, 600.0])
async def test_a_thousand_new_topics_go_to_three_hubs_evenly(hubs: Hubs, refresh_s: float, asked: str) -> None:
    """Whether the hubs hear of the new loads or not, and whether clients ask all of them or always the same."""
    members = [await hubs.start(number, refresh_s=refresh_s) for number in (1, 2, 3)]
    await until(lambda: all(len(each.liveness.live) == 3 for each in members), "they know each other")
    registrations = [each.liveness.registration for each in members]
    loads = Counter[str]()
    for number in range(1_000):
        chosen = registrations[number % 3 if asked == "all" else 0].choose().address
        loads[chosen] += 1
        next(each for each in members if each.liveness.registration.hub.address == chosen).liveness.set_load(
            loads[chosen]
        )
        if number % 50 == 0:
            await asyncio.sleep(0.1)  # Beats and reads come in between.
    assert min(loads.values()) >= 1_000 / 3 * 0.9, loads
    assert max(loads.values()) <= 1_000 / 3 * 1.1, loads


@pytest.mark.parametrize("placement", list(Placement))
def test_a_draining_hub_is_passed_over_unless_all_are(placement: Placement) -> None:
    assert _shares(placement, 5, DRAINING_LOAD)[1] == 0
    assert min(_shares(placement, DRAINING_LOAD, DRAINING_LOAD)) > 0.4
