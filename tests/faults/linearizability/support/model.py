"""Models: how an object behaves under one operation after another."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import Enum
from typing import Any, Final, Generic, Self, TypeVar

from tests.faults.linearizability.support.operations import Operation, Unanswered

__all__ = ["REFUSED", "Model", "Refused"]

State = TypeVar("State")
Input = TypeVar("Input")
Output = TypeVar("Output")


class Refused(Enum):
    """The answer of a model to an operation that cannot have had its output."""

    REFUSED = "refused"


REFUSED: Final = Refused.REFUSED


class Model(ABC, Generic[State, Input, Output]):
    """A sequential object. States are immutable and hashable; equal states behave alike."""

    @property
    @abstractmethod
    def initial(self) -> State:
        """Return the state before the first operation."""

    @abstractmethod
    def step(self, state: State, input: Input, output: Output) -> State | Refused:
        """Return the state after an operation with this output, REFUSED if it cannot have that output on `state`."""

    @abstractmethod
    def effect(self, state: State, input: Input) -> State | Refused:
        """Return the state after an operation whose output is unknown, REFUSED if it changes nothing."""

    def prepared(self, operations: Sequence[Operation[Input, Output]]) -> Self:
        """Return the model for one key's operations, if it must know all of them beforehand."""
        return self

    def describe(self, operation: Operation[Any, Any]) -> str:
        """Return an operation as text for a reader."""
        output = operation.output
        return f"{operation.input} -> {output.value if isinstance(output, Unanswered) else output}"

    def describe_state(self, state: State) -> str:
        """Return a state as text for a reader."""
        return repr(state)
