"""What is expected of the parent of the next record that is made in a table: whether it has to be made as well.

ZooKeeper refuses a node without a parent, and a refusal costs it a transaction of its own and the writer a round trip.
The first subscription of a topic brings the parent of all its subscriptions along; the owner of a topic that never was,
the topic's own node. New records come in crowds of one sort, so the last one tells what the next is like. A wrong guess
costs what a refusal costs, and nothing else.
"""

__all__ = ["ParentForecast"]


class ParentForecast:
    """Whether the parent of the next new record is expected to be missing: as that of the last one was."""

    __slots__ = ("is_missing",)

    def __init__(self) -> None:
        self.is_missing = False
