"""The tokens that name writes: random bytes, since two writers must never choose the same."""

import random
from typing import Final

__all__ = ["Tokens"]

_TOKEN_BYTES: Final = 8
_DRAWN_AT_ONCE: Final = 128


class Tokens:
    """Makes tokens. Draws the bytes of many at once, since each draw from the system's source is a system call."""

    def __init__(self, source: random.Random) -> None:
        self._source = source
        self._drawn = b""

    def new(self) -> bytes:
        """Return the token of a new write, eight bytes."""
        if not self._drawn:
            self._drawn = self._source.randbytes(_TOKEN_BYTES * _DRAWN_AT_ONCE)
        token, self._drawn = self._drawn[:_TOKEN_BYTES], self._drawn[_TOKEN_BYTES:]
        return token
