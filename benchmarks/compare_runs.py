"""A figure of several runs of one side: each run is one sample, so that the noise between runs is in the interval."""

import statistics
from collections.abc import Sequence

from benchmarks.compare_figures import Figure, figures, good
from benchmarks.results import Measurement

__all__ = ["figures_of_runs"]


def figures_of_runs(
    program: str, runs: Sequence[Sequence[Measurement]], *, are_times_first: bool, is_each_one_sample: bool
) -> list[Figure]:
    """Return the figures of one case in some runs, that first by which two sides are compared.

    is_each_one_sample: so it is as soon as one of the sides has several runs; else the rounds of the only one are.
    Runs without any figure are left out; figures that only some of the others have are not there.
    """
    found = [figures(program, rounds, are_times_first=are_times_first) for rounds in runs if good(rounds)]
    if not found or not is_each_one_sample:
        return found[0] if found else []
    by_name = [{figure.name: figure for figure in each} for each in found]
    return [
        _of_runs([each[figure.name] for each in by_name])
        for figure in found[0]
        if all(figure.name in each for each in by_name)
    ]


def _of_runs(parts: Sequence[Figure]) -> Figure:
    values = tuple(each.value for each in parts)
    first = parts[0]
    return Figure(
        name=first.name,
        value=statistics.median(values),
        rounds=values,
        form=first.form,
        words=first.words,
        is_more_worse=first.is_more_worse,
    )
