"""The commands of the original's console that are other names of commands of hedwig-admin."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

import click

from hedwig.cli.console.arguments import ANYTHING, Decorator, add_options, topic_text_argument, words_argument
from hedwig.cli.console.session import run_admin_command
from hedwig.cli.program import AdminCommand
from hedwig.cli.settings.setting_options import (
    admin_setting_options,
    cluster_setting_options,
    hub_setting_options,
    ledger_setting_options,
    owner_setting_options,
)
from hedwig.cli.settings.settings import Settings, pass_settings

__all__ = ["alias_commands"]

_first_id: Final = click.argument("first", metavar="[ID]", required=False, type=click.IntRange(0))
_peek_options: Final = add_options(
    (*cluster_setting_options(), *owner_setting_options(), *admin_setting_options(), *ledger_setting_options())
)
_rest: Final = click.argument("rest", nargs=-1, type=click.UNPROCESSED, metavar="[OPTIONS]...")
_subscriptions_option: Final = click.option(
    "--subscriptions", type=click.IntRange(min=0), default=1000, show_default=True, help="At most."
)
_force_option: Final = click.option("-force", "--force", "yes", flag_value="--yes", help="Do not ask.")


class _Alias(NamedTuple):
    """A command of the console, by its words there, and the words of hedwig-admin that it runs.

    In `runs`, `{topic}` stands for the value of the parameter `topic`. A word whose parameter is not given is left out.
    The words of the parameter `rest` follow last.
    """

    words: str
    runs: str
    help: str
    example: str
    parameters: Sequence[Decorator] = ()
    context_settings: Mapping[str, Any] = {}


_ALIASES: Final = (
    _Alias(
        "pub",
        "publish -- {topic} {words}",
        "Publish WORDS, joined by blanks, to a topic.",
        "pub news hello, world",
        (topic_text_argument, words_argument, add_options(hub_setting_options())),
        ANYTHING,
    ),
    _Alias(
        "readtopic",
        "message peek --all --from={first} -- {topic}",
        "Show all messages of a topic that are kept, from ID on, and consume none: message peek.",
        "readtopic news 3",
        (topic_text_argument, _first_id, _peek_options),
    ),
    _Alias(
        "show hubs",
        "hub list",
        "Show the hubs that are alive: hub list.",
        "show hubs",
        (*cluster_setting_options(), *admin_setting_options()),
    ),
    _Alias(
        "show topics",
        "topic list",
        "Show the names of topics: topic list.",
        "show topics --limit 100",
        (_rest,),
        ANYTHING,
    ),
    _Alias(
        "describe topic",
        "topic show --subscriptions={subscriptions} -- {topic}",
        "Show owner, ledgers and subscriptions of a topic: topic show.",
        "describe topic news",
        (topic_text_argument, _subscriptions_option),
    ),
    _Alias(
        "format",
        "metadata format --wipe {yes}",
        "Delete all metadata of all topics, and lay the store out anew: metadata format --wipe.",
        "format -force",
        (_force_option,),
    ),
)


def alias_commands(group: str = "") -> Iterator[click.Command]:
    """Yield the aliases in a group of the console, or those in no group."""
    for alias in _ALIASES:
        above, _, name = alias.words.rpartition(" ")
        if above == group:
            yield _make_command(name, alias)


def _make_command(name: str, alias: _Alias) -> click.Command:
    def run(settings: Settings, /, rest: Sequence[str] = (), **given: Any) -> None:
        run_admin_command(settings, *_fill(alias.runs, given), *rest)

    add_name = click.command(
        name, cls=AdminCommand, example=alias.example, help=alias.help, context_settings=dict(alias.context_settings)
    )
    return add_name(add_options(reversed(alias.parameters))(pass_settings(run)))


def _fill(words: str, given: Mapping[str, Any]) -> Iterator[str]:
    """Yield the words with the values of parameters in them, without the words whose parameter is not given."""
    values = {name: value for name, value in given.items() if value is not None}
    for word in words.split():
        with suppress(KeyError):
            yield word.format_map(values)
