"""The settings that commands share: their names, the values that each accepts, and the defaults."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final, TypeAlias

from hedwig.cli.output.format_names import FORMATS

__all__ = ["SETTINGS", "Chosen", "Setting", "Value", "as_typed"]

Value: TypeAlias = str | float | bool

_TRUTHS: Final = {
    "1": True,
    "true": True,
    "yes": True,
    "on": True,
    "0": False,
    "false": False,
    "no": False,
    "off": False,
}


class _Kind(Enum):
    TEXT = auto()
    SECONDS = auto()
    SWITCH = auto()
    FORMAT = auto()
    ENDPOINT = auto()


_ENDPOINT: Final = re.compile(r"(?:https://)?(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):([0-9]{1,5})")
_PORT_MAX: Final = 65535


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting: its name in a context, its environment variable, and its default."""

    key: str
    kind: _Kind
    default: Value | None = None

    @property
    def variable(self) -> str:
        return f"HEDWIG_{self.key.upper()}"

    def parse(self, text: str) -> Value:
        """Return the value of `text` from the environment. Raises ValueError, which says what the text must be."""
        match self.kind:
            case _Kind.SWITCH:
                return self.check(_TRUTHS.get(text.lower()))
            case _Kind.SECONDS:
                try:
                    return self.check(float(text))
                except ValueError:
                    raise ValueError(_WANTED[self.kind]) from None
            case _:
                return self.check(text)

    def check(self, value: Any) -> Value:
        """Return `value` from a context. Raises ValueError, which says what the value must be."""
        match self.kind:
            case _Kind.SWITCH:
                fits = isinstance(value, bool)
            case _Kind.SECONDS:
                fits = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf
            case _Kind.FORMAT:
                fits = value in FORMATS
            case _Kind.ENDPOINT:
                fits = isinstance(value, str) and _is_endpoint(value)
            case _Kind.TEXT:
                fits = isinstance(value, str) and value != ""
        if not fits:
            raise ValueError(_WANTED[self.kind])
        checked: Value = as_typed(value)
        return checked


_WANTED: Final = {
    _Kind.TEXT: "give a text",
    _Kind.SECONDS: "give a number of seconds above 0",
    _Kind.SWITCH: "give true or false",
    _Kind.FORMAT: f"choose from {', '.join(FORMATS)}",
    _Kind.ENDPOINT: "give HOST:PORT, such as 127.0.0.1:4081, with https:// before it if it speaks TLS",
}

SETTINGS: Final[Mapping[str, Setting]] = {
    setting.key: setting
    for setting in (
        Setting("metadata", _Kind.TEXT),
        Setting("cluster", _Kind.TEXT),
        Setting("stores_file", _Kind.TEXT),
        Setting("hub", _Kind.TEXT, "127.0.0.1:4080"),
        Setting("tls", _Kind.SWITCH, False),
        Setting("tls_ca", _Kind.TEXT),
        Setting("tls_insecure", _Kind.SWITCH, False),
        Setting("tls_certificate", _Kind.TEXT),
        Setting("user", _Kind.TEXT),
        Setting("password_file", _Kind.TEXT),
        Setting("admin", _Kind.ENDPOINT),
        Setting("admin_token_file", _Kind.TEXT),
        Setting("plain_token", _Kind.SWITCH, False),
        Setting("data", _Kind.TEXT),
        Setting("bookkeeper", _Kind.TEXT),
        Setting("timeout", _Kind.SECONDS, 30),
        Setting("output", _Kind.FORMAT, "table"),
    )
}
"""By the names that they have in a context."""


def _is_endpoint(text: str) -> bool:
    """Say whether `text` can be the address of an admin endpoint.

    It is host:port, with an IPv6 address in brackets, and may have https:// before it.
    """
    match = _ENDPOINT.fullmatch(text)
    return match is not None and 0 < int(match[1]) <= _PORT_MAX


def as_typed(value: Any) -> Any:
    """Return a number as people type it: 30, not 30.0."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


@dataclass(frozen=True, slots=True)
class Chosen:
    """The value of a setting, and where it came from, in words."""

    value: Value | None
    source: str
