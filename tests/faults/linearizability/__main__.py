"""Judge histories in files: `python -m tests.faults.linearizability FORMAT FILE...`.

FORMAT is `ownership` (what RecordedOwnership wrote; all files are one history), `etcd` or `kv` (logs; each file is a
history of its own). Prints a line for each history, and where a refused one ends.
Exit status: 0 all are linearizable, 1 one is not, 3 one is undecided.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.faults.linearizability.support.classic_models import CasRegister, KeyValue
from tests.faults.linearizability.support.jepsen_logs import read_etcd, read_kv
from tests.faults.linearizability.support.limits import Limits
from tests.faults.linearizability.support.partition import check
from tests.faults.linearizability.support.recorder import read_recorded
from tests.faults.linearizability.support.verdict import Report, Verdict
from tests.faults.linearizability.support.versioned_register import VersionedRegister

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the histories, print the verdicts, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.linearizability", description=__doc__)
    parser.add_argument("format", choices=("ownership", "etcd", "kv"))
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--deadline", type=float, default=Limits().deadline_s, help="seconds for each history")
    chosen = parser.parse_args(arguments)
    verdicts = set()
    for name, report in _reports(chosen.format, chosen.files, Limits(deadline_s=chosen.deadline)):
        verdicts.add(report.verdict)
        print(f"{name}: {report.verdict.value} ({report.operations} operations on {report.keys} keys)")
        for refusal in report.refusals:
            print(refusal)
    if Verdict.NOT_LINEARIZABLE in verdicts:
        return 1
    return 3 if Verdict.UNKNOWN in verdicts else 0


def _reports(form: str, files: Sequence[Path], limits: Limits) -> Iterator[tuple[str, Report]]:
    if form == "ownership":
        yield ", ".join(map(str, files)), check(read_recorded(files), VersionedRegister(), limits)
        return
    for file in files:
        lines = file.read_text().splitlines()
        if form == "etcd":
            yield str(file), check(read_etcd(lines), CasRegister(), limits)
        else:
            yield str(file), check(read_kv(lines), KeyValue(), limits)


if __name__ == "__main__":
    sys.exit(main())
