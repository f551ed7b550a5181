"""Histories of true objects: processes overlap, each operation takes effect at one moment, and some answers are lost.

The objects here are written independently of the models, so that tests can compare the two. A script is a sequence of
(process, choice). Each pair takes one process one step further: it asks, the object serves it, it learns the answer.
A history depends only on its script, so a search for short failures can shorten the script.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias

from tests.faults.linearizability.support import classic_models as classic
from tests.faults.linearizability.support import versioned_register as cas
from tests.faults.linearizability.support.model import Model
from tests.faults.linearizability.support.operations import NOT_APPLIED, UNKNOWN, Operation

__all__ = ["CHOICES", "KINDS", "Kind", "Step", "TrueRecord", "random_script", "simulate"]

CHOICES: Final = 1000
"""A choice is a number below this."""

Step: TypeAlias = tuple[int, int]
_VALUES: Final = 3


class TrueObject(Protocol):
    """An object that a model describes."""

    def ask(self, process: int, choice: int) -> Any:
        """Return the next request of a process."""

    def serve(self, process: int, asked: Any) -> Any:
        """Serve a request, and return the answer."""


@dataclass(slots=True)
class TrueRecord:
    """A record under compare-and-set; processes give versions that they have seen, current or not."""

    content: cas.Record | None = None
    writes: int = 0
    known: dict[int, str] = field(default_factory=dict)

    def ask(self, process: int, choice: int) -> cas.CasInput:
        kind, choice = choice % 10, choice // 10
        known = self.known.get(process)
        at: str | cas.Given = cas.NEW if known is None or kind == 5 else cas.ANY if kind == 4 else known
        if kind < 4:
            return cas.Read()
        if kind == 9 and at is not cas.NEW:
            return cas.Delete(at)
        return cas.Write(choice % _VALUES, at)

    def serve(self, process: int, asked: cas.CasInput) -> cas.CasOutput:
        shown = self.content
        if isinstance(asked, cas.Read):
            answer: cas.CasOutput = cas.Returned(shown)
        elif asked.at is cas.NEW and shown is not None:
            answer = cas.Exists(shown)
        elif asked.at is not cas.NEW and shown is None and (isinstance(asked, cas.Delete) or asked.at is not cas.ANY):
            answer = cas.Gone()
        elif shown is not None and not isinstance(asked.at, cas.Given) and asked.at != shown.version:
            answer = cas.Stale(shown)
        elif isinstance(asked, cas.Delete):
            self.content = None
            return cas.Deleted()
        else:
            self.writes += 1
            self.content = cas.Record(asked.value, f"v{self.writes}")
            self.known[process] = f"v{self.writes}"
            return cas.Written(f"v{self.writes}")
        if shown is not None:
            self.known[process] = shown.version
        return answer


@dataclass(slots=True)
class TrueRegister:
    """A register whose few values come back again and again."""

    value: int | None = None

    def ask(self, process: int, choice: int) -> classic.RegisterInput:
        kind, choice = choice % 3, choice // 3
        if kind == 0:
            return classic.Get()
        if kind == 1:
            return classic.Put(choice % _VALUES)
        return classic.Swap(choice % _VALUES, choice // _VALUES % _VALUES)

    def serve(self, process: int, asked: classic.RegisterInput) -> classic.RegisterOutput:
        before = self.value
        if isinstance(asked, classic.Get):
            return classic.Got(before)
        if isinstance(asked, classic.Swap) and before != asked.expected:
            return classic.Compared(False)
        self.value = asked.value
        return classic.Compared(True) if isinstance(asked, classic.Swap) else classic.Applied()


@dataclass(slots=True)
class TrueText:
    """One key of a store of strings."""

    text: str = ""

    def ask(self, process: int, choice: int) -> classic.KeyValueInput:
        kind, choice = choice % 5, choice // 5
        if kind < 2:
            return classic.Get()
        letter = "abc"[choice % 3]
        return classic.Put(letter) if kind == 2 else classic.Append(letter)

    def serve(self, process: int, asked: classic.KeyValueInput) -> classic.KeyValueOutput:
        if isinstance(asked, classic.Get):
            return classic.Got(self.text)
        self.text = asked.value if isinstance(asked, classic.Put) else self.text + asked.value
        return classic.Applied()


@dataclass(frozen=True, slots=True)
class Kind:
    """A model and the true object that it describes."""

    label: str
    model: Model[Any, Any, Any]
    make: Callable[[], TrueObject]


KINDS: Final = (
    Kind("cas record", cas.VersionedRegister(), TrueRecord),
    Kind("register", classic.CasRegister(), TrueRegister),
    Kind("text", classic.KeyValue(), TrueText),
)


@dataclass(slots=True)
class _InFlight:
    start: int
    key: int
    asked: Any
    answer: Any = None
    is_served: bool = False


def simulate(kind: Kind, script: Iterable[Step], *, keys: int = 1, lost: float = 0.1) -> list[Operation[Any, Any]]:
    """Return the calls that the processes of a script report. The share `lost` of the answers is lost.

    An operation whose caller gave up before it was served takes effect at some later step, or never.
    """
    objects = [kind.make() for _ in range(keys)]
    calls: list[Operation[Any, Any]] = []
    under_way: dict[int, _InFlight] = {}
    late: list[tuple[int, _InFlight]] = []

    def report(process: int, one: _InFlight, end: int, output: Any) -> None:
        name, key = f"p{process}", f"k{one.key}"
        calls.append(Operation(process=name, key=key, start=one.start, end=end, input=one.asked, output=output))

    now = 0
    for now, (process, choice) in enumerate(script):
        if late and choice % 7 == 0:
            orphan, forgotten = late.pop(choice % len(late))
            objects[forgotten.key].serve(orphan, forgotten.asked)
        one = under_way.get(process)
        # The lowest digits choose the request. A scrambled choice decides what is lost, so that it is independent.
        is_lost = choice * 389 % CHOICES < lost * CHOICES
        if one is None:
            key = choice * 7 % keys
            under_way[process] = _InFlight(now, key, objects[key].ask(process, choice))
        elif not one.is_served and is_lost:
            del under_way[process]
            if choice % 3:
                late.append((process, one))
            report(process, one, now, UNKNOWN if choice % 3 else NOT_APPLIED)
        elif not one.is_served:
            one.answer, one.is_served = objects[one.key].serve(process, one.asked), True
        else:
            del under_way[process]
            report(process, one, now, UNKNOWN if is_lost else one.answer)
    for process, one in under_way.items():
        report(process, one, now, UNKNOWN)
    return calls


def random_script(rng: random.Random, processes: int, steps: int) -> Iterator[Step]:
    """Return a script; an operation takes three steps."""
    names: Sequence[int] = range(processes)
    for _ in range(steps):
        yield rng.choice(names), rng.randrange(CHOICES)
