"""The hedwig-admin command."""

from typing import Final

import click

from hedwig.cli.program import AdminProgram
from hedwig.lazy_commands import LazyCommands

__all__ = ["main"]

_MODULES: Final = {
    "metadata": "hedwig.cli.commands.metadata.group",
    "topic": "hedwig.cli.commands.topic.group",
    "subscription": "hedwig.cli.commands.subscription.group",
    "message": "hedwig.cli.commands.messages.message",
    "ledger": "hedwig.cli.commands.messages.ledger",
    "hub": "hedwig.cli.commands.hub.group",
    "publish": "hedwig.cli.commands.messages.publish",
    "subscribe": "hedwig.cli.commands.messages.subscribe",
    "consume": "hedwig.cli.commands.messages.subscribe",
    "unsubscribe": "hedwig.cli.commands.messages.unsubscribe",
    "access": "hedwig.cli.commands.access.group",
    "config": "hedwig.cli.commands.config",
    "check": "hedwig.cli.commands.check.group",
    "top": "hedwig.cli.commands.hub.top",
    "console": "hedwig.cli.console.console",
    "completion": "hedwig.cli.completion",
    "dev": "hedwig.cli.dev.commands",
}
"""The module of each command, under its name. None is loaded before the user asks for it."""


@click.group(
    cls=AdminProgram, commands=LazyCommands(_MODULES, "cli"), example="hedwig-admin topic create news --if-not-exists"
)
@click.version_option(package_name="hedwig-pubsub", prog_name="hedwig-admin")
def main() -> None:
    """Operate Hedwig: its metadata, topics, subscriptions, messages and servers.

    publish, subscribe, consume and unsubscribe talk to a hub. topic, subscription and metadata read and change the
    store, and ask the hub that owns a topic. message and ledger show what is stored. hub manages the hubs of a cluster.
    check, top and console cover all of these. Without --metadata the store is a file in the user's data directory; its
    first use creates it.

    Exit codes: 0 done, 1 failed, 2 usage, 3 not found, 4 version conflict, 5 outcome unknown, 6 store or hub
    unavailable, 130 interrupted. Of check: 0 ok, 1 warning, 2 critical, 3 unknown.
    """
