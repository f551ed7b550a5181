"""The definition of linearizability, taken literally: every order of every choice of operations. For a few only."""

import itertools
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from tests.faults.linearizability.support.model import REFUSED, Model
from tests.faults.linearizability.support.operations import NOT_APPLIED, UNKNOWN, Operation, Unanswered

__all__ = ["explains", "prepared", "some_order_explains"]


def some_order_explains(history: Sequence[Operation[Any, Any]], model: Model[Any, Any, Any]) -> bool:
    """Say whether an order of all keys' operations together explains them, with open ones included or left out."""
    answered = [one for one in history if not isinstance(one.output, Unanswered)]
    unanswered = [one for one in history if one.output is UNKNOWN]
    models = prepared(history, model)
    return any(
        explains(order, models)
        for count in range(len(unanswered) + 1)
        for taken in itertools.combinations(unanswered, count)
        for order in itertools.permutations([*answered, *taken])
    )


def prepared(
    history: Iterable[Operation[Any, Any]], model: Model[Any, Any, Any]
) -> dict[Hashable, Model[Any, Any, Any]]:
    """Return the model for each key."""
    parts: dict[Hashable, list[Operation[Any, Any]]] = {}
    for one in history:
        if one.output is not NOT_APPLIED:
            parts.setdefault(one.key, []).append(one)
    return {key: model.prepared(part) for key, part in parts.items()}


def explains(order: Sequence[Operation[Any, Any]], models: dict[Hashable, Model[Any, Any, Any]]) -> bool:
    """Say whether an order agrees with the clock and with all answers."""
    latest_start = None
    for one in order:
        if latest_start is not None and not isinstance(one.output, Unanswered) and one.end < latest_start:
            return False
        latest_start = one.start if latest_start is None else max(latest_start, one.start)
    states = {key: model.initial for key, model in models.items()}
    for one in order:
        model, state = models[one.key], states[one.key]
        open_ = isinstance(one.output, Unanswered)
        states[one.key] = model.effect(state, one.input) if open_ else model.step(state, one.input, one.output)
        if states[one.key] is REFUSED:
            return False
    return True
