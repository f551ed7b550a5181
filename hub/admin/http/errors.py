"""The errors by which handlers of the admin endpoint refuse a request."""

from typing import Any

__all__ = ["BadRequestError", "ConflictError", "NotFoundError"]


class BadRequestError(Exception):
    """A malformed request; the text says what to send instead."""


class NotFoundError(Exception):
    """The target of a request does not exist here; the text says what to do, and `facts` are for programs."""

    def __init__(self, text: str, **facts: Any) -> None:
        super().__init__(text)
        self.facts = facts


class ConflictError(Exception):
    """A request that conflicts with the present state; the text says how, and `facts` give the state to programs."""

    def __init__(self, text: str, **facts: Any) -> None:
        super().__init__(text)
        self.facts = facts
