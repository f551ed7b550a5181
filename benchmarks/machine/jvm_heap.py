"""The heap of a Java virtual machine, seen from outside: its bound, its live bytes, and whether it was full.

The system's memory that a machine holds says little. It is the part of the heap that the collector has touched so far.
Live objects may or may not remain in it.
"""

import re
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from hedwig.benchmarks.errors import BenchmarkError
from hedwig.benchmarks.machine.jvm_flags import flags_of
from hedwig.cli.dev.servers.java import find_java
from hedwig.errors import OperationError

__all__ = [
    "find_jcmd",
    "full_heap",
    "fullness",
    "has_full_heap",
    "heap_max_bytes",
    "live_heap_bytes",
    "out_of_memory",
    "used_heap_bytes",
]

_COLLECT_S: Final = 120.0
_TELL_S: Final = 10.0
_KIB: Final = 1 << 10
_UNITS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_GENERATION: Final = re.compile(r"total (\d+)K, used (\d+)K")
"""A part of the heap. The memory of classes does not match: it is reported as `used …, committed …`."""
_G1_HEAP: Final = re.compile(r"garbage-first heap\s+total (\d+)K, used (\d+)K")
_FULL_SHARE: Final = 0.9
"""G1 keeps a tenth of its heap free, so that it has somewhere to copy objects to."""
_FULL: Final = "java.lang.OutOfMemoryError"


def find_jcmd() -> Path:
    """Return the path of jcmd. Raises BenchmarkError - Java is here without it; DevError - there is no Java."""
    jcmd = Path(find_java()).resolve().with_name("jcmd")
    if not jcmd.exists():
        raise BenchmarkError(f"there is no jcmd beside {find_java()}: install a JDK, since a JRE cannot read a heap")
    return jcmd


def live_heap_bytes(pid: int) -> int:
    """Have a machine collect its garbage, and return how many bytes remain.

    Raises: BenchmarkError - it did not do so in time.
    """
    _ask(pid, "GC.run", _COLLECT_S)
    return used_heap_bytes(pid)


def used_heap_bytes(pid: int) -> int:
    """Return how much of its heap a machine uses, garbage included. Raises BenchmarkError - no answer in time."""
    parts = _GENERATION.findall(_ask(pid, "GC.heap_info", _TELL_S))
    if not parts:
        raise BenchmarkError(f"the virtual machine {pid} reports its heap in an unknown form")
    return sum(int(used) for _, used in parts) * _KIB


def full_heap(pid: int) -> str | None:
    """Have a machine collect its garbage; return how full its heap is if it is full, else None.

    With a full heap, each further object that stays takes a collection of the whole heap, during which the machine
    does no other work.

    Raises: BenchmarkError - it did not do so in time.
    """
    _ask(pid, "GC.run", _COLLECT_S)
    return fullness(_ask(pid, "GC.heap_info", _TELL_S))


def has_full_heap(pids: Iterable[int]) -> bool:
    """Say whether the heap of one of these machines is full, as far as they answer; each collects its garbage."""
    for pid in pids:
        with suppress(OperationError):
            if full_heap(pid) is not None:
                return True
    return False


def fullness(heap_info: str) -> str | None:
    """Return how full the heap is, as G1 reports it after a collection, if it is full; else None."""
    match = _G1_HEAP.search(heap_info)
    if match is None or int(match[2]) < _FULL_SHARE * int(match[1]):
        return None
    total, used = (int(each) // _KIB for each in match.groups())
    return f"{used:,} of {total:,} MiB after a collection"


def heap_max_bytes(pid: int) -> int | None:
    """Return how large a machine's heap may become, None if no flag says so, or the machine has ended."""
    bounds = [flag.removeprefix("-Xmx").lower() for flag in flags_of(pid) if flag.startswith("-Xmx")]
    if not bounds:
        return None
    number, unit = re.fullmatch(r"(\d+)([kmg]?)", bounds[-1]).groups()  # type: ignore[union-attr]  # else it has ended
    return int(number) * _UNITS[unit]


def out_of_memory(log: Path) -> list[str]:
    """Return the different lines of a log that report a full heap, each once."""
    try:
        with log.open(errors="replace") as lines:
            return list(dict.fromkeys(line[line.index(_FULL) :].strip() for line in lines if _FULL in line))
    except OSError:
        return []


def _ask(pid: int, command: str, seconds_max: float) -> str:
    asked = [str(find_jcmd()), str(pid), command]
    try:
        ran = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=seconds_max)
    except subprocess.TimeoutExpired:
        raise BenchmarkError(f"the virtual machine {pid} did not run {command} within {seconds_max:g} s") from None
    if ran.returncode:
        raise BenchmarkError(f"the virtual machine {pid} did not run {command}: {(ran.stderr or ran.stdout).strip()}")
    return ran.stdout
