"""Verdicts over whole histories, and the text for a reader about a refused one."""

from collections.abc import Hashable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from tests.faults.linearizability.support.model import REFUSED, Model
from tests.faults.linearizability.support.operations import Operation, Unanswered
from tests.faults.linearizability.support.search import Blocked

__all__ = ["NotLinearizableError", "Refusal", "Report", "UndecidedError", "Verdict"]

_SHOWN_OF_ORDER: Final = 12
_SHOWN_OF_WAITING: Final = 40
_SHOWN_OF_TEXT: Final = 200
_POSSIBLE: Final = "possible there, but does not help"
_IMPOSSIBLE: Final = "impossible there, or without effect"


class Verdict(Enum):
    """The verdict of the checker on a history."""

    LINEARIZABLE = "linearizable"
    NOT_LINEARIZABLE = "not linearizable"
    UNKNOWN = "unknown"


class NotLinearizableError(AssertionError):
    """No order explains the history; the text shows where it ends."""


class UndecidedError(Exception):
    """The search reached its limits. It is an error of the test, which asked too much: neither a pass nor a finding."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The operations on one key that no order explains, and how far an order can explain them."""

    key: Hashable
    operations: int
    model: Model[Any, Any, Any]
    result: Blocked

    def __str__(self) -> str:
        result, model = self.result, self.model
        everyone = [*result.order, result.blocked, *result.waiting]
        origin = min(one.start for one in everyone)
        width = max(len(one.process) for one in everyone)

        def line(one: Operation[Any, Any]) -> str:
            end = "     open" if isinstance(one.output, Unanswered) else f"{_ms(one.end - origin)}"
            return f"    [{_ms(one.start - origin)} - {end} ms] {one.process:{width}} {_short(model.describe(one))}"

        lines = [f"key {self.key!r}: no order explains these {self.operations} operations."]
        lines.append(f"  The longest order explains {len(result.order)} of them, and all that had ended before:")
        states = [model.initial]
        for one in result.order:
            states.append(_after(model, states[-1], one))
        hidden = max(0, len(result.order) - _SHOWN_OF_ORDER)
        if hidden:
            lines.append(f"    ... {hidden} more, then: {_short(model.describe_state(states[hidden]))}")
        for one, state in list(zip(result.order, states[1:], strict=True))[hidden:]:
            lines.append(f"{line(one)}   => {_short(model.describe_state(state))}")
        lines += ["  There, or anywhere else before its end, this one could not be placed:", line(result.blocked)]
        if result.waiting:
            lines.append("  Not placed either, and started before that end:")
            for one in result.waiting[:_SHOWN_OF_WAITING]:
                is_possible = _after(model, result.state, one) is not REFUSED
                lines.append(f"{line(one)}   ({_POSSIBLE if is_possible else _IMPOSSIBLE})")
            if len(result.waiting) > _SHOWN_OF_WAITING:
                lines.append(f"    ... {len(result.waiting) - _SHOWN_OF_WAITING} more")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a check: the refused keys, and the keys that the limits left undecided."""

    keys: int
    operations: int
    configurations: int
    refusals: tuple[Refusal, ...]
    undecided: tuple[Hashable, ...]

    @property
    def verdict(self) -> Verdict:
        """One refused key decides; else one undecided key leaves all undecided."""
        if self.refusals:
            return Verdict.NOT_LINEARIZABLE
        return Verdict.UNKNOWN if self.undecided else Verdict.LINEARIZABLE

    def require(self) -> None:
        """Raise unless the history is linearizable: NotLinearizableError - it is not; UndecidedError - not decided."""
        if self.refusals:
            others = f"\n{len(self.refusals) - 1} more keys are refused too" if len(self.refusals) > 1 else ""
            raise NotLinearizableError(f"{self.refusals[0]}{others}")
        if self.undecided:
            named = ", ".join(map(repr, self.undecided[:5]))
            raise UndecidedError(
                f"the limits were reached on {len(self.undecided)} of {self.keys} keys ({named}) after"
                f" {self.configurations} configurations; raise the limits, or record shorter histories"
            )


def _after(model: Model[Any, Any, Any], state: Any, one: Operation[Any, Any]) -> Any:
    if isinstance(one.output, Unanswered):
        return model.effect(state, one.input)
    return model.step(state, one.input, one.output)


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN_OF_TEXT else f"{text[: _SHOWN_OF_TEXT // 2]} ... {text[-_SHOWN_OF_TEXT // 2 :]}"


def _ms(duration_ns: int) -> str:
    return f"{duration_ns / 1e6:9.3f}"
