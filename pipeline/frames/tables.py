"""The tables of the data source, and the choices and bounds of its options."""

import enum
from typing import Any, Final

from hedwig.metadata.contract.kinds import OWNERSHIP, PERSISTENCE, SUBSCRIPTIONS, RecordKind

__all__ = [
    "BATCH_ROWS_MAX",
    "CONNECTIONS_MAX",
    "ROWS_PER_PARTITION",
    "ROWS_PER_PARTITION_MAX",
    "TIMEOUT_MAX_S",
    "TIMEOUT_S",
    "OnCorrupt",
    "Table",
]

BATCH_ROWS_MAX: Final = 8_192
"""How many rows Spark hands to a writer at once, at most. So no batch to a store has more."""
CONNECTIONS_MAX: Final = 64
ROWS_PER_PARTITION: Final = 250_000
"""About how many rows a task reads: a few seconds of work, so that the cost of the task itself is small beside it."""
ROWS_PER_PARTITION_MAX: Final = 10_000_000
TIMEOUT_MAX_S: Final = 3_600
TIMEOUT_S: Final = 30.0


class Table(enum.StrEnum):
    """One view of the records of one manager; `topics` and `ledgers` show the same records."""

    TOPICS = "topics"
    """A row for each topic that exists."""
    OWNERS = "owners"
    """A row for each topic that has an owner."""
    LEDGERS = "ledgers"
    """A row for each topic that exists, with its ledger ranges."""
    SUBSCRIPTIONS = "subscriptions"
    """A row for each subscription."""

    @property
    def kind(self) -> RecordKind[Any]:
        """Return the records behind the rows."""
        match self:
            case Table.TOPICS | Table.LEDGERS:
                return PERSISTENCE
            case Table.OWNERS:
                return OWNERSHIP
            case Table.SUBSCRIPTIONS:
                return SUBSCRIPTIONS


class OnCorrupt(enum.StrEnum):
    """What to do about a record that cannot be read."""

    FAIL = "fail"
    """The task fails, and names the record."""
    SKIP = "skip"
    """The task passes over the record and counts it. Its log names the first of such records."""
