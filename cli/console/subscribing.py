"""The commands of the console about subscriptions that are open in it, and consume, of any subscription."""

from typing import Any, Final

import click

from hedwig.cli.arguments.confirmation import confirm
from hedwig.cli.arguments.names import SUBSCRIBER, TOPIC
from hedwig.cli.arguments.option_group import option_group
from hedwig.cli.console.arguments import (
    add_options,
    convert_name,
    dry_run_option,
    subscriber_argument,
    topic_argument,
    topic_text_argument,
    yes_option,
)
from hedwig.cli.console.session import current_session, run_admin_command
from hedwig.cli.console.subscriptions import OpenSubscription
from hedwig.cli.program import AdminCommand
from hedwig.cli.settings.hub_access import HubAccess, hub_options
from hedwig.cli.settings.setting_options import hub_setting_options
from hedwig.cli.settings.settings import Settings, current_settings, pass_settings
from hedwig.client import CreateOrAttach
from hedwig.metadata import MetadataStore
from hedwig.model import MessageSeqId, SubscriberId, Topic
from hedwig.names import name_fields, subscription_subject
from hedwig.operations.deployment.store import with_store
from hedwig.operations.errors import missing_subscription
from hedwig.operations.topics.hub_records import check_topic_of_hub

__all__ = ["closesub", "consume", "consumenext", "consumeto", "show_subs", "sub", "unsub"]

_ID_MAX: Final = 2**64 - 1

_MODES: Final = {
    spelling: mode for mode in CreateOrAttach for spelling in (str(mode.value), mode.name.lower().replace("_", "-"))
}

_open_subscription: Final = option_group(
    "subscription",
    (topic_argument, subscriber_argument),
    ("topic", "subscriber"),
    lambda names: current_session().subscriptions.get(current_settings(), **names),
)
"""The arguments TOPIC and SUBSCRIBER. The command gets the subscription, which must be open here."""
_message_id_argument: Final = click.argument("message_id", metavar="ID", type=click.IntRange(1, _ID_MAX))


@click.command("sub", cls=AdminCommand, example="sub news reader create-or-attach")
@topic_argument
@subscriber_argument
@click.argument("mode", type=click.Choice(list(_MODES)), default="attach")
@click.argument("receive", type=click.BOOL, default=True)
@hub_options()
@pass_settings
def sub(
    settings: Settings, /, topic: Topic, subscriber: SubscriberId, mode: str, receive: bool, hub: HubAccess
) -> None:
    """Open a subscription here, until closesub, unsub or quit, and show and consume what it receives.

    MODE is 0, create: it must be new; 1, attach: it must exist; 2, create-or-attach. With RECEIVE false the console
    shows nothing, and only consume, consumeto and consumenext consume.
    """
    output = settings.writer()
    if _MODES[mode] is CreateOrAttach.ATTACH:
        check_topic_of_hub(settings.deployment, hub.address, topic)
    current_session().subscriptions.open(settings, hub, topic, subscriber, _MODES[mode], receives=receive)
    output.record(name_fields(topic, subscriber) | {"result": "open", "receives": receive})


@click.command("subs", cls=AdminCommand, example="show subs")
@pass_settings
def show_subs(settings: Settings, /) -> None:
    """Show the subscriptions that are open here."""
    rows: list[dict[str, Any]] = [
        {**each.fields, "receives": each.receives, "attached": each.opened.is_attached, "why_lost": each.why_lost}
        for each in current_session().subscriptions
    ]
    settings.writer().listing("subscriptions", rows, ("topic", "subscriber", "receives", "attached", "why_lost"))


@click.command("closesub", cls=AdminCommand, example="closesub news reader")
@_open_subscription
@pass_settings
def closesub(settings: Settings, /, subscription: OpenSubscription) -> None:
    """Close a subscription that is open here; it continues to exist."""
    output = settings.writer()
    current_session().subscriptions.forget(subscription)
    if not subscription.close():
        click.echo("its hub did not confirm: the last messages that were consumed may come again", err=True)
    output.record(subscription.fields | {"result": "closed"})


@click.command("unsub", cls=AdminCommand, example="unsub news reader --yes")
@_open_subscription
@yes_option
@dry_run_option
@pass_settings
def unsub(settings: Settings, /, subscription: OpenSubscription, yes: bool, dry_run: bool) -> None:
    """Delete a subscription that is open here; unsubscribe deletes any."""
    output = settings.writer()
    names = subscription.opened.topic, subscription.opened.subscriber
    if not dry_run:
        if not yes:
            confirm(f"This deletes {subscription_subject(*names)} for good, with all that it has not consumed")
        current_session().subscriptions.forget(subscription)  # It is not open any more, whatever the hub says.
        try:
            subscription.client.unsubscribe(*names)
        finally:
            subscription.client.close()
    output.record(subscription.fields | {"result": "would delete" if dry_run else "deleted"})


@click.command("consumeto", cls=AdminCommand, example="consumeto news reader 3")
@_open_subscription
@_message_id_argument
@pass_settings
def consumeto(settings: Settings, /, subscription: OpenSubscription, message_id: int) -> None:
    """Tell the hub that all messages up to ID are consumed, for a subscription that is open here.

    A hub does not answer that. An ID beyond the last message stands for the last one.
    """
    _send_consume(settings, subscription, message_id)


@click.command("consumenext", cls=AdminCommand, example="consumenext news reader 3")
@_open_subscription
@click.argument("count", metavar="NUMBER", type=click.IntRange(1, _ID_MAX))
@pass_settings
def consumenext(settings: Settings, /, subscription: OpenSubscription, count: int) -> None:
    """Tell the hub that NUMBER messages after the pointer in the store are consumed, for an open subscription.

    This is what the original's consume does. The store has the pointer as the hub last stored it. An id beyond the
    last message stands for the last one.
    """
    topic, subscriber = subscription.opened.topic, subscription.opened.subscriber

    async def read_pointer(store: MetadataStore) -> int:
        record = await store.subscriptions.read(topic, subscriber)
        if record is None:
            raise missing_subscription(topic, subscriber)
        return record.value.consumed

    _send_consume(settings, subscription, with_store(settings.deployment, read_pointer) + count)


def _send_consume(settings: Settings, subscription: OpenSubscription, message_id: int) -> None:
    output = settings.writer()
    subscription.opened.consume(MessageSeqId(message_id))
    output.record(subscription.fields | {"result": "sent", "id": message_id})


@click.command("consume", cls=AdminCommand, example="consume news reader 3")
@topic_text_argument
@click.argument("subscriber")
@_message_id_argument
@click.option("--force-attach", is_flag=True, help="Take the subscription from the client that has it open elsewhere.")
@add_options(hub_setting_options())
@pass_settings
def consume(settings: Settings, /, topic: str, subscriber: str, message_id: int, force_attach: bool) -> None:
    """Consume all messages up to ID, whether the subscription is open here, as consumeto, or not.

    This is hedwig-admin's consume. The original's, by how many messages, is consumenext.
    """
    session = current_session()
    words = ("--", topic, subscriber, str(message_id))
    if session.subscriptions.find(convert_name(TOPIC, topic), convert_name(SUBSCRIBER, subscriber)) is not None:
        click.get_current_context().exit(session.run_words(["consumeto", *words], settings))
    run_admin_command(settings, "consume", *(("--force-attach",) if force_attach else ()), *words)
