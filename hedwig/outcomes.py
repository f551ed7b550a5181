"""How one attempt of a network operation can fail, as the code that repeats attempts needs to know.

These errors never leave the part that makes the attempts. It completes the operation, or it raises a HedwigError that
reports the outcome.
"""

__all__ = ["AbortedError", "ForbiddenError", "NotAppliedError", "OutcomeUnknownError"]


class NotAppliedError(Exception):
    """An attempt that surely had no effect and is worth repeating."""


class OutcomeUnknownError(Exception):
    """An attempt that was sent and not answered."""


class AbortedError(Exception):
    """The end of all attempts, for instance because the connection was closed for good.

    `sent` says whether this attempt was sent, so that its outcome is unknown.
    """

    def __init__(self, reason: str, *, sent: bool) -> None:
        super().__init__(reason)
        self.sent = sent


class ForbiddenError(AbortedError):
    """The server does not permit this attempt, which had no effect."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, sent=False)
