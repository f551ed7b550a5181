"""A figure of several runs of one side: each run is one sample, so that the noise between runs is in the interval."""

import statistics
from collections.abc import Sequence
from dataclasses import replace

from hedwig.benchmarks.runs.figures import Figure, OwnFigures, figures
from hedwig.benchmarks.runs.results import Measurement
from hedwig.benchmarks.runs.rounds import good

__all__ = ["figures_of_runs"]


def figures_of_runs(
    runs: Sequence[Sequence[Measurement]], *, own: OwnFigures, are_times_first: bool, is_each_one_sample: bool
) -> list[Figure]:
    """Return the figures of one case in some runs, that first by which two sides are compared.

    is_each_one_sample: so it is as soon as one of the sides has several runs; else the rounds of the only one are.
    Runs without any figure are left out; figures that only some of the others have are not there.
    """
    measured = [rounds for rounds in runs if good(rounds)]
    found = [figures(rounds, own=own, are_times_first=are_times_first) for rounds in measured]
    if not found or not is_each_one_sample:
        return found[0] if found else []
    every = [each for rounds in measured for each in rounds]
    together = {figure.name: figure for figure in figures(every, own=own, are_times_first=are_times_first)}
    by_name = [{figure.name: figure for figure in each} for each in found]
    return [
        _of_runs([each[figure.name] for each in by_name], together[figure.name])
        for figure in found[0]
        if all(figure.name in each for each in by_name)
    ]


def _of_runs(parts: Sequence[Figure], together: Figure) -> Figure:
    """Return a figure whose rounds are runs: a percentile of all their histograms, anything else their median."""
    values = tuple(each.value for each in parts)
    return replace(
        together, value=together.value if together.is_percentile else statistics.median(values), rounds=values
    )
