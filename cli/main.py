"""The hedwig-admin command."""

from typing import Final

import click

from hedwig.cli.lazy_commands import LazyCommands
from hedwig.cli.program import Program

__all__ = ["main"]

_MODULES: Final = {
    "metadata": "hedwig.cli.metadata",
    "topic": "hedwig.cli.topic",
    "subscription": "hedwig.cli.subscription",
    "message": "hedwig.cli.message",
    "ledger": "hedwig.cli.ledger",
    "hub": "hedwig.cli.hub",
    "publish": "hedwig.cli.publish",
    "subscribe": "hedwig.cli.subscribe",
    "consume": "hedwig.cli.subscribe",
    "unsubscribe": "hedwig.cli.subscribe",
    "config": "hedwig.cli.config",
    "check": "hedwig.cli.check",
    "top": "hedwig.cli.top",
    "console": "hedwig.cli.console",
    "completion": "hedwig.cli.completion",
    "dev": "hedwig.cli.dev.commands",
}
"""Where each command is, under its own name; none is loaded before it is asked for."""


@click.group(cls=Program, commands=LazyCommands(_MODULES), example="hedwig-admin topic create news --if-not-exists")
@click.version_option(package_name="hedwig", prog_name="hedwig-admin")
def main() -> None:
    """Operate Hedwig: its metadata, topics, subscriptions, messages and servers.

    publish, subscribe, consume and unsubscribe talk to a hub; topic, subscription and metadata read and change the
    store, and ask the hub that owns a topic; message and ledger look at what is stored; hub is about the hubs of a
    cluster; check, top and console are about all of it. Without --metadata the store is a file in the user's data
    directory, made when it is first used.

    Exit codes: 0 done, 1 failed, 2 usage, 3 not found, 4 version conflict, 5 outcome unknown, 6 store or hub
    unavailable, 130 interrupted; of check 0 ok, 1 warning, 2 critical, 3 unknown.
    """
