"""The commands `hedwig-admin message …`: they look at messages without consuming any."""

import base64
from functools import partial
from typing import Any, Final

import click

from hedwig.cli.arguments.names import TOPIC
from hedwig.cli.commands.messages.ledger import ranges_of
from hedwig.cli.commands.messages.message_listing import MessageSpan, message_options, write_messages
from hedwig.cli.output.formats import Output, Row
from hedwig.cli.output.message_fields import message_fields
from hedwig.cli.program import AdminGroup
from hedwig.cli.settings.deployment_options import deployment_options
from hedwig.cli.settings.settings import Settings, pass_settings
from hedwig.cli.settings.topic_names import complete_topic
from hedwig.errors import ConfigurationError, NoSuchLedgerError, OperationError
from hedwig.metadata import MetadataStore
from hedwig.model import Topic
from hedwig.names import name_fields
from hedwig.operations.deployment.admin_endpoint import AdminClient, RefusedError, named, topic_path
from hedwig.operations.deployment.deployment import Deployment
from hedwig.operations.deployment.ledgers import open_ledgers
from hedwig.operations.deployment.store import with_store
from hedwig.operations.deployment.topic_owner import OwnerFinder, OwnerState
from hedwig.operations.topics.ledger_messages import StoredMessage, number_of, read_topic_messages
from hedwig.operations.topics.positions import TopicPositions
from hedwig.wire import Message

__all__ = ["message"]

_COLUMNS: Final = ("id", "body", "properties", "message_type", "source_region")
_SHOWN: Final = ("id", "body", "properties")
_LIMIT: Final = 10
_PAGE_ROWS: Final = 256


@click.group(cls=AdminGroup, example="hedwig-admin message peek news --limit 5")
def message() -> None:
    """Look at the messages of a topic, and count them, past all subscriptions: no consume pointer moves."""


@message.command("peek", example="hedwig-admin message peek news --limit 5")
@click.argument("topic", type=TOPIC, shell_complete=complete_topic)
@message_options(_LIMIT)
@deployment_options(admin="the topic's owner", ledgers=True)
@pass_settings
def peek_messages(
    settings: Settings,
    /,
    topic: Topic,
    span: MessageSpan,
    deployment: Deployment,
) -> None:
    """Write messages of a topic, oldest first, and consume none.

    The command asks the hub that owns the topic. If no such hub can be asked, it reads the ledgers.
    """
    output = settings.writer()
    endpoint = _find_owner(settings, topic, deployment)
    if endpoint is not None and _peek_at_hub(endpoint, topic, span, output):
        return

    async def peek(store: MetadataStore) -> None:
        positions = await ranges_of(store, topic)
        if not positions.held:
            # Without messages there is no need to open the ledgers.
            output.begin("messages", _COLUMNS, _SHOWN)
            output.end()
            return
        async with open_ledgers(deployment) as (inspector, location):
            messages = read_topic_messages(inspector, location, positions, span.first)
            await write_messages(output, _COLUMNS, _SHOWN, messages, span.limit, partial(_row, output), number_of)

    with_store(settings.deployment, peek)


@message.command("count", example="hedwig-admin message count news")
@click.argument("topic", type=TOPIC, shell_complete=complete_topic)
@deployment_options(admin="the topic's owner", ledgers=True)
@pass_settings
def count_messages(settings: Settings, /, topic: Topic, deployment: Deployment) -> None:
    """Count the kept messages of a topic by the record of its ledgers; no message is read.

    The hub of an open ledger, or the ledger itself, knows how many messages it holds. If neither can be asked,
    `messages` is not known, and `messages_at_least` leaves that ledger out.
    """
    output = settings.writer()
    endpoint = _find_owner(settings, topic, deployment)
    last_id = _last_id_of_hub(endpoint, topic) if endpoint is not None else None

    async def count(store: MetadataStore) -> tuple[TopicPositions, int | None, bool]:
        positions = await ranges_of(store, topic)
        if positions.open is None:
            return positions, positions.last_id, True
        if last_id is not None:
            return positions, last_id, True
        return positions, *await _end_of_open(deployment, positions)

    positions, last, is_exact = with_store(settings.deployment, count)
    messages = positions.messages(last)
    output.record(
        name_fields(topic)
        | {
            "messages": messages if is_exact else None,
            "messages_at_least": messages if messages is not None else positions.closed_messages,
            "first_id": positions.first_id,
            "last_id": last if is_exact else None,
            "ledgers": len(positions.held),
            "open_ledger": None if positions.open is None else positions.open.ledger_id,
        }
    )


def _find_owner(settings: Settings, topic: Topic, deployment: Deployment) -> AdminClient | None:
    """Return the endpoint of the owner; None without a living owner. Reports an owner that cannot be asked."""
    owner = OwnerFinder(deployment).find_existing(topic)
    if owner.state is OwnerState.UNKNOWN:
        click.echo(f"it is not known whether its owner {owner.hub} is alive: {owner.why}", err=True)
    if owner.state is not OwnerState.ALIVE:
        return None
    try:
        return owner.asked(settings.command)
    except OperationError as exc:
        click.echo(f"{exc}; reading the ledgers instead", err=True)
        return None


def _peek_at_hub(endpoint: AdminClient, topic: Topic, span: MessageSpan, output: Output) -> bool:
    """Write the messages of the hub; return False, with nothing written, if it does not own the topic any more."""
    following: int | None = span.first
    left = span.limit
    is_first = True
    while following is not None and left != 0:
        wanted: dict[str, Any] = {"limit": _PAGE_ROWS if left is None else min(left, _PAGE_ROWS), "from": following}
        path = named("/messages", topic=topic, **wanted)
        try:
            page = endpoint.get(path)
        except RefusedError as exc:
            if is_first and exc.answer.get("reason") == "not owned":
                return False
            raise
        if is_first:
            output.begin("messages", _COLUMNS, _SHOWN)
            is_first = False
        messages = [Message.decode(base64.b64decode(row["message_base64"])) for row in page["messages"]]
        output.page([message_fields(each, is_escaped=not output.has_companions) for each in messages])
        left = None if left is None else left - len(messages)
        following = page["next"]
    output.end(None if following is None else str(following))
    return True


def _last_id_of_hub(endpoint: AdminClient, topic: Topic) -> int | None:
    try:
        last_id: int = endpoint.get(f"{topic_path(topic)}?limit=1")["last_id"]
    except RefusedError as exc:
        if exc.answer.get("reason") == "not owned":
            return None
        raise
    return last_id


async def _end_of_open(deployment: Deployment, positions: TopicPositions) -> tuple[int | None, bool]:
    """Return the last visible message of the open ledger, None if it is not known, and whether it is the last one."""
    held = positions.open
    assert held is not None, "the caller looked"
    if held.start is None:
        return None, False
    try:
        async with open_ledgers(deployment) as (inspector, _):
            facts = await inspector.facts(held.ledger_id)
    except (OperationError, ConfigurationError, NoSuchLedgerError) as exc:
        if deployment.names_ledgers:
            raise
        click.echo(f"it is not known how many messages ledger {held.ledger_id} holds: {exc}", err=True)
        return None, False
    return held.start + facts.last_entry_id, facts.is_closed


def _row(output: Output, stored: StoredMessage) -> Row:
    return message_fields(stored.message, is_escaped=not output.has_companions)
