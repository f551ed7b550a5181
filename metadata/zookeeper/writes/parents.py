"""Guesses whether the next create in a table must also create its parent.

ZooKeeper refuses a node without a parent. A refusal costs ZooKeeper one transaction, and the writer one round trip. The
first subscription of a topic also creates the parent of all its subscriptions. The first owner of a new topic also
creates the topic's own node. New records come in runs of one sort, so the last one predicts the next. A wrong guess
costs what a refusal costs, and nothing else.
"""

__all__ = ["ParentForecast"]


class ParentForecast:
    """Expects that the parent of the next new record is missing if that of the last one was."""

    __slots__ = ("is_missing",)

    def __init__(self) -> None:
        self.is_missing = False
