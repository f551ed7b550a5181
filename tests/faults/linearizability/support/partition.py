"""The check of a whole history, key by key: a history is linearizable if it is linearizable on every object alone.

Source: Herlihy and Wing, Linearizability (1990), theorem 1: locality.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar

from tests.faults.linearizability.support.limits import Budget, Limits
from tests.faults.linearizability.support.model import Model
from tests.faults.linearizability.support.operations import NOT_APPLIED, Operation
from tests.faults.linearizability.support.search import Blocked, Undecided, search
from tests.faults.linearizability.support.verdict import Refusal, Report

__all__ = ["by_key", "check"]

Input = TypeVar("Input")
Output = TypeVar("Output")


def by_key(operations: Iterable[Operation[Input, Output]]) -> dict[Hashable, list[Operation[Input, Output]]]:
    """Return the operations on each key, without those that were surely not applied."""
    parts: defaultdict[Hashable, list[Operation[Input, Output]]] = defaultdict(list)
    for one in operations:
        if one.output is not NOT_APPLIED:
            parts[one.key].append(one)
    return dict(parts)


def check(
    operations: Iterable[Operation[Input, Output]],
    model: Model[Any, Input, Output],
    limits: Limits | None = None,
    *,
    all_keys: bool = False,
    monotonic: Callable[[], float] = time.monotonic,
) -> Report:
    """Check a history: whether on each key, which is an object of its own, some order explains all answers.

    Keys with few operations come before those with many. The first refused key ends the check, unless `all_keys`.
    """
    budget = Budget(limits or Limits(), monotonic)
    parts = by_key(operations)
    configurations = 0
    refusals, undecided = [], []
    for key, part in sorted(parts.items(), key=lambda part: len(part[1])):
        result = search(part, model, budget)
        configurations += result.configurations
        if isinstance(result, Blocked):
            refusals.append(Refusal(key, len(part), model.prepared(part), result))
            if not all_keys:
                break
        elif isinstance(result, Undecided):
            undecided.append(key)
    total = sum(map(len, parts.values()))
    return Report(len(parts), total, configurations, tuple(refusals), tuple(undecided))
