"""A figure of several runs of one side. Each run is one sample, so the interval contains the noise between runs."""

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
    """Return the figures of one case in some runs. The first one is that by which two sides are compared.

    Runs without any figure are left out, and so are figures that only some of the other runs have.

    Args: is_each_one_sample - each run is one sample, since a side has several runs. Otherwise each round of the only
        run is one.
    """
    measured = [rounds for rounds in runs if good(rounds)]
    per_run = [figures(rounds, own=own, are_times_first=are_times_first) for rounds in measured]
    if not per_run or not is_each_one_sample:
        return per_run[0] if per_run else []
    every = [each for rounds in measured for each in rounds]
    together = {figure.name: figure for figure in figures(every, own=own, are_times_first=are_times_first)}
    by_name = [{figure.name: figure for figure in each} for each in per_run]
    return [
        _of_runs([each[figure.name] for each in by_name], together[figure.name])
        for figure in per_run[0]
        if all(figure.name in each for each in by_name)
    ]


def _of_runs(parts: Sequence[Figure], together: Figure) -> Figure:
    """Return a figure whose rounds are runs. A percentile is that of all histograms together; others are medians."""
    values = tuple(each.value for each in parts)
    return replace(
        together, value=together.value if together.is_percentile else statistics.median(values), rounds=values
    )
