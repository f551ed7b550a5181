"""The commands that open a subscription at its hub: subscribe and consume."""

import asyncio
from typing import Final

import click

from hedwig.cli.arguments.names import SUBSCRIBER, TOPIC
from hedwig.cli.commands.subscription.preferences import preference_options
from hedwig.cli.output.formats import Output
from hedwig.cli.output.message_fields import message_fields
from hedwig.cli.program import AdminCommand
from hedwig.cli.settings.hub_access import HubAccess, hub_options, with_hub
from hedwig.cli.settings.settings import Settings, pass_settings
from hedwig.cli.settings.topic_names import complete_topic
from hedwig.client import CreateOrAttach, HedwigClient, Message, Opening, Subscription
from hedwig.errors import (
    CouldNotConnectError,
    UncertainAnswerError,
)
from hedwig.model import MessageSeqId, SubscriberId, SubscriptionPreferences, Topic
from hedwig.names import name_fields, subscription_subject
from hedwig.operations.topics.hub_records import check_topic_of_hub, pointer_after_consume

__all__ = ["consume", "subscribe"]

_COLUMNS: Final = ("id", "body", "properties", "message_type", "source_region")
_SHOWN: Final = ("id", "body", "properties")
_PLACE_POLL_S: Final = 0.2
_MODES: Final = {mode.name.lower().replace("_", "-"): mode for mode in CreateOrAttach}

_FORCE: Final = click.option(
    "--force-attach", is_flag=True, help="Take the subscription from the client that has it open, and end its delivery."
)


@click.command("subscribe", cls=AdminCommand, example="hedwig-admin subscribe news reader --count 1")
@click.argument("topic", type=TOPIC, shell_complete=complete_topic)
@click.argument("subscriber", type=SUBSCRIBER)
@click.option("--follow", is_flag=True, help="Continue until Ctrl-C, also without messages, and while its hub is gone.")
@click.option(
    "--idle",
    "idle_s",
    type=click.FloatRange(min=0, min_open=True),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Without --follow: end after SECONDS without a message.",
)
@click.option("--count", type=click.IntRange(min=1), metavar="NUMBER", help="End after NUMBER messages.")
@click.option(
    "--mode",
    type=click.Choice(list(_MODES)),
    default="create-or-attach",
    show_default=True,
    help="Whether the subscription must be new, must exist, or either.",
)
@_FORCE
@click.option("--standby", is_flag=True, help="Wait in line while another client has the subscription open.")
@click.option("--no-consume", is_flag=True, help="Do not consume: the same messages come again next time.")
@preference_options()
@hub_options()
@pass_settings
def subscribe(
    settings: Settings,
    /,
    topic: Topic,
    subscriber: SubscriberId,
    follow: bool,
    idle_s: float,
    count: int | None,
    mode: str,
    force_attach: bool,
    standby: bool,
    no_consume: bool,
    preferences: SubscriptionPreferences,
    hub: HubAccess,
) -> None:
    """Open a subscription and write its messages as they come; the subscription stays when the command ends.

    A new subscription gets messages that are published from now on. The command consumes what it has written, so it
    does not come again. Preferences are merged into those that the subscription has.
    """
    output = settings.writer()
    if _MODES[mode] is CreateOrAttach.ATTACH:
        check_topic_of_hub(settings.deployment, hub.address, topic)

    async def read(client: HedwigClient) -> None:
        opening = client.subscribe(
            topic,
            subscriber,
            mode=_MODES[mode],
            preferences=preferences,
            force_attach=force_attach,
            standby=standby,
            auto_consume=not no_consume,
        )
        async with await _opened(opening) as opened:
            await _write_messages(opened, output, count, None if follow else idle_s)

    with_hub(settings, hub, subscription_subject(topic, subscriber), read)


@click.command("consume", cls=AdminCommand, example="hedwig-admin consume news reader 1")
@click.argument("topic", type=TOPIC, shell_complete=complete_topic)
@click.argument("subscriber", type=SUBSCRIBER)
@click.argument("message_id", metavar="ID", type=click.IntRange(1, 2**64 - 1))
@_FORCE
@hub_options()
@pass_settings
def consume(
    settings: Settings,
    /,
    topic: Topic,
    subscriber: SubscriberId,
    message_id: int,
    force_attach: bool,
    hub: HubAccess,
) -> None:
    """Move the consume pointer: message ID and all before it do not come again.

    The pointer never moves back, nor beyond the last message. `consumed` is the pointer in the store afterwards.
    """
    output = settings.writer()
    check_topic_of_hub(settings.deployment, hub.address, topic)

    async def move(client: HedwigClient) -> None:
        opened = await client.subscribe(
            topic,
            subscriber,
            mode=CreateOrAttach.ATTACH,
            force_attach=force_attach,
            auto_consume=False,
            resubscribe=False,
        )
        await opened.consume(MessageSeqId(message_id))
        # A hub does not answer a consume. But it answers the end of the subscription, which comes after it.
        if not await opened.close():
            raise UncertainAnswerError("the connection was lost before the hub confirmed it")

    with_hub(settings, hub, subscription_subject(topic, subscriber), move)
    consumed = pointer_after_consume(settings.deployment, topic, subscriber, message_id)
    output.record(name_fields(topic, subscriber) | {"consumed": consumed})


async def _opened(opening: Opening) -> Subscription:
    """Open a subscription. While it waits in line, say at which place, whenever that changes."""
    running = asyncio.ensure_future(opening.open())
    said: int | None = None
    try:
        while not running.done():
            await asyncio.wait([running], timeout=_PLACE_POLL_S)
            if opening.place not in (None, said):
                said = opening.place
                click.echo(f"another client has the subscription open; this one waits at place {said}", err=True)
        return await running
    finally:
        running.cancel()


async def _write_messages(opened: Subscription, output: Output, count: int | None, idle_s: float | None) -> None:
    output.begin("messages", _COLUMNS, _SHOWN)
    output.page([])  # A reader sees at once that the subscription is open.
    try:
        taken = 0
        while count is None or taken < count:
            message = await _next_message(opened, idle_s)
            if message is None:
                return
            output.page([message_fields(message, is_escaped=not output.has_companions)])
            taken += 1
    finally:
        output.end()  # Even after Ctrl-C, the output is a complete document.


async def _next_message(opened: Subscription, idle_s: float | None) -> Message | None:
    """Return the next message; None if none came in time. Raises CouldNotConnectError if no hub serves it."""
    try:
        async with asyncio.timeout(idle_s):
            return await anext(opened)
    except TimeoutError:
        if not opened.is_attached:
            raise CouldNotConnectError("its hub was lost, and no hub serves it yet") from None
        return None
