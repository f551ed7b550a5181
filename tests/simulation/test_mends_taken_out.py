"""The simulation finds the defects that it was made for: without each fix, one of 20,000 seeds breaks a rule."""

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from typing import Final

import pytest

from tests.simulation import Simulation, SimulationFailed, simulate
from tests.simulation.taken_out import TAKEN_OUT, without_mend

_SEEDS: Final = 20_000
_BLOCK: Final = 50


@pytest.mark.full
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("number", TAKEN_OUT)
def test_a_defect_is_found_again(number: str) -> None:
    processes = os.cpu_count() or 1
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        for first in range(0, _SEEDS, processes * _BLOCK):
            blocks = [range(first + step * _BLOCK, first + (step + 1) * _BLOCK) for step in range(processes)]
            reports = [report for report in pool.map(first_failure, blocks, [number] * processes) if report]
            if reports:
                print(f"{number} is found: {reports[0].partition(chr(10))[0]}")
                return
    pytest.fail(f"{number} is not found in {_SEEDS} seeds")


def first_failure(seeds: range, number: str) -> str | None:
    """Return the report of the first seed that fails without the fix `number`; None if none fails."""
    with without_mend(number):
        for seed in seeds:
            try:
                simulate(Simulation(seed))
            except SimulationFailed as exc:
                return str(exc)
    return None
