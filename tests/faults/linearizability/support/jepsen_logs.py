"""Readers of two formats in which histories are commonly published: one event a line, each line one millisecond.

`etcd`: lines of Jepsen's log of a register, `INFO  jepsen.util - PROCESS :invoke|:ok|:fail :read|:write|:cas VALUE`,
with tabs between the words. The reader skips other lines, such as those of Jepsen's nemesis. A read that timed out saw
nothing; any other event without an answer stays open.

`kv`: `{:process 1, :type :invoke|:ok, :f :get|:put|:append, :key "k", :value "v"}`.

Source: the logs of Jepsen's etcd test and of a key-value store, in the form in which the checker Porcupine reads them.
"""

import re
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Generic, TypeVar

from tests.faults.linearizability.support.classic_models import (
    Append,
    Applied,
    Compared,
    Get,
    Got,
    KeyValueInput,
    KeyValueOutput,
    Put,
    RegisterInput,
    RegisterOutput,
    Swap,
)
from tests.faults.linearizability.support.operations import NOT_APPLIED, UNKNOWN, Operation, Unanswered

__all__ = ["read_etcd", "read_kv"]

Input = TypeVar("Input")
Output = TypeVar("Output")

_LINE_NS: Final = 1_000_000
_ETCD: Final = re.compile(r"INFO\s+jepsen\.util\s+-\s+(\d+)\s+:(invoke|ok|fail)\s+:(read|write|cas)\s+(.+?)\s*")
_KV: Final = re.compile(
    r'{:process (\d+), :type :(invoke|ok), :f :(get|put|append), :key "(.*)", :value (?:nil|"(.*)")}'
)


@dataclass(slots=True)
class _Open(Generic[Input, Output]):
    """The operations read so far: the finished ones, and each process's unfinished one."""

    done: list[Operation[Input, Output]] = field(default_factory=list)
    waiting: dict[str, tuple[int, Hashable, Input]] = field(default_factory=dict)

    def begin(self, process: str, moment: int, key: Hashable, asked: Input) -> None:
        self.give_up(process)
        self.waiting[process] = (moment, key, asked)

    def finish(self, process: str, moment: int, answer: Callable[[Input], Output | Unanswered]) -> None:
        start, key, asked = self.waiting.pop(process)
        output = answer(asked)
        self.done.append(Operation(process=process, key=key, start=start, end=moment, input=asked, output=output))

    def give_up(self, process: str) -> None:
        if process in self.waiting:
            self.finish(process, self.waiting[process][0], lambda _: UNKNOWN)

    def all(self) -> list[Operation[Input, Output]]:
        for process in list(self.waiting):
            self.give_up(process)
        return self.done


def read_etcd(lines: Iterable[str]) -> list[Operation[RegisterInput, RegisterOutput]]:
    """Return the operations of a log of one register. Raises ValueError - an event that cannot be."""
    calls: _Open[RegisterInput, RegisterOutput] = _Open()
    for number, line in enumerate(lines):
        moment = number * _LINE_NS
        if not (event := _ETCD.fullmatch(line.rstrip("\n"))):
            continue
        process, kind, name, value = event.groups()
        if kind == "invoke":
            asked: RegisterInput = Get()
            if name == "write":
                asked = Put(int(value))
            elif name == "cas":
                asked = Swap(*map(int, value.strip("[]").split()))
            calls.begin(process, moment, "register", asked)
        else:
            calls.finish(process, moment, partial(_etcd_answer, kind, value))
    return calls.all()


def _etcd_answer(kind: str, value: str, asked: RegisterInput) -> RegisterOutput | Unanswered:
    match asked, kind:
        case Get(), "ok":
            return Got(None if value == "nil" else int(value))
        case Get(), "fail":
            return NOT_APPLIED
        case Put(), "ok":
            return Applied()
        case Swap(), _:
            return Compared(kind == "ok")
    raise ValueError(f"{asked} cannot come to :{kind} {value}")


def read_kv(lines: Iterable[str]) -> list[Operation[KeyValueInput, KeyValueOutput]]:
    """Return the operations of a log of a store of strings. Raises ValueError - a line of another form."""
    calls: _Open[KeyValueInput, KeyValueOutput] = _Open()
    for number, line in enumerate(lines):
        moment = number * _LINE_NS
        if not (event := _KV.fullmatch(line.rstrip("\n"))):
            raise ValueError(f"line {number + 1} is no event of a key-value store: {line!r}")
        process, kind, name, key, value = event.groups()
        if kind == "invoke":
            asked: KeyValueInput = Get() if name == "get" else Put(value) if name == "put" else Append(value)
            calls.begin(process, moment, key, asked)
        else:
            calls.finish(process, moment, partial(_kv_answer, value))
    return calls.all()


def _kv_answer(value: str, asked: KeyValueInput) -> KeyValueOutput:
    return Got(value) if isinstance(asked, Get) else Applied()
