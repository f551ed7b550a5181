"""The commands `hedwig-admin ledger …`: where the messages of topics are."""

import asyncio
import shlex
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from hedwig.cli.arguments.names import TOPIC, CheckedName
from hedwig.cli.arguments.selection import Selection, list_options
from hedwig.cli.commands.messages.logs import list_logs, show_unreferenced
from hedwig.cli.commands.messages.message_listing import MessageSpan, message_options, write_messages
from hedwig.cli.commands.messages.orphans import delete_orphans
from hedwig.cli.commands.messages.unshare import unshare_topics
from hedwig.cli.output.formats import Output, Row
from hedwig.cli.output.message_fields import message_fields
from hedwig.cli.program import AdminGroup
from hedwig.cli.settings.deployment_options import deployment_options
from hedwig.cli.settings.settings import Settings, pass_settings
from hedwig.cli.settings.topic_names import complete_topic
from hedwig.errors import ConfigurationError, NoSuchLedgerError, OperationError
from hedwig.exit_codes import ExitCode
from hedwig.metadata import MetadataStore
from hedwig.metadata.logs.virtual_ids import is_virtual, log_of, slot_of
from hedwig.model import Topic
from hedwig.names import show_name
from hedwig.operations.deployment.deployment import Deployment
from hedwig.operations.deployment.ledgers import open_ledgers
from hedwig.operations.deployment.store import with_store
from hedwig.operations.errors import missing_topic
from hedwig.operations.topics.ledger_messages import StoredMessage, number_of, read_ledger, read_topic_messages
from hedwig.operations.topics.positions import Held, TopicPositions

if TYPE_CHECKING:
    from hedwig.hub.ledgers.inspection import LedgerFacts, LedgerInspector

__all__ = ["ledger", "ranges_of"]

_SHOWN: Final = ("ledger_id", "start", "end", "state", "messages", "stored_bytes")
_OF_LOG: Final = ("log", "slot", "hub", "segments")
_COLUMNS: Final = (*_SHOWN, *_OF_LOG)
_MESSAGE_COLUMNS: Final = (
    "ledger_id",
    "entry_id",
    "id",
    "body",
    "properties",
    "message_type",
    "source_region",
)
_MESSAGES_SHOWN: Final = ("ledger_id", "entry_id", "id", "body", "properties")
_LIMIT: Final = 100
_LEDGER: Final = CheckedName("ledger", lambda text: str(int(text)).encode())
_ID_MAX: Final = (1 << 63) - 1


@click.group(cls=AdminGroup, example="hedwig-admin ledger list news")
def ledger() -> None:
    """Show the ledgers of a topic, their content, and the shared logs of hubs; delete what no topic refers to.

    The commands that show ledgers read them while a hub writes. They lock, fence and close nothing.
    """


@ledger.command("list", example="hedwig-admin ledger list news")
@click.argument("topic", type=TOPIC, shell_complete=complete_topic)
@list_options(_LEDGER, with_prefix=False)
@deployment_options(ledgers=True)
@pass_settings
def list_ledgers(settings: Settings, /, topic: Topic, selection: Selection, deployment: Deployment) -> None:
    """List the ledgers of a topic in order: which messages each holds, and its size where that can be read.

    An `open` ledger has no end on record, and may hold more messages than the command sees. A `missing` ledger is on
    record only. An `emptied` one was consumed and deleted. Of a ledger in a shared log, the command shows the number
    and the hub of the log, the slot, and in how many segments its messages are.
    """
    output = settings.writer()

    async def write(store: MetadataStore) -> None:
        positions = await ranges_of(store, topic)
        listing = f"ledgers {topic.hex()} {store.url.text}"
        wanted, token = _wanted(selection, listing, topic, positions)
        is_any_shared = any(is_virtual(held.ledger_id) for held in wanted)
        output.begin("ledgers", _COLUMNS, _COLUMNS if is_any_shared else _SHOWN)
        async with AsyncExitStack() as stack:
            inspector: LedgerInspector | None = None
            try:
                if wanted:
                    inspector, _ = await stack.enter_async_context(open_ledgers(deployment))
            except (OperationError, ConfigurationError) as exc:
                if deployment.names_ledgers:
                    raise
                click.echo(f"the ledgers themselves are not read: {exc}", err=True)
            for held in wanted:
                output.page([await _ledger_row(inspector, held)])
        output.end(token)

    with_store(settings.deployment, write)


@ledger.command("read", example="hedwig-admin ledger read news --limit 10")
@click.argument("topic", type=TOPIC, required=False, shell_complete=complete_topic)
@click.option("--ledger", "ledger_id", type=click.IntRange(0, _ID_MAX), metavar="ID", help="One ledger, by its id.")
@message_options(_LIMIT, also="; with --ledger the first entry")
@deployment_options(ledgers=True)
@pass_settings
def read_entries(
    settings: Settings,
    /,
    topic: Topic | None,
    ledger_id: int | None,
    span: MessageSpan,
    deployment: Deployment,
) -> None:
    """Write the entries of the ledgers of TOPIC, or of one ledger, as messages.

    If a hub is writing a ledger on bookies, the command does not see its last entry. Readers do not know of it yet.
    """
    if (topic is None) == (ledger_id is None):
        raise click.UsageError("give either TOPIC or --ledger ID")
    output = settings.writer()

    async def write(positions: TopicPositions) -> None:
        if topic is not None and not positions.held:
            # Without messages there is no need to open the ledgers.
            output.begin("messages", _MESSAGE_COLUMNS, _MESSAGES_SHOWN)
            output.end()
            return
        async with open_ledgers(deployment) as (inspector, location):
            if ledger_id is not None:
                messages = read_ledger(inspector, location, ledger_id, span.first)
            else:
                messages = read_topic_messages(inspector, location, positions, span.first)
            number = number_of if ledger_id is None else _entry_of
            row = partial(_message_row, output)
            await write_messages(output, _MESSAGE_COLUMNS, _MESSAGES_SHOWN, messages, span.limit, row, number)

    async def write_topic(store: MetadataStore) -> None:
        assert topic is not None, "it was given"
        await write(await ranges_of(store, topic))

    if topic is not None:
        with_store(settings.deployment, write_topic)
        return
    asyncio.run(write(TopicPositions(())))


for command in (delete_orphans, list_logs, show_unreferenced, unshare_topics):
    ledger.add_command(command)


async def ranges_of(store: MetadataStore, topic: Topic) -> TopicPositions:
    """Return the ledgers in a topic's record. Raises OperationError if there is no such topic."""
    kept = await store.persistence.read(topic)
    if kept is None:
        raise missing_topic(topic)
    return TopicPositions(kept.value.ranges)


def _wanted(
    selection: Selection, listing: str, topic: Topic, positions: TopicPositions
) -> tuple[Sequence[Held], str | None]:
    """Return the selected ledgers, in the order of the topic, and the token that continues the listing.

    Raises: OperationError - the topic does not have the ledger to begin after, or does not have it any more.
    """
    after, held = selection.start(listing), positions.held
    if after is not None:
        position = next((index for index, each in enumerate(held) if str(each.ledger_id).encode() == after), None)
        if position is None:
            raise OperationError(
                f"topic '{show_name(topic)}' has no ledger {after.decode()} to begin after; list its ledgers with: "
                f"hedwig-admin ledger list {shlex.quote(show_name(topic))}",
                ExitCode.NOT_FOUND,
            )
        held = held[position + 1 :]
    most = selection.names_max
    if most is None or len(held) <= most:
        return held, None
    return held[:most], selection.token(listing, str(held[most - 1].ledger_id).encode())


def _entry_of(stored: StoredMessage) -> int:
    return stored.entry_id


def _message_row(output: Output, stored: StoredMessage) -> Row:
    fields = message_fields(stored.message, is_escaped=not output.has_companions)
    return {"ledger_id": stored.ledger_id, "entry_id": stored.entry_id, **fields}


async def _ledger_row(inspector: "LedgerInspector | None", held: Held) -> dict[str, Any]:
    facts: LedgerFacts | None = None
    state = "closed" if held.is_closed else "open"
    if held.messages == 0:
        state = "emptied"
    elif inspector is not None:
        try:
            facts = await inspector.facts(held.ledger_id)
        except NoSuchLedgerError:
            state = "missing"
        else:
            state = _state(held, facts)
    messages = held.messages
    if messages is None and facts is not None:
        messages = facts.last_entry_id + 1
    return {
        "ledger_id": held.ledger_id,
        "start": held.start,
        "end": held.end,
        "state": state,
        "messages": messages,
        "stored_bytes": None if facts is None else facts.stored_bytes,
        **_of_log(held.ledger_id, facts),
    }


def _state(held: Held, facts: "LedgerFacts") -> str:
    if facts.share is None or not facts.is_closed:
        return "closed" if held.is_closed else "open"
    # The log is closed. So a ledger without an end on record is closed, too, and none gets any further messages.
    is_missing = held.messages is not None and held.messages > facts.last_entry_id + 1
    return "missing" if is_missing else "closed"


def _of_log(ledger_id: int, facts: "LedgerFacts | None") -> dict[str, Any]:
    if not is_virtual(ledger_id):
        return dict.fromkeys(_OF_LOG)
    share = None if facts is None else facts.share
    return {
        "log": log_of(ledger_id),
        "slot": slot_of(ledger_id),
        "hub": None if share is None or share.hub is None else share.hub.name,
        "segments": None if share is None else share.segments,
    }
