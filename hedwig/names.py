"""Names of topics and subscribers: their limits, and how people read and type them.

A name is any bytes. For people, printable UTF-8 stays unchanged, a backslash is doubled, and every other byte is
written `\\xNN`. `parse_name` reads that back exactly.
"""

import base64
import re
from typing import Final, TypeAlias

from hedwig.errors import InvalidArgumentError, NameLimitError
from hedwig.model import SubscriberId, Topic

__all__ = [
    "NAME_BYTES_MAX",
    "Name",
    "as_subscriber",
    "as_topic",
    "bytes_fields",
    "name_fields",
    "parse_column",
    "parse_name",
    "parse_text",
    "show_name",
    "show_text",
    "subscriber_of",
    "subscription_subject",
    "topic_of",
]

NAME_BYTES_MAX: Final = 8192

Name: TypeAlias = str | bytes
"""A name as programs pass it: bytes, or text, which is encoded as UTF-8."""

_ESCAPE: Final = re.compile(rb"\\(?:\\|x([0-9a-fA-F]{2})|(.?))", re.DOTALL)


def as_topic(name: bytes) -> Topic:
    """Return `name` as a topic. Raises NameLimitError if it is empty or longer than 8,192 bytes."""
    _check_length("topic", name)
    return Topic(name)


def as_subscriber(name: bytes) -> SubscriberId:
    """Return `name` as a subscriber id. Raises NameLimitError if it is empty or longer than 8,192 bytes."""
    _check_length("subscriber id", name)
    return SubscriberId(name)


def topic_of(name: Name) -> Topic:
    """Return the topic of that name. Raises NameLimitError as `as_topic`; InvalidArgumentError - no Unicode text."""
    return as_topic(_encoded(name))


def subscriber_of(name: Name) -> SubscriberId:
    """Return the subscriber id of that name. Raises as `topic_of`."""
    return as_subscriber(_encoded(name))


def show_name(name: bytes) -> str:
    """Return the text of a name for people. It is one line for any bytes, and differs between different names."""
    return show_text(name.decode("utf-8", "surrogateescape"))


def subscription_subject(topic: Topic, subscriber: SubscriberId) -> str:
    """Return how errors and questions name a subscription."""
    return f"the subscription of '{show_name(subscriber)}' to topic '{show_name(topic)}'"


def show_text(text: str) -> str:
    """Return the text for people of a name that is text, such as the name of a property, an option or a filter."""
    if text.isprintable() and "\\" not in text:
        return text
    return "".join(_show_character(char) for char in text)


def bytes_fields(field: str, value: bytes) -> dict[str, str]:
    """Return `value` as text under `field`. If it is not UTF-8, add it in base64 under a companion field."""
    fields = {field: show_name(value)}
    try:
        value.decode()
    except UnicodeDecodeError:
        fields[f"{field}_base64"] = base64.b64encode(value).decode()
    return fields


def name_fields(topic: Topic, subscriber: SubscriberId | None = None) -> dict[str, str]:
    """Return the names of a topic, or of a subscription."""
    fields = bytes_fields("topic", topic)
    return fields if subscriber is None else fields | bytes_fields("subscriber", subscriber)


def parse_name(text: str) -> bytes:
    """Return the bytes of a name as people type it. Raises InvalidArgumentError for a lone backslash."""

    def unescape(match: re.Match[bytes]) -> bytes:
        digits: bytes | None = match[1]
        if digits is not None:
            return bytes([int(digits, 16)])
        if match[0] == b"\\\\":
            return b"\\"
        raise InvalidArgumentError(
            f"a backslash in the name '{_as_typed(text)}' must be doubled or start an escape like \\x00"
        )

    return _ESCAPE.sub(unescape, text.encode("utf-8", "surrogateescape"))


def parse_column(column: bytes) -> bytes:
    """Return the name that a column of a file of names has. Raises InvalidArgumentError as `parse_name`."""
    return column if b"\\" not in column else parse_name(column.decode("utf-8", "surrogateescape"))


def parse_text(text: str) -> str:
    """Return the text that `show_text` showed. Raises InvalidArgumentError for a lone backslash, or for no UTF-8."""
    try:
        return parse_name(text).decode()
    except UnicodeDecodeError as exc:
        raise InvalidArgumentError(f"the name '{_as_typed(text)}' must be UTF-8") from exc


def _encoded(name: Name) -> bytes:
    if isinstance(name, bytes):
        return name
    if not isinstance(name, str):
        raise InvalidArgumentError(f"a name is text or bytes, not {type(name).__name__}")
    try:
        return name.encode()
    except UnicodeEncodeError as exc:
        raise InvalidArgumentError(f"the name {name!r} is no Unicode text; give bytes instead") from exc


def _check_length(what: str, name: bytes) -> None:
    if not 1 <= len(name) <= NAME_BYTES_MAX:
        raise NameLimitError(f"a {what} has 1 to {NAME_BYTES_MAX} bytes, not {len(name)}")


def _as_typed(text: str) -> str:
    """Return a misspelt name as it was typed, on one line."""
    return "".join(char if char == "\\" else _show_character(char) for char in text)


def _show_character(char: str) -> str:
    if char == "\\":
        return "\\\\"
    if char.isprintable():
        return char
    return "".join(f"\\x{byte:02x}" for byte in char.encode("utf-8", "surrogateescape"))
