"""Prove that the Java client summarizes a window of operations as the Python clients do."""

import json
import random
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hedwig.benchmarks.drivers.records.java_program import java_command
from hedwig.benchmarks.load.recording import Recording, Summary
from hedwig.benchmarks.load.workloads import Workload

_PROGRAM: Final = Path(__file__).with_name("java") / "SummaryOfGiven.java"
_SECOND_NS: Final = 1_000_000_000
_BEGIN_S, _END_S = 0.5, 2.5
_NEVER: Final = 3600 * _SECOND_NS


@dataclass(frozen=True, slots=True)
class _Operation:
    """An operation of a load: its begin and end, ns after the start. It has no end if it never finished."""

    begun: int
    finished: int | None
    error: str | None = None


def _in_java(operations: list[_Operation], directory: Path) -> Summary:
    java, *_, classpath, _ = java_command(print)
    subprocess.run(
        [Path(java).with_name("javac"), "-cp", classpath, "-d", directory, _PROGRAM], check=True, timeout=120
    )
    lines = [f"{round(_BEGIN_S * _SECOND_NS)} {round(_END_S * _SECOND_NS)}"]
    lines += [f"{each.begun} {each.finished or '-'} {each.error or '-'}" for each in operations]
    ran = subprocess.run(
        [java, "-cp", f"{directory}:{classpath}", "hedwig.benchmarks.SummaryOfGiven"],
        input="\n".join(lines),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=120,
    )
    return Summary.from_json(json.loads(ran.stdout))


def _in_python(operations: list[_Operation]) -> Summary:
    recording = Recording(Workload(name="update", in_flight=8, seconds=_END_S, warmup_s=_BEGIN_S))
    for number, each in enumerate(operations):
        recording.intended_ns.append(each.begun)
        recording.begun_ns.append(each.begun)
        recording.finished_ns.append(_NEVER if each.finished is None else each.finished)
        error = "unfinished" if each.finished is None else each.error
        if error is not None:
            recording.errors[number] = error
    return recording.summarize()


def _drawn() -> list[_Operation]:
    """Return operations of each kind: before, in, after and across the window, failed, and unfinished."""
    draw = random.Random(7)
    made = []
    for _ in range(500):
        begun = draw.randrange(3 * _SECOND_NS)
        finished = begun + round(draw.expovariate(2) * _SECOND_NS)
        error = draw.choice([None, None, None, "SERVICE_DOWN", "TIMEOUT"])
        made.append(_Operation(begun, None if draw.random() < 0.05 else finished, error))
    # Some at the very borders.
    begin, end = round(_BEGIN_S * _SECOND_NS), round(_END_S * _SECOND_NS)
    made += [_Operation(*times) for times in ((1, begin), (begin, end), (end, end + 1), (1, end), (1, end + 1))]
    return made


def test_both_clients_summarize_the_same_operations_alike(tmp_path: Path) -> None:
    operations = _drawn()
    java, python = _in_java(operations, tmp_path), _in_python(operations)
    assert python.throughout > 10, "callers that had no answer in all of the window are among them"
    for name in ("count", "throughout", "refusals", "offered", "missed", "errors", "seconds"):
        assert getattr(java, name) == getattr(python, name), name
    for name in ("service", "response"):
        assert getattr(java, name).encode() == getattr(python, name).encode(), name
    # Each client decides itself when it gives up an unfinished operation.
    last = max(each.finished // _SECOND_NS for each in operations if each.finished is not None)
    assert last > 3
    for number in range(last + 1):
        assert java.series[number].to_json() == python.series[number].to_json(), number
