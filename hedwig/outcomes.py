"""How one attempt at something over a network can fail, as far as whoever repeats attempts needs to know.

These never leave the part that made the attempt: it carries an operation through, or raises a HedwigError that says
what came of it.
"""

__all__ = ["AbortedError", "ForbiddenError", "NotAppliedError", "OutcomeUnknownError"]


class NotAppliedError(Exception):
    """An attempt that surely had no effect and is worth repeating."""


class OutcomeUnknownError(Exception):
    """An attempt that was sent and not answered."""


class AbortedError(Exception):
    """The end of all attempts, for instance because the connection was closed for good.

    `sent` says whether this one had left, so that its outcome is not known.
    """

    def __init__(self, reason: str, *, sent: bool) -> None:
        super().__init__(reason)
        self.sent = sent


class ForbiddenError(AbortedError):
    """The server does not permit this one, which had no effect."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, sent=False)
