"""The outcome of a request to a bookie: one name for each status of the protocol, and some that the client finds."""

import enum
from typing import Final

__all__ = ["BookieOutcome"]


class BookieOutcome(enum.Enum):
    """The statuses of the protocol, and the outcomes that the client finds by itself."""

    DONE = "done"
    NO_LEDGER = "the bookie has no such ledger"
    NO_ENTRY = "the bookie has no such entry"
    BAD_REQUEST = "the bookie does not understand the request"
    FAILED = "the bookie's disk failed"
    UNAUTHORIZED = "the master key is wrong, or it was shown no certificate that it takes"
    BAD_PROTOCOL = "the bookie does not speak this version of the protocol"
    FENCED = "the ledger was taken over"
    READ_ONLY = "the bookie is read-only"
    BUSY = "the bookie has too much to do"
    UNKNOWN_STATE = "the bookie lost data and cannot vouch for the ledger"
    UNRECOGNISED = "the bookie answered with an unknown status"
    NOT_SENT = "the bookie could not be reached"
    UNANSWERED = "the bookie did not answer"
    UNVERIFIED = "what the bookie has does not agree with its digest"

    @classmethod
    def of_status(cls, status: int) -> "BookieOutcome":
        """Return the outcome that a status of the third protocol version names."""
        return _OF_STATUS.get(status, cls.UNRECOGNISED)

    @property
    def is_absence(self) -> bool:
        """Whether the bookie vouches that it has no such ledger or entry. No other outcome may count as that."""
        return self in _ABSENCES

    @property
    def ends_writing(self) -> bool:
        """Whether the writer must give the ledger up, even if other bookies still take its entries."""
        return self in _ENDS

    @property
    def status(self) -> int | None:
        """The status in the third protocol version, None for an outcome that bookies never report."""
        return _STATUS_OF.get(self)


_OF_STATUS: Final = {
    0: BookieOutcome.DONE,
    402: BookieOutcome.NO_LEDGER,
    403: BookieOutcome.NO_ENTRY,
    404: BookieOutcome.BAD_REQUEST,
    501: BookieOutcome.FAILED,
    502: BookieOutcome.UNAUTHORIZED,
    503: BookieOutcome.BAD_PROTOCOL,
    504: BookieOutcome.FENCED,
    505: BookieOutcome.READ_ONLY,
    506: BookieOutcome.BUSY,
    507: BookieOutcome.UNKNOWN_STATE,
}
_STATUS_OF: Final = {outcome: status for status, outcome in _OF_STATUS.items()}
_ABSENCES: Final = frozenset({BookieOutcome.NO_LEDGER, BookieOutcome.NO_ENTRY})
_ENDS: Final = frozenset({BookieOutcome.FENCED, BookieOutcome.UNAUTHORIZED})
