"""The runs that readers of virtual ledgers need next, so that each is looked up once."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from hedwig.hub.ledgers.shared.entries.runs import Run

__all__ = ["RUNS_MAX", "FollowingRuns"]

RUNS_MAX: Final = 128
"""So many runs of a ledger are kept at most. A read wants as many messages by default."""
_WEIGHT_MAX: Final = 1 << 18
_LEDGER_WEIGHT: Final = 2
"""What a ledger takes besides its runs, each of which takes about 200 bytes."""


class FollowingRuns:
    """For each ledger the runs behind its last read, with the ledgers of their batches. They are facts: no run changes.

    But the segment may be merged meanwhile. Whoever misses its ledger looks the runs up again.
    """

    def __init__(self) -> None:
        self._held: OrderedDict[int, Sequence[tuple[int, Run]]] = OrderedDict()
        self._weight = 0

    def take(self, ledger_id: int, entry_id: int) -> Sequence[tuple[int, Run]]:
        """Return the runs from the one on that has an entry, and forget them; none if they are not known."""
        runs = self._held.pop(ledger_id, ())
        if not runs:
            return ()
        self._weight -= _LEDGER_WEIGHT + len(runs)
        first = runs[0][1]
        return runs if first.first <= entry_id <= first.last else ()

    def keep(self, ledger_id: int, runs: Sequence[tuple[int, Run]], entry_id: int) -> None:
        """Remember those of the runs that have entries from `entry_id` on."""
        start = next((number for number, (_, run) in enumerate(runs) if run.last >= entry_id), len(runs))
        kept = runs[start : start + RUNS_MAX]
        if not kept:
            return
        self.take(ledger_id, 0)
        self._held[ledger_id] = kept
        self._weight += _LEDGER_WEIGHT + len(kept)
        while self._weight > _WEIGHT_MAX:
            _, dropped = self._held.popitem(last=False)
            self._weight -= _LEDGER_WEIGHT + len(dropped)
