"""Requests to a bookie, and its answers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from hedwig.hub.ledgers.bookkeeper.wire.outcomes import BookieOutcome

__all__ = [
    "LAST_ENTRY",
    "NO_ENTRY_ID",
    "AddEntry",
    "BookieAnswer",
    "Done",
    "ReadEntry",
    "ReadLac",
    "Request",
    "WriteLac",
]

LAST_ENTRY: Final = -1
"""As the entry id of a read: the last entry that the bookie has."""

NO_ENTRY_ID: Final = -1
"""The entry id where there is no entry."""


class AddEntry:
    """Store an entry. With `is_recovery` a fenced ledger takes it too. One request may go to several bookies."""

    # No dataclass: one is made for every entry, and a frozen one takes three times as long.
    __slots__ = ("body", "encoded", "entry_id", "is_recovery", "ledger_id", "master_key")

    def __init__(
        self, *, ledger_id: int, entry_id: int, master_key: bytes, body: bytes, is_recovery: bool = False
    ) -> None:
        self.ledger_id = ledger_id
        self.entry_id = entry_id
        self.master_key = master_key
        self.body = body
        self.is_recovery = is_recovery
        self.encoded: bytes | None = None
        """The part of the message that is the same for all bookies. The codec keeps it here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadEntry:
    """Read an entry. With a master key the bookie fences the ledger first.

    With `poll_after_lac` the bookie answers once its last add confirmed is above that, or `poll_ms` have passed.
    """

    ledger_id: int
    entry_id: int
    fence_key: bytes | None = None
    poll_after_lac: int | None = None
    poll_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteLac:
    """Tell a bookie the last add confirmed, signed in `body`."""

    ledger_id: int
    lac: int
    master_key: bytes
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLac:
    """Read what a bookie knows of the last add confirmed."""

    ledger_id: int


Request: TypeAlias = AddEntry | ReadEntry | WriteLac | ReadLac


@dataclass(frozen=True, slots=True, kw_only=True)
class BookieAnswer:
    """The result of a request. All fields from the bookie but `outcome` are unverified.

    `body` is the entry; for ReadLac it is the last entry that the bookie has. `lac_body` is what a writer told the
    bookie by WriteLac.
    """

    outcome: BookieOutcome
    entry_id: int = NO_ENTRY_ID
    body: bytes = b""
    lac_body: bytes = b""
    max_lac: int | None = None
    why: str = ""

    def __str__(self) -> str:
        return f"{self.outcome.value} ({self.why})" if self.why else self.outcome.value


Done: TypeAlias = Callable[[BookieAnswer], None]
"""Receives the answer to a request, once."""
