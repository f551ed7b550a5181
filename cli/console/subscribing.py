"""The commands of the console about subscriptions: sub, closesub, unsub, rmsub, consume, consumeto, consumenext."""

from typing import TYPE_CHECKING, Final

import click

from hedwig.cli.arguments.confirmation import confirm
from hedwig.cli.arguments.names import SUBSCRIBER, TOPIC
from hedwig.cli.console.arguments import (
    ID_MAX,
    Commands,
    by_name,
    dry_run_option,
    go_on,
    named,
    passed_options,
    subscriber_argument,
    topic_argument,
    topic_text_argument,
    yes_option,
)
from hedwig.cli.console.hub_work import remove_subscriptions, stored_pointer
from hedwig.cli.output.fields import name_fields
from hedwig.cli.program import AdminCommand
from hedwig.cli.settings.hub_access import HubAccess, hub_options
from hedwig.cli.settings.setting_options import hub_setting_options
from hedwig.cli.settings.settings import Settings, pass_settings
from hedwig.client import CreateOrAttach
from hedwig.human_units import counted
from hedwig.model import MessageSeqId, SubscriberId, Topic
from hedwig.names import show_name
from hedwig.operations.topics.hub_records import check_topic_of_hub

if TYPE_CHECKING:
    from hedwig.cli.console.session import ConsoleSession

__all__ = ["subscription_commands"]

_MODES: Final = {
    "0": CreateOrAttach.CREATE,
    "create": CreateOrAttach.CREATE,
    "1": CreateOrAttach.ATTACH,
    "attach": CreateOrAttach.ATTACH,
    "2": CreateOrAttach.CREATE_OR_ATTACH,
    "create-or-attach": CreateOrAttach.CREATE_OR_ATTACH,
}


def subscription_commands(session: "ConsoleSession") -> Commands:
    """Return the commands about subscriptions, by name."""

    @click.command("sub", cls=AdminCommand, example="sub news reader create-or-attach")
    @topic_argument
    @subscriber_argument
    @click.argument("mode", type=click.Choice(list(_MODES)), default="attach")
    @click.argument("receive", type=click.BOOL, default=True)
    @hub_options()
    @pass_settings
    def sub(
        settings: Settings, topic: Topic, subscriber: SubscriberId, mode: str, receive: bool, hub: HubAccess
    ) -> None:
        """Open a subscription here, until closesub, unsub or quit, and show and consume what it receives.

        MODE is 0, create: it must be new; 1, attach: it must exist; 2, create-or-attach. With RECEIVE false the console
        shows nothing, and only consume, consumeto and consumenext consume.
        """
        output = settings.writer()
        if _MODES[mode] is CreateOrAttach.ATTACH:
            check_topic_of_hub(settings.deployment, hub.address, topic)
        session.subscriptions.open(settings, hub, topic, subscriber, _MODES[mode], receives=receive)
        output.record(name_fields(topic, subscriber) | {"result": "open", "receives": receive})

    @click.command("closesub", cls=AdminCommand, example="closesub news reader")
    @topic_argument
    @subscriber_argument
    @pass_settings
    def closesub(settings: Settings, topic: Topic, subscriber: SubscriberId) -> None:
        """Close a subscription that is open here; it continues to exist."""
        output = settings.writer()
        subscription = session.subscriptions.get(settings, topic, subscriber)
        try:
            is_confirmed = subscription.close()
        finally:
            session.subscriptions.forget(topic, subscriber)
        if not is_confirmed:
            click.echo("its hub did not confirm: the last messages that were consumed may come again", err=True)
        output.record(name_fields(topic, subscriber) | {"result": "closed"})

    @click.command("unsub", cls=AdminCommand, example="unsub news reader --yes")
    @topic_argument
    @subscriber_argument
    @yes_option
    @dry_run_option
    @pass_settings
    def unsub(settings: Settings, topic: Topic, subscriber: SubscriberId, yes: bool, dry_run: bool) -> None:
        """Delete a subscription that is open here; unsubscribe deletes any."""
        output = settings.writer()
        subscription = session.subscriptions.get(settings, topic, subscriber)
        if dry_run:
            output.record(name_fields(topic, subscriber) | {"result": "would delete"})
            return
        if not yes:
            name = f"the subscription of '{show_name(subscriber)}' to topic '{show_name(topic)}'"
            confirm(f"This deletes {name} for good, with all that it has not consumed")
        try:
            subscription.client.unsubscribe(topic, subscriber)
        finally:  # It is not open any more, whatever the hub says.
            session.subscriptions.forget(topic, subscriber)
            subscription.client.close()
        output.record(name_fields(topic, subscriber) | {"result": "deleted"})

    @click.command("rmsub", cls=AdminCommand, example="rmsub news- 1 3 reader- 1 2 --yes")
    @click.argument("topics")
    @click.argument("first_topic", type=click.IntRange(0))
    @click.argument("last_topic", type=click.IntRange(0))
    @click.argument("subscribers")
    @click.argument("first_subscriber", type=click.IntRange(0))
    @click.argument("last_subscriber", type=click.IntRange(0))
    @yes_option
    @dry_run_option
    @hub_options()
    @pass_settings
    def rmsub(
        settings: Settings,
        topics: str,
        first_topic: int,
        last_topic: int,
        subscribers: str,
        first_subscriber: int,
        last_subscriber: int,
        yes: bool,
        dry_run: bool,
        hub: HubAccess,
    ) -> None:
        """Subscribe to topics TOPICS1, TOPICS2 and so on as SUBSCRIBERS1 and so on, and delete these subscriptions.

        Afterwards none of these subscriptions exists, whether it did before or not.
        """
        output = settings.writer()
        if last_topic < first_topic or last_subscriber < first_subscriber:
            raise click.UsageError("the last number must not be below the first")
        count = (last_topic - first_topic + 1) * (last_subscriber - first_subscriber + 1)
        wanted = (
            (named(TOPIC, topics, number), named(SUBSCRIBER, subscribers, other))
            for number in range(first_topic, last_topic + 1)
            for other in range(first_subscriber, last_subscriber + 1)
        )
        if not dry_run:
            if not yes:
                spelled = counted(count, "subscription")
                confirm(f"This deletes {spelled} for good, with all that they have not consumed")
            remove_subscriptions(settings, hub, f"{topics}{first_topic} to {topics}{last_topic}", wanted)
        output.record({"result": "would delete" if dry_run else "deleted", "subscriptions": count})

    @click.command("consumeto", cls=AdminCommand, example="consumeto news reader 3")
    @topic_argument
    @subscriber_argument
    @click.argument("message_id", metavar="ID", type=click.IntRange(1, ID_MAX))
    @pass_settings
    def consumeto(settings: Settings, topic: Topic, subscriber: SubscriberId, message_id: int) -> None:
        """Tell the hub that all messages up to ID are consumed, for a subscription that is open here.

        A hub does not answer that. An ID beyond the last message stands for the last one.
        """
        output = settings.writer()
        session.subscriptions.get(settings, topic, subscriber).opened.consume(MessageSeqId(message_id))
        output.record(name_fields(topic, subscriber) | {"result": "sent", "id": message_id})

    @click.command("consumenext", cls=AdminCommand, example="consumenext news reader 3")
    @topic_argument
    @subscriber_argument
    @click.argument("count", metavar="NUMBER", type=click.IntRange(1, ID_MAX))
    @pass_settings
    def consumenext(settings: Settings, topic: Topic, subscriber: SubscriberId, count: int) -> None:
        """Tell the hub that NUMBER messages after the pointer in the store are consumed, for an open subscription.

        This is what the original's consume does. The store has the pointer as the hub last stored it. An id beyond the
        last message stands for the last one.
        """
        output = settings.writer()
        subscription = session.subscriptions.get(settings, topic, subscriber)
        message_id = stored_pointer(settings, topic, subscriber) + count
        subscription.opened.consume(MessageSeqId(message_id))
        output.record(name_fields(topic, subscriber) | {"result": "sent", "id": message_id})

    @click.command("consume", cls=AdminCommand, example="consume news reader 3")
    @topic_text_argument
    @click.argument("subscriber")
    @click.argument("message_id", metavar="ID", type=click.IntRange(1, ID_MAX))
    @click.option(
        "--force-attach", is_flag=True, help="Take the subscription from the client that has it open elsewhere."
    )
    @passed_options(hub_setting_options())
    @pass_settings
    def consume(settings: Settings, topic: str, subscriber: str, message_id: int, force_attach: bool) -> None:
        """Consume all messages up to ID, whether the subscription is open here, as consumeto, or not.

        This is hedwig-admin's consume. The original's, by how many messages, is consumenext.
        """
        words = ("--", topic, subscriber, str(message_id))
        if session.subscriptions.find(named(TOPIC, topic), named(SUBSCRIBER, subscriber)) is not None:
            click.get_current_context().exit(session.run_words(["consumeto", *words], settings))
        go_on(session, settings, "consume", *(("--force-attach",) if force_attach else ()), *words)

    return by_name(sub, closesub, unsub, rmsub, consumeto, consumenext, consume)
