"""Operations: the request of one process to an object, its time, and its answer."""

from collections.abc import Hashable
from dataclasses import dataclass
from enum import Enum
from typing import Final, Generic, TypeVar

__all__ = ["NOT_APPLIED", "UNKNOWN", "Operation", "Unanswered"]

Input = TypeVar("Input", covariant=True)
Output = TypeVar("Output", covariant=True)


class Unanswered(Enum):
    """Why an operation has no output."""

    UNKNOWN = "outcome unknown"
    NOT_APPLIED = "not applied"


UNKNOWN: Final = Unanswered.UNKNOWN
"""The call never returned, or with UncertainStateError: it takes effect at any time after its start, or never."""

NOT_APPLIED: Final = Unanswered.NOT_APPLIED
"""The call failed for sure (MetadataUnavailableError): it has no effect and saw nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(Generic[Input, Output]):
    """One call by one process on one key, between `start` and `end` (ns) of a clock that all processes share.

    Operations on different keys are on different objects. The `end` of an operation without an output is when its
    caller gave up, or its start if that is unknown; it bounds nothing.
    """

    process: str
    key: Hashable
    start: int
    end: int
    input: Input
    output: Output | Unanswered

    def __post_init__(self) -> None:
        if self.end < self.start:
            raise ValueError(f"an operation of {self.process} on {self.key!r} ends before it starts: {self!r}")
