"""Names, versions and numbers as arguments of commands."""

from collections.abc import Callable
from typing import Any, Final

import click

from hedwig.errors import InvalidArgumentError
from hedwig.names import as_subscriber, as_topic, parse_name, parse_text
from hedwig.quantities import whole_number
from hedwig.versions import Version

__all__ = ["FILTER", "NUMBER", "PREFIX", "SUBSCRIBER", "TOPIC", "VERSION", "CheckedName"]


class CheckedName(click.ParamType[Any]):
    """A parameter whose text is converted. If the conversion refuses it, that is a usage error."""

    def __init__(self, name: str, convert: Callable[[str], Any]) -> None:
        self.name = name
        self._convert = convert

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return self._convert(value)
        except (InvalidArgumentError, ValueError) as exc:
            self.fail(str(exc), param, ctx)


TOPIC: Final = CheckedName("topic", lambda text: as_topic(parse_name(text)))
SUBSCRIBER: Final = CheckedName("subscriber", lambda text: as_subscriber(parse_name(text)))
VERSION: Final = CheckedName("version", Version.parse)
NUMBER: Final = CheckedName("number", whole_number)
FILTER: Final = CheckedName("filter", parse_text)
PREFIX: Final = CheckedName("prefix", parse_name)
