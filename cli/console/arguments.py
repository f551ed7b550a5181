"""Arguments and options that commands of the console share, and the way on to a command of hedwig-admin."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click

from hedwig.cli.arguments.names import SUBSCRIBER, TOPIC
from hedwig.cli.settings.settings import Settings
from hedwig.cli.settings.topic_names import complete_topic

if TYPE_CHECKING:
    from hedwig.cli.console.session import ConsoleSession

__all__ = [
    "ANYTHING",
    "ID_MAX",
    "Commands",
    "Decorator",
    "by_name",
    "dry_run_option",
    "go_on",
    "named",
    "passed_options",
    "rest_argument",
    "subscriber_argument",
    "topic_argument",
    "topic_text_argument",
    "words_argument",
    "yes_option",
]

Commands: TypeAlias = dict[str, click.Command]
Decorator: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]

ANYTHING: Final[dict[str, Any]] = {"ignore_unknown_options": True}
"""Pass words that look like options on to the command that they are for, or into a message."""
ID_MAX: Final = 2**64 - 1

topic_argument: Final = click.argument("topic", type=TOPIC, shell_complete=complete_topic)
topic_text_argument: Final = click.argument("topic", shell_complete=complete_topic)
subscriber_argument: Final = click.argument("subscriber", type=SUBSCRIBER)
words_argument: Final = click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED)
rest_argument: Final = click.argument("rest", nargs=-1, type=click.UNPROCESSED, metavar="[OPTIONS]...")
dry_run_option: Final = click.option("--dry-run", is_flag=True, help="Say what would be deleted, and change nothing.")
yes_option: Final = click.option("--yes", is_flag=True, help="Do not ask.")


def go_on(session: "ConsoleSession", settings: Settings, *words: str) -> None:
    """Run a command of hedwig-admin in place of this one, with the options that this one got."""
    click.get_current_context().exit(session.run_of_admin(list(words), settings))


def passed_options(*groups: Sequence[Decorator]) -> Decorator:
    """Return a decorator that adds options whose values go into the settings, and with them to the next command."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in (option for group in groups for option in group):
            command = option(command)
        return command

    return add


def by_name(*commands: click.Command) -> Commands:
    return {str(command.name): command for command in commands}


def named(kind: Any, text: str, number: int | None = None) -> Any:
    """Return a name of some kind, made of `text` and a number. Raises click.BadParameter."""
    convert: Callable[..., Any] = kind.convert
    return convert(text if number is None else f"{text}{number}", None, click.get_current_context())
