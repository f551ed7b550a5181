"""Patterns: a name, or how names begin. Names are any bytes.

In text, `*` at the end stands for any end, and `{user}` for the name of whoever asks. All else is spelled as names are
(see hedwig.names), except that spaces, `*` and braces are written as bytes: \\x20, \\x2a, \\x7b, \\x7d.
"""

import re
from dataclasses import dataclass
from typing import Final, Self

from hedwig.errors import InvalidArgumentError
from hedwig.names import NAME_BYTES_MAX, parse_name, show_name

__all__ = ["Pattern"]

_USER: Final = "{user}"
_RESERVED: Final = re.compile(r"[\s*{}]")


@dataclass(frozen=True, slots=True)
class Pattern:
    """The parts of a pattern, between which the name of whoever asks stands."""

    parts: tuple[bytes, ...]
    is_prefix: bool

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a pattern. Raises InvalidArgumentError - it is none, and why."""
        is_prefix = text.endswith("*")
        parts = text.removesuffix("*").split(_USER)
        for part in parts:
            if found := _RESERVED.search(part):
                raise InvalidArgumentError(
                    f"{found[0]!r} in the pattern '{text}' is spelled {_as_bytes(found)}; * stands at the end only, "
                    f"and {_USER} for the name of whoever asks"
                )
        made = cls(tuple(parse_name(part) for part in parts), is_prefix)
        if not is_prefix and made.parts == (b"",):
            raise InvalidArgumentError("a pattern is a name, or the beginning of names and a *; * alone is any name")
        if sum(map(len, made.parts)) > NAME_BYTES_MAX:
            raise InvalidArgumentError(f"a pattern has at most {NAME_BYTES_MAX} bytes")
        return made

    @property
    def names_user(self) -> bool:
        """Whether it depends on who asks."""
        return len(self.parts) > 1

    def of(self, user: str) -> bytes:
        """Return the name, or the beginning of names, that it is for the user of that name."""
        return user.encode().join(self.parts)

    def matches(self, name: bytes, user: str) -> bool:
        """Return whether a name is one of those that it is for, if that user asks."""
        meant = self.of(user)
        return name.startswith(meant) if self.is_prefix else name == meant

    def __str__(self) -> str:
        shown = (_RESERVED.sub(_as_bytes, show_name(part)) for part in self.parts)
        return _USER.join(shown) + "*" * self.is_prefix


def _as_bytes(match: re.Match[str]) -> str:
    return "".join(f"\\x{byte:02x}" for byte in match[0].encode())
