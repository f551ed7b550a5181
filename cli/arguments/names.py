"""Names and versions as arguments of commands, and their completion."""

from collections.abc import Callable
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from hedwig.cli.arguments.quiet_completion import COMPLETION_TIMEOUT_S, complete_quietly
from hedwig.cli.settings.settings import Settings
from hedwig.errors import InvalidArgumentError
from hedwig.names import as_subscriber, as_topic, parse_name, parse_text, show_name
from hedwig.versions import Version

__all__ = ["FILTER", "PREFIX", "SUBSCRIBER", "TOPIC", "VERSION", "CheckedName", "complete_topic", "without_making"]

_COMPLETIONS_MAX: Final = 50
_CHILDREN_MAX: Final = 100_000
"""The topics of a ZooKeeper with more side by side are not completed: nobody waits at a prompt for so many names."""


class CheckedName(click.ParamType[Any]):
    """A parameter whose text is converted; what the conversion refuses is the user's mistake."""

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
FILTER: Final = CheckedName("filter", parse_text)
PREFIX: Final = CheckedName("prefix", parse_name)


def complete_topic(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the first topics that begin like `incomplete`; none if the store is slow or not there."""
    settings = ctx.find_object(Settings) or Settings()
    return complete_quietly(lambda: _first_topics(settings, incomplete))


async def _first_topics(settings: Settings, incomplete: str) -> list[str]:
    # What only completes must not load what reads a store before it is needed.
    from hedwig.metadata import StoreOptions, open_metadata

    found: list[str] = []
    options = StoreOptions(
        operation_timeout_s=COMPLETION_TIMEOUT_S,
        page_rows=_COMPLETIONS_MAX,
        children_max=_CHILDREN_MAX,
        reads_only=True,
    )
    async with await open_metadata(without_making(settings.url_to_show), options) as store:
        async for topic in store.topics(parse_name(incomplete) or None):
            found.append(show_name(topic))
            if len(found) == _COMPLETIONS_MAX:
                break
    return found


def without_making(url: str) -> str:
    """Return the URL of the same store, which is not made if it is not there."""
    if not url.startswith("sqlite:") or "create=" in url:
        return url
    return f"{url}{'&' if '?' in url else '?'}create=false"
