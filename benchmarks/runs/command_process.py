"""One command of hedwig-admin in a process of its own: how it ended, how long it took, and its peak memory."""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hedwig.benchmarks.errors import BenchmarkError
from hedwig.benchmarks.load.interrupts import interrupt_later
from hedwig.benchmarks.machine.checkout import CHECKOUT

__all__ = ["CommandRun", "run_command"]

_PROGRAM: Final = """
import sys
peak = sys.argv.pop(1)
sys.argv[0] = "hedwig-admin"
from hedwig.cli.main import main
try:
    main()
finally:
    with open("/proc/self/status") as status, open(peak, "w") as output:
        output.write(next(line.split()[1] for line in status if line.startswith("VmHWM:")))
"""
"""The process reports its own peak. The peak that wait4 reports for a child begins with the memory of its parent."""
_LOOK_EVERY_S: Final = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRun:
    """A command that has ended. `rss_bytes_max` is the peak of its resident memory."""

    code: int
    seconds: float
    cpu_s: float
    rss_bytes_max: int
    said: str


def run_command(arguments: Sequence[str], output: Path, deadline_s: float) -> CommandRun:
    """Run hedwig-admin to its end, with `output` as its standard output.

    The user's settings (environment, saved contexts) do not apply.

    Raises: BenchmarkError - it did not end in time, and was killed; or another process killed it.
    """
    talk, peak = (output.with_name(f"{output.name}.{what}") for what in ("talk", "peak"))
    peak.unlink(missing_ok=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HEDWIG_")}
    environment |= {"XDG_CONFIG_HOME": str(output.parent), "PYTHONPATH": str(CHECKOUT)}
    began = time.monotonic()
    with output.open("wb") as out, talk.open("wb") as err:
        with interrupt_later():
            process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, str(peak), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=output.parent,
                env=environment,
            )
        try:
            # Only wait4 reports what one child used, and it has no timeout.
            while True:
                pid, status, used = os.wait4(process.pid, os.WNOHANG)
                if pid:
                    break
                if time.monotonic() - began > deadline_s:
                    raise BenchmarkError(f"hedwig-admin {' '.join(arguments)} did not end within {deadline_s:g} s")
                time.sleep(_LOOK_EVERY_S)
        except BaseException:
            process.kill()
            process.wait()
            raise
    process.returncode = os.waitstatus_to_exitcode(status)
    if not peak.exists():
        raise BenchmarkError(f"hedwig-admin {' '.join(arguments)} was ended: code {process.returncode}")
    return CommandRun(
        code=process.returncode,
        seconds=time.monotonic() - began,
        cpu_s=used.ru_utime + used.ru_stime,
        rss_bytes_max=int(peak.read_text()) * 1024,
        said=talk.read_text(errors="replace"),
    )
