"""The tables of the data source, what of a store a DataFrame shows, and the choices there are for reading them."""

import enum
from typing import Any

from metadata.kinds import OWNERSHIP, PERSISTENCE, SUBSCRIPTIONS, RecordKind

__all__ = ["OnCorrupt", "Table"]


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
    """The task fails, and names it."""
    SKIP = "skip"
    """It is passed over and counted; the log of the task names the first of them."""
