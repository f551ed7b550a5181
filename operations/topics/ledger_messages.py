"""The messages of a topic, read from its ledgers one after the other."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hedwig.errors import CorruptEntryError, NoSuchLedgerError, OperationError, RemoteProtocolError
from hedwig.exit_codes import ExitCode
from hedwig.metadata.logs.virtual_ids import is_virtual
from hedwig.operations.deployment.ledgers import ledger_name
from hedwig.operations.topics.positions import Held, TopicPositions
from hedwig.wire import Message

if TYPE_CHECKING:
    from hedwig.hub.ledgers.inspection import LedgerInspector

__all__ = ["StoredMessage", "number_of", "read_ledger", "read_topic_messages", "start_of"]

_ENTRIES: Final = 256
_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message, and its position."""

    ledger_id: int
    entry_id: int
    message: Message


def number_of(stored: StoredMessage) -> int:
    """Return the id of a message in its topic; 0 if it has none."""
    seq_id = stored.message.seq_id
    return 0 if seq_id is None else seq_id.local


async def read_ledger(
    inspector: "LedgerInspector", location: str, ledger_id: int, first_entry_id: int
) -> AsyncGenerator[StoredMessage]:
    """Yield the messages of a ledger from an entry on, as far as they are readable.

    Raises: OperationError - there is no such ledger at `location`, or its content is damaged, or is no message;
        LedgerStoreUnavailableError.
    """
    entry_id = first_entry_id
    while True:
        try:
            payloads = await inspector.read(ledger_id, entry_id, entries_max=_ENTRIES, bytes_max=_BYTES)
        except NoSuchLedgerError as exc:
            raise _missing(ledger_id, location, exc) from exc
        except CorruptEntryError as exc:
            raise OperationError(
                f"cannot read entry {entry_id} of {ledger_name(ledger_id)} in {location}: {exc}"
            ) from exc
        if not payloads:
            return
        for payload in payloads:
            try:
                message = Message.decode(payload)
            except RemoteProtocolError as exc:
                raise OperationError(
                    f"entry {entry_id} of {ledger_name(ledger_id)} in {location} is not Hedwig's: {exc}"
                ) from exc
            yield StoredMessage(ledger_id, entry_id, message)
            entry_id += 1


async def read_topic_messages(
    inspector: "LedgerInspector", location: str, positions: TopicPositions, first_id: int
) -> AsyncGenerator[StoredMessage]:
    """Yield the messages of a topic from an id on, as far as they are readable.

    Raises: as `read_ledger`; OperationError - a closed ledger lacks messages that it has on record.
    """
    for held in positions.held:
        if held.messages == 0 or (held.end is not None and held.end < first_id):
            continue  # After all messages were consumed and deleted, the record keeps the last range, which is empty.
        start = held.start if held.start is not None else await start_of(inspector, held)
        following = max(start, first_id)
        async for stored in read_ledger(inspector, location, held.ledger_id, following - start):
            following = start + stored.entry_id
            if held.end is not None and following > held.end:
                break
            yield stored
            following += 1
        if held.end is not None and following <= held.end:
            await _check_open(inspector, location, held, following)


async def _check_open(inspector: "LedgerInspector", location: str, held: Held, following: int) -> None:
    """Raise OperationError if a ledger will never have the message `following`, which it has on record."""
    try:
        facts = await inspector.facts(held.ledger_id)
    except NoSuchLedgerError as exc:
        raise _missing(held.ledger_id, location, exc) from exc
    if facts.is_closed:
        raise OperationError(
            f"{ledger_name(held.ledger_id)} in {location} ends before message {following}, though the record says that "
            f"it has messages up to {held.end}"
        )


def _missing(ledger_id: int, location: str, error: NoSuchLedgerError) -> OperationError:
    if is_virtual(ledger_id):
        return OperationError(f"{ledger_name(ledger_id)} is not in {location}: {error}", ExitCode.NOT_FOUND)
    return OperationError(
        f"there is no ledger {ledger_id} in {location}; see that --data or --bookkeeper is that of the hub",
        ExitCode.NOT_FOUND,
    )


async def start_of(inspector: "LedgerInspector", held: Held) -> int:
    """Return the first id of a ledger of an old record, which names only the last id. Raises: NoSuchLedgerError."""
    if held.end is None:
        return 1
    return held.end - (await inspector.facts(held.ledger_id)).last_entry_id
