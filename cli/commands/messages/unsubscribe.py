"""The command `hedwig-admin unsubscribe`: deletes a subscription at its hub, or all that a subscriber has."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from typing import Any, Final

import click

from hedwig.cli.arguments.confirmation import confirm
from hedwig.cli.arguments.names import SUBSCRIBER, TOPIC
from hedwig.cli.program import AdminCommand
from hedwig.cli.settings.hub_access import HubAccess, hub_options, with_hub
from hedwig.cli.settings.settings import Settings, pass_settings
from hedwig.cli.settings.topic_names import complete_topic
from hedwig.client import CreateOrAttach, HedwigClient
from hedwig.errors import ClientNotSubscribedError, OperationError, ServiceError, TopicBusyError
from hedwig.exit_codes import ExitCode
from hedwig.human_units import counted
from hedwig.metadata import MetadataStore, open_metadata
from hedwig.model import SubscriberId, Topic
from hedwig.names import bytes_fields, name_fields, show_name, subscription_subject
from hedwig.operations.deployment.store import with_store
from hedwig.operations.errors import missing_subscription
from hedwig.operations.progress import LoadProgress, load_progress
from hedwig.operations.topics.hub_records import check_topic_of_hub

__all__ = ["unsubscribe"]

_AT_ONCE: Final = 64
_FAILURES_MAX: Final = 10


@click.command("unsubscribe", cls=AdminCommand, example="hedwig-admin unsubscribe news reader --yes")
@click.argument("topic", required=False, type=TOPIC, shell_complete=complete_topic)
@click.argument("subscriber", required=False, type=SUBSCRIBER)
@click.option(
    "--all", "everywhere", type=SUBSCRIBER, metavar="SUBSCRIBER", help="Delete every subscription of SUBSCRIBER."
)
@click.option("--if-exists", is_flag=True, help="Do not fail if there is no such subscription.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option(
    "--dry-run", is_flag=True, help="Look whether it exists, by attaching to it, or with --all count; delete nothing."
)
@hub_options()
@pass_settings
def unsubscribe(
    settings: Settings,
    /,
    topic: Topic | None,
    subscriber: SubscriberId | None,
    everywhere: SubscriberId | None,
    if_exists: bool,
    yes: bool,
    dry_run: bool,
    hub: HubAccess,
) -> None:
    """Delete a subscription, also while it is open; it loses the messages that it has not consumed.

    With --all, the store says which subscriptions SUBSCRIBER has, and the hubs delete them. If that is ended, give the
    same command again. See metadata index for how the store finds them.
    """
    output = settings.writer()
    if everywhere is not None:
        if topic is not None:
            raise click.UsageError("give either TOPIC and SUBSCRIBER or --all SUBSCRIBER")
        output.record(_Everywhere(settings, hub, everywhere).carry_out(yes=yes, dry_run=dry_run))
        return
    if topic is None or subscriber is None:
        raise click.UsageError("give TOPIC and SUBSCRIBER, or --all SUBSCRIBER")
    subject = subscription_subject(topic, subscriber)

    async def look(client: HedwigClient) -> None:
        with _reporting_missing(topic, subscriber):
            await _look_for(client, topic, subscriber)

    async def delete(client: HedwigClient) -> None:
        with _reporting_missing(topic, subscriber):
            await client.unsubscribe(topic, subscriber)

    def carry_out() -> str:
        check_topic_of_hub(settings.deployment, hub.address, topic)
        if dry_run or not yes:
            with_hub(settings, hub, subject, look)
        if dry_run:
            return "would delete"
        if not yes:
            confirm(f"This deletes {subject} for good, with all that it has not consumed")
        with_hub(settings, hub, subject, delete)
        return "deleted"

    try:
        result = carry_out()
    except OperationError as exc:
        if exc.code is not ExitCode.NOT_FOUND or not if_exists:
            raise
        result = "absent"
    output.record(name_fields(topic, subscriber) | {"result": result})


class _Everywhere:
    """The deletion of all subscriptions of one subscriber."""

    def __init__(self, settings: Settings, hub: HubAccess, subscriber: SubscriberId) -> None:
        self._settings = settings
        self._hub = hub
        self._subscriber = subscriber
        self._results: Counter[str] = Counter()
        self._failures: list[str] = []

    def carry_out(self, *, yes: bool, dry_run: bool) -> Mapping[str, Any]:
        """Count, ask and delete; return the result. Raises: OperationError - some were not deleted."""
        fields: dict[str, Any] = dict(bytes_fields("subscriber", self._subscriber))
        named = f"'{show_name(self._subscriber)}'"
        if dry_run or not yes:
            number = with_store(self._settings.deployment, self._count)
            if dry_run:
                return fields | {"would_delete": number}
            if number:
                confirm(
                    f"This deletes {counted(number, 'subscription')} of {named} for good, with all that they have not "
                    "consumed"
                )
        with_hub(self._settings, self._hub, f"the subscriptions of {named}", self._delete_all)
        if self._failures:
            for failure in self._failures:
                click.echo(failure, err=True)
            raise OperationError(
                f"{self._settings.command}: {self._results['deleted']:,} subscriptions of {named} were deleted; of "
                f"{len(self._failures):,} more that was refused, or is not known; to go on, give the same command again"
            )
        return fields | {"deleted": self._results["deleted"], "absent": self._results["absent"]}

    async def _count(self, store: MetadataStore) -> int:
        number = 0
        with load_progress("looking for subscriptions", None, noun="subscriptions read") as progress:
            async for topics in self._topics(store, progress):
                number += len(topics)
        return number

    async def _topics(self, store: MetadataStore, progress: LoadProgress) -> AsyncIterator[Sequence[Topic]]:
        pages = store.subscriptions_of(self._subscriber, advance=lambda number: progress.advance(number, 0))
        async with aclosing(pages):
            async for page in pages:
                yield [record.key.topic for record in page]

    async def _delete_all(self, client: HedwigClient) -> None:
        deployment = self._settings.deployment
        running = asyncio.Semaphore(_AT_ONCE)

        async def delete(topic: Topic) -> None:
            async with running:
                if len(self._failures) < _FAILURES_MAX:
                    await self._delete(client, topic)

        async with await open_metadata(deployment.url, deployment.options_to_look()) as store:
            with load_progress("deleting subscriptions", None, noun="subscriptions read") as progress:
                async for topics in self._topics(store, progress):
                    async with asyncio.TaskGroup() as group:
                        for topic in topics:
                            group.create_task(delete(topic))
                    if len(self._failures) >= _FAILURES_MAX:
                        return

    async def _delete(self, client: HedwigClient, topic: Topic) -> None:
        try:
            await client.unsubscribe(topic, self._subscriber)
        except ClientNotSubscribedError:
            self._results["absent"] += 1  # Its client was faster.
        except ServiceError as exc:
            self._failures.append(f"{subscription_subject(topic, self._subscriber)}: {exc}")
        else:
            self._results["deleted"] += 1


@contextmanager
def _reporting_missing(topic: Topic, subscriber: SubscriberId) -> Iterator[None]:
    """Report a hub's "no such subscription" in the same words as the commands that use the store."""
    try:
        yield
    except ClientNotSubscribedError as exc:
        raise missing_subscription(topic, subscriber) from exc


async def _look_for(client: HedwigClient, topic: Topic, subscriber: SubscriberId) -> None:
    """Raise ClientNotSubscribedError if there is no such subscription."""
    try:
        opened = await client.subscribe(topic, subscriber, mode=CreateOrAttach.ATTACH, auto_consume=False)
    except TopicBusyError:
        return  # Another client has it open.
    await opened.close()
