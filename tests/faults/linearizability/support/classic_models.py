"""The models that checkers are commonly compared by: a register with compare-and-set, a store of strings."""

from dataclasses import dataclass
from typing import Any, TypeAlias

from tests.faults.linearizability.support.model import REFUSED, Model, Refused

__all__ = ["Append", "Applied", "CasRegister", "Compared", "Get", "Got", "KeyValue", "Put", "Swap"]


@dataclass(frozen=True, slots=True)
class Get:
    """Read the value."""


@dataclass(frozen=True, slots=True)
class Put:
    """Store `value`, unconditionally."""

    value: Any


@dataclass(frozen=True, slots=True)
class Append:
    """Append `value` to the stored value."""

    value: str


@dataclass(frozen=True, slots=True)
class Swap:
    """Store `value` if `expected` is stored."""

    expected: Any
    value: Any


@dataclass(frozen=True, slots=True)
class Got:
    """A read found `value`."""

    value: Any


@dataclass(frozen=True, slots=True)
class Applied:
    """The write was applied."""


@dataclass(frozen=True, slots=True)
class Compared:
    """The swap was applied, or found another value."""

    swapped: bool


RegisterInput: TypeAlias = Get | Put | Swap
RegisterOutput: TypeAlias = Got | Applied | Compared


@dataclass(frozen=True, slots=True)
class CasRegister(Model[Any, RegisterInput, RegisterOutput]):
    """A register whose values repeat, so that many orders may explain one history."""

    at_first: Any = None

    @property
    def initial(self) -> Any:
        return self.at_first

    def step(self, state: Any, input: RegisterInput, output: RegisterOutput) -> Any | Refused:
        match input, output:
            case Get(), Got(value):
                return state if state == value else REFUSED
            case Put(value), Applied():
                return value
            case Swap(expected, value), Compared(swapped):
                if swapped != (state == expected):
                    return REFUSED
                return value if swapped else state
        return REFUSED

    def effect(self, state: Any, input: RegisterInput) -> Any | Refused:
        match input:
            case Put(value) if state != value:
                return value
            case Swap(expected, value) if state == expected != value:
                return value
        return REFUSED


KeyValueInput: TypeAlias = Get | Put | Append
KeyValueOutput: TypeAlias = Got | Applied


@dataclass(frozen=True, slots=True)
class KeyValue(Model[str, KeyValueInput, KeyValueOutput]):
    """One key of a store of strings; empty at first."""

    @property
    def initial(self) -> str:
        return ""

    def step(self, state: str, input: KeyValueInput, output: KeyValueOutput) -> str | Refused:
        match input, output:
            case Get(), Got(value):
                return state if state == value else REFUSED
            case Put(str(value)), Applied():
                return value
            case Append(value), Applied():
                return state + value
        return REFUSED

    def effect(self, state: str, input: KeyValueInput) -> str | Refused:
        match input:
            case Put(str(value)) if value != state:
                return value
            case Append(value) if value:
                return state + value
        return REFUSED
