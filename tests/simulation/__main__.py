"""Run seeds by hand: python -m tests.simulation SEED [--count N] [--all]."""

import argparse
import sys
import time

from tests.simulation import Simulation, SimulationFailed, simulate
from tests.simulation.options import LEFT_OUT


def main() -> int:
    """Run the seeds. Print what failed, and the schedule of each seed that failed, or of the only seed."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=main.__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("--count", type=int, default=1, help="how many seeds, from SEED on")
    parser.add_argument("--all", action="store_true", help="print everything that happened, not the schedule alone")
    parser.add_argument("--brief", action="store_true", help="print only the rule that each failing seed breaks")
    parser.add_argument("--whole", action="store_true", help="leave nothing out that is known to fail")
    chosen = parser.parse_args()
    failed = 0
    began = time.process_time()
    for seed in range(chosen.seed, chosen.seed + chosen.count):
        simulation = Simulation(seed, () if chosen.whole else LEFT_OUT)
        error = None
        try:
            simulate(simulation)
        except SimulationFailed as exc:
            failed += 1
            error = exc
        history = simulation.history
        if error is not None and chosen.brief:
            print(str(error).partition("\n")[0][:300], flush=True)
        elif error is not None or chosen.count == 1 or chosen.all:
            print(*(history.lines if chosen.all else history.actions), *history.violations, sep="\n")
        if chosen.count == 1 or chosen.all:
            print(
                f"seed {seed}: {history.acknowledged} acknowledged, {history.refused} refused, {history.unknown} "
                f"unknown, {history.delivered} delivered; digest {history.digest()}"
            )
    print(f"{chosen.count} seeds, {failed} failed, {time.process_time() - began:.1f} s", file=sys.stderr)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
