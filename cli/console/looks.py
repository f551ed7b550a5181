"""The commands of the console about metadata: show, describe, format."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from hedwig.cli.console.arguments import (
    ANYTHING,
    Commands,
    by_name,
    go_on,
    passed_options,
    rest_argument,
    topic_text_argument,
)
from hedwig.cli.output.fields import name_fields
from hedwig.cli.program import AdminCommand, AdminGroup
from hedwig.cli.settings.setting_options import cluster_setting_options
from hedwig.cli.settings.settings import Settings, pass_settings

if TYPE_CHECKING:
    from hedwig.cli.console.session import ConsoleSession

__all__ = ["look_commands"]


def look_commands(session: "ConsoleSession") -> Commands:
    """Return the commands that show things, and format, by name."""

    @click.group("show", cls=AdminGroup, example="show topics")
    def show() -> None:
        """Show hubs, topics, or the subscriptions that are open here."""

    @show.command("hubs", example="show hubs")
    @passed_options(cluster_setting_options())
    @pass_settings
    def hubs(settings: Settings) -> None:
        """Show the hubs that are alive: hub list."""
        go_on(session, settings, "hub", "list")

    @show.command("topics", example="show topics --limit 100", context_settings=ANYTHING)
    @rest_argument
    @pass_settings
    def topics(settings: Settings, rest: Sequence[str]) -> None:
        """Show the names of topics: topic list."""
        go_on(session, settings, "topic", "list", *rest)

    @show.command("subs", example="show subs")
    @pass_settings
    def subs(settings: Settings) -> None:
        """Show the subscriptions that are open here."""
        rows: list[dict[str, Any]] = [
            {**name_fields(each.opened.topic, each.opened.subscriber)}
            | {"receives": each.receives, "attached": each.opened.is_attached, "why_lost": each.why_lost}
            for each in session.subscriptions
        ]
        settings.writer().listing("subscriptions", rows, ("topic", "subscriber", "receives", "attached", "why_lost"))

    @click.group("describe", cls=AdminGroup, example="describe topic news")
    def describe() -> None:
        """Describe a topic."""

    @describe.command("topic", example="describe topic news")
    @topic_text_argument
    @click.option("--subscriptions", type=click.IntRange(min=0), default=1000, show_default=True, help="At most.")
    @pass_settings
    def topic_of(settings: Settings, topic: str, subscriptions: int) -> None:
        """Show owner, ledgers and subscriptions of a topic: topic show."""
        go_on(session, settings, "topic", "show", "--subscriptions", str(subscriptions), "--", topic)

    @click.command("format", cls=AdminCommand, example="format -force")
    @click.option("-force", "--force", "force", is_flag=True, help="Do not ask.")
    @pass_settings
    def wipe(settings: Settings, force: bool) -> None:
        """Delete all metadata of all topics, and lay the store out anew: metadata format --wipe."""
        go_on(session, settings, "metadata", "format", "--wipe", *(("--yes",) if force else ()))

    return by_name(show, describe, wipe)
