"""The commands that the console adds to those of hedwig-admin: those of the original's console, by its names.

Most are other names of commands of hedwig-admin, and take their options. The others need a session: subscriptions that
stay open, settings for all further lines, and the lines that the user typed.
Source: Hedwig HedwigConsole.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from hedwig.cli.console.housekeeping import housekeeping_commands
from hedwig.cli.console.looks import look_commands
from hedwig.cli.console.messages import message_commands
from hedwig.cli.console.subscribing import subscription_commands

if TYPE_CHECKING:
    from hedwig.cli.console.session import ConsoleSession

__all__ = ["console_commands"]


def console_commands(session: "ConsoleSession") -> Mapping[str, click.Command]:
    """Return the commands of a session by name."""
    return {
        **message_commands(session),
        **subscription_commands(session),
        **look_commands(session),
        **housekeeping_commands(session),
    }
