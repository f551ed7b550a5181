"""Prove how a hub chooses the owner of a topic without one."""

from collections import Counter
from random import Random

import pytest

from hedwig.hub.liveness.live_hub import DRAINING_LOAD, LiveHub
from hedwig.hub.liveness.placement import Placement, choose
from hedwig.model import HubInfo

DRAWS = 20_000


def _hub(number: int, load: int) -> LiveHub:
    return LiveHub(HubInfo(host="h", port=number, epoch=1), load)


def _shares(placement: Placement, *loads: int) -> list[float]:
    hubs = [_hub(number, load) for number, load in enumerate(loads)]
    random = Random(7)
    drawn = Counter(choose(hubs, placement, random).info.port for _ in range(DRAWS))
    return [drawn[number] / DRAWS for number in range(len(loads))]


def test_uniform_does_not_look_at_loads() -> None:
    assert _shares(Placement.UNIFORM, 0, 10, 10_000) == pytest.approx([1 / 3] * 3, abs=0.02)


@pytest.mark.parametrize("load", [0, 1, 20_000])
def test_equal_loads_have_equal_chances(load: int) -> None:
    assert _shares(Placement.BY_LOAD, load, load, load) == pytest.approx([1 / 3] * 3, abs=0.02)


def test_an_empty_hub_draws_most_but_not_all() -> None:
    empty, *full = _shares(Placement.BY_LOAD, 0, 20_000, 20_000, 20_000)
    assert 0.6 < empty < 0.8
    assert max(full) - min(full) < 0.02


def test_less_load_means_a_better_chance() -> None:
    shares = _shares(Placement.BY_LOAD, 100, 200, 400)
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > shares[2] + 0.1


@pytest.mark.parametrize("placement", list(Placement))
def test_a_draining_hub_is_passed_over_unless_all_are(placement: Placement) -> None:
    assert _shares(placement, 5, DRAINING_LOAD)[1] == 0
    assert min(_shares(placement, DRAINING_LOAD, DRAINING_LOAD)) > 0.4
