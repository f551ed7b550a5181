"""The hedwig-admin command."""

import click

from cli.config import config
from cli.dev.commands import dev
from cli.hub import hub
from cli.metadata import metadata
from cli.program import Program
from cli.publish import publish
from cli.subscribe import consume, subscribe, unsubscribe
from cli.subscription import subscription
from cli.topic import topic

__all__ = ["main"]


@click.group(cls=Program, example="hedwig-admin topic create news --if-not-exists")
@click.version_option(package_name="hedwig", prog_name="hedwig-admin")
def main() -> None:
    """Operate Hedwig: its metadata, topics, subscriptions, messages and servers.

    publish, subscribe, consume and unsubscribe talk to a hub; topic, subscription and metadata read and change the
    store; hub is about the hubs of a cluster. Without --metadata the store is a file in the user's data directory, made
    when it is first used.

    Exit codes: 0 done, 1 failed, 2 usage, 3 not found, 4 version conflict, 5 outcome unknown, 6 store or hub
    unavailable, 130 interrupted.
    """


for command in (metadata, topic, subscription, hub, publish, subscribe, consume, unsubscribe, config, dev):
    main.add_command(command)
