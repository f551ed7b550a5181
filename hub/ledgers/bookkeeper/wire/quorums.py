"""The arithmetic of ensembles and quorums: which bookies hold an entry, and how many answers prove what."""

from dataclasses import dataclass
from functools import cache

from hedwig.errors import ConfigurationError

__all__ = ["Coverage", "Quorums", "write_sets"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quorums:
    """`ensemble` bookies hold a ledger, `write` of them each entry, and `ack` answers acknowledge one."""

    ensemble: int
    write: int
    ack: int

    def __post_init__(self) -> None:
        if not self.ensemble >= self.write >= self.ack >= 1:
            raise ConfigurationError(
                f"ensemble {self.ensemble}, write quorum {self.write}, ack quorum {self.ack}: none may be larger than "
                "the one before it, nor less than 1"
            )

    def write_set(self, entry_id: int) -> tuple[int, ...]:
        """Return the positions in the ensemble that hold the entry, in the order in which they are asked."""
        return tuple((entry_id + step) % self.ensemble for step in range(self.write))

    def holds(self, position: int, entry_id: int) -> bool:
        """Say whether the entry's write set contains the position."""
        return (position - entry_id) % self.ensemble < self.write

    def proves_absence(self, absent: int) -> bool:
        """Say whether `absent` bookies without the entry prove that it was never acknowledged."""
        return absent > self.write - self.ack


@cache
def write_sets(quorums: Quorums) -> tuple[tuple[int, ...], ...]:
    """Return the write sets of the first `ensemble` entries. After that they repeat."""
    return tuple(quorums.write_set(entry_id) for entry_id in range(quorums.ensemble))


class Coverage:
    """Whether enough bookies have answered that no entry can be acknowledged without one of them.

    This holds if, in each write set, fewer positions than the ack quorum have not answered. A bookie that has not
    answered, or that answered that it does not know, counts as one that would go on acknowledging.
    """

    __slots__ = ("_missing", "_quorums")

    def __init__(self, quorums: Quorums) -> None:
        self._quorums = quorums
        self._missing = set(range(quorums.ensemble))

    def add(self, position: int) -> None:
        """Record that the bookie at a position answered."""
        self._missing.discard(position)

    @property
    def is_complete(self) -> bool:
        return all(
            sum(position in self._missing for position in self._quorums.write_set(start)) < self._quorums.ack
            for start in range(self._quorums.ensemble)
        )
