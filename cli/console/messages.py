"""The commands of the console about messages: pub, pubsub, readtopic."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from hedwig.cli.console.arguments import (
    ANYTHING,
    Commands,
    by_name,
    go_on,
    passed_options,
    subscriber_argument,
    topic_argument,
    topic_text_argument,
    words_argument,
)
from hedwig.cli.console.hub_work import check_delivery
from hedwig.cli.program import AdminCommand
from hedwig.cli.settings.hub_access import HubAccess, hub_options
from hedwig.cli.settings.setting_options import (
    cluster_setting_options,
    hub_setting_options,
    ledger_setting_options,
    owner_setting_options,
)
from hedwig.cli.settings.settings import Settings, pass_settings
from hedwig.model import SubscriberId, Topic

if TYPE_CHECKING:
    from hedwig.cli.console.session import ConsoleSession

__all__ = ["message_commands"]


def message_commands(session: "ConsoleSession") -> Commands:
    """Return the commands about messages, by name."""

    @click.command("pub", cls=AdminCommand, example="pub news hello, world", context_settings=ANYTHING)
    @topic_text_argument
    @words_argument
    @passed_options(hub_setting_options())
    @pass_settings
    def pub(settings: Settings, topic: str, words: Sequence[str]) -> None:
        """Publish WORDS, joined by blanks, to a topic."""
        go_on(session, settings, "publish", "--", topic, " ".join(words))

    @click.command("pubsub", cls=AdminCommand, example="pubsub news check 10 hello", context_settings=ANYTHING)
    @topic_argument
    @subscriber_argument
    @click.argument("seconds", type=click.FloatRange(min=0, min_open=True))
    @words_argument
    @hub_options()
    @pass_settings
    def pubsub(
        settings: Settings, topic: Topic, subscriber: SubscriberId, seconds: float, words: Sequence[str], hub: HubAccess
    ) -> None:
        """Try a topic out: subscribe as SUBSCRIBER-TIME, publish WORDS, wait SECONDS for them, and unsubscribe."""
        output = settings.writer()
        body = os.fsencode(" ".join(words))
        output.record(check_delivery(settings, hub, topic, subscriber, seconds, body))

    @click.command("readtopic", cls=AdminCommand, example="readtopic news 3")
    @topic_text_argument
    @click.argument("message_id", metavar="[ID]", required=False, type=click.IntRange(0))
    @passed_options(cluster_setting_options(), owner_setting_options(), ledger_setting_options())
    @pass_settings
    def readtopic(settings: Settings, topic: str, message_id: int | None) -> None:
        """Show all messages of a topic that are kept, from ID on, and consume none: message peek."""
        first = () if message_id is None else ("--from", str(message_id))
        go_on(session, settings, "message", "peek", "--all", *first, "--", topic)

    return by_name(pub, pubsub, readtopic)
