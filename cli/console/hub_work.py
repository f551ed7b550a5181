"""The commands of the console that work at hubs and leave no subscription open: pubsub, rmsub."""

import asyncio
import os
import time
from collections.abc import Iterable
from typing import Any

import click

from hedwig.cli.arguments.confirmation import confirm
from hedwig.cli.arguments.names import SUBSCRIBER, TOPIC
from hedwig.cli.console.arguments import (
    ANYTHING,
    convert_name,
    dry_run_option,
    subscriber_argument,
    topic_argument,
    words_argument,
    yes_option,
)
from hedwig.cli.program import AdminCommand
from hedwig.cli.settings.hub_access import HubAccess, hub_options, with_hub
from hedwig.cli.settings.settings import Settings, pass_settings
from hedwig.client import CreateOrAttach, HedwigClient, Subscription
from hedwig.errors import OperationError
from hedwig.exit_codes import ExitCode
from hedwig.human_units import counted
from hedwig.model import MessageSeqId, SubscriberId, Topic
from hedwig.names import as_subscriber, name_fields, show_name
from hedwig.operations.progress import load_progress

__all__ = ["pubsub", "rmsub"]


@click.command("pubsub", cls=AdminCommand, example="pubsub news check 10 hello", context_settings=ANYTHING)
@topic_argument
@subscriber_argument
@click.argument("seconds", type=click.FloatRange(min=0, min_open=True))
@words_argument
@hub_options()
@pass_settings
def pubsub(
    settings: Settings, /, topic: Topic, subscriber: SubscriberId, seconds: float, words: str, hub: HubAccess
) -> None:
    """Try a topic out: subscribe as SUBSCRIBER-TIME, publish WORDS, wait SECONDS for them, and unsubscribe."""
    output = settings.writer()
    made = as_subscriber(b"%s-%d" % (subscriber, time.time_ns() // 1_000_000))

    async def attempt(client: HedwigClient) -> dict[str, Any]:
        opened = await client.subscribe(topic, made, mode=CreateOrAttach.CREATE)
        try:
            began = time.monotonic()
            published = await client.publish(topic, os.fsencode(words))
            published_ms = (time.monotonic() - began) * 1000
            try:
                async with asyncio.timeout(seconds):
                    await _receive(opened, published)
            except TimeoutError as exc:
                raise OperationError(
                    f"{settings.command} failed on topic '{show_name(topic)}': message {published.local} was published "
                    f"and did not come to subscriber '{show_name(made)}' within {seconds:g} s",
                    ExitCode.OUTCOME_UNKNOWN,
                ) from exc
            received_ms = (time.monotonic() - began) * 1000
        finally:
            await client.unsubscribe(topic, made)
        times = {"published_ms": round(published_ms, 1), "received_ms": round(received_ms, 1)}
        return name_fields(topic, made) | {"id": published.local} | times

    output.record(with_hub(settings, hub, f"topic '{show_name(topic)}'", attempt))


async def _receive(opened: Subscription, wanted: MessageSeqId) -> None:
    """Return once the wanted message has arrived. Others may have been published before it."""
    async for message in opened:
        if message.seq_id.local >= wanted.local:
            return


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
    /,
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
        (convert_name(TOPIC, f"{topics}{number}"), convert_name(SUBSCRIBER, f"{subscribers}{other}"))
        for number in range(first_topic, last_topic + 1)
        for other in range(first_subscriber, last_subscriber + 1)
    )
    if not dry_run:
        if not yes:
            spelled = counted(count, "subscription")
            confirm(f"This deletes {spelled} for good, with all that they have not consumed")
        subject = f"subscriptions of topics {topics}{first_topic} to {topics}{last_topic}"
        with_hub(settings, hub, subject, lambda client: _remove(client, wanted))
    output.record({"result": "would delete" if dry_run else "deleted", "subscriptions": count})


async def _remove(client: HedwigClient, wanted: Iterable[tuple[Topic, SubscriberId]]) -> None:
    """Subscribe and unsubscribe each, so that none of them exists afterwards."""
    with load_progress("removing subscriptions", None, noun="subscriptions") as progress:
        for topic, subscriber in wanted:
            await client.subscribe(topic, subscriber, mode=CreateOrAttach.CREATE_OR_ATTACH, auto_consume=False)
            await client.unsubscribe(topic, subscriber)
            progress.advance(1, 0)
