"""Arguments and options that several commands of the console share."""

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

import click

from hedwig.cli.arguments.names import SUBSCRIBER, TOPIC, CheckedName
from hedwig.cli.settings.topic_names import complete_topic

__all__ = [
    "ANYTHING",
    "Decorator",
    "add_options",
    "convert_name",
    "dry_run_option",
    "subscriber_argument",
    "topic_argument",
    "topic_text_argument",
    "words_argument",
    "yes_option",
]

Decorator: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]

ANYTHING: Final[dict[str, Any]] = {"ignore_unknown_options": True}
"""Take words that look like options as parts of a message, or as options of another command."""

topic_argument: Final = click.argument("topic", type=TOPIC, shell_complete=complete_topic)
topic_text_argument: Final = click.argument("topic", shell_complete=complete_topic)
subscriber_argument: Final = click.argument("subscriber", type=SUBSCRIBER)
words_argument: Final = click.argument(
    "words", nargs=-1, required=True, type=click.UNPROCESSED, callback=lambda *given: " ".join(given[-1])
)
"""The command gets the words as one text."""
dry_run_option: Final = click.option("--dry-run", is_flag=True, help="Say what would be deleted, and change nothing.")
yes_option: Final = click.option("--yes", is_flag=True, help="Do not ask.")


def add_options(options: Iterable[Decorator]) -> Decorator:
    """Return a decorator that adds `options` to a command as if they stood above it, the first one lowest."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in options:
            command = option(command)
        return command

    return add


def convert_name(kind: CheckedName, text: str) -> Any:
    """Return the name of a topic or of a subscriber, the `kind`, that `text` spells. Raises click.BadParameter."""
    return kind.convert(text, None, click.get_current_context())
