"""Checks that a run leaves nothing behind: turns, pointers, acquisitions, tasks, writers, bytes."""

import asyncio
import sqlite3
from collections.abc import Collection, Iterator
from typing import Final

from hedwig.hub.incarnation import Incarnation
from hedwig.hub.logs.ledger_ranges import holds_messages
from hedwig.metadata.logs.record import LogRecord
from hedwig.metadata.logs.virtual_ids import is_virtual, log_of
from hedwig.metadata.records.packing import unpack_ledger_ranges
from tests.hub.ledgers.bookkeeper.support.model import ModelMetadata
from tests.simulation.simulated_hub import SimulatedHub

__all__ = ["left_in_hub", "left_in_tables", "left_tasks", "lost_ledgers"]

_NOTE_BYTES: Final = 100
"""What `RecentMessages` still counts for each message that a tail has dropped, until the message is the oldest."""


def left_in_hub(hub: SimulatedHub) -> Iterator[str]:
    """Name what a hub still holds although it was closed."""
    for what, left in _held(hub, hub.incarnation):
        if left:
            yield f"{hub.host} holds {what}: {left}"
    for number, (store, cluster) in enumerate(zip(hub.bookies, hub.clusters, strict=True)):
        if store._writers:
            yield f"{hub.host} holds writers of store {number}: {sorted(store._writers)}"
        if cluster.pending_bytes:
            yield f"{hub.host} counts {cluster.pending_bytes} bytes that store {number} has sent"


def _held(hub: SimulatedHub, incarnation: Incarnation) -> Iterator[tuple[str, object]]:
    subscribing, requests, topics = incarnation.subscribing, incarnation.requests, incarnation.topics
    yield "turns", list(subscribing._turns._waiting)
    yield (
        "starts",
        [*subscribing.starts._pointers, *subscribing.starts._watches, *subscribing.starts._deleting._waiting],
    )
    yield "parked subscriptions", list(map(str, subscribing._parked))
    yield "pointers", subscribing.pointers.waiting
    yield "requests for subscriptions", list(requests._under_way)
    yield "bytes of requests", requests.unanswered_bytes
    yield "requests", len(requests.tasks)
    yield "acquisitions", topics.acquiring + topics._running
    yield "releases", list(topics._releases)
    yield "topics", len(topics)
    yield "bytes of tails", incarnation.tails.bytes - _NOTE_BYTES * len(incarnation.tails._order)
    yield "bytes of frames", hub.frames.bytes
    yield "unsent bytes", hub.unsent.bytes + hub.unsent.answer_bytes + len(hub.unsent._deaf)
    yield "channels", len(hub.channels)
    yield "writes", hub._gate.running


def left_in_tables(tables: sqlite3.Connection, late_owners: Collection[bytes]) -> Iterator[str]:
    """Name owner records and open ledgers in the metadata although every topic was released.

    Late owner records do not count: a hub that received no answer to its claim does not release the topic. The next hub
    that a client asks for the topic finds that the owner has ended, and takes the topic over.
    """
    for topic, version in tables.execute("SELECT topic, version FROM ownership ORDER BY topic").fetchall():
        if version not in late_owners:
            yield f"the owner record of {topic!r}"
    for topic, record in tables.execute("SELECT topic, record FROM persistence ORDER BY topic").fetchall():
        for each in unpack_ledger_ranges(record).ranges:
            if each.end is None:
                yield f"ledger {each.ledger_id} of {topic!r}, which is open"


def lost_ledgers(tables: sqlite3.Connection, ledgers: ModelMetadata, *, is_whole: bool) -> Iterator[str]:
    """Name the ledgers that a topic has and that do not exist; if `is_whole`, also those that no topic has."""
    logs = _logs(tables)
    named = {ledger for log in logs.values() for ledger in log.ledgers}
    for number, log in logs.items():
        for ledger_id in sorted(ledger for each in log.segments for ledger in each.ledgers):
            if ledger_id not in ledgers.records:
                yield f"ledger {ledger_id} of log {number}, which was deleted"
    for topic, record in tables.execute("SELECT topic, record FROM persistence ORDER BY topic").fetchall():
        for each in unpack_ledger_ranges(record).ranges:
            if is_virtual(each.ledger_id):
                if holds_messages(each) and log_of(each.ledger_id) not in logs:
                    yield f"a range of {topic!r} in log {log_of(each.ledger_id)}, which has no record"
                continue
            named.add(each.ledger_id)
            if holds_messages(each) and each.ledger_id not in ledgers.records:
                yield f"a range of {topic!r} in ledger {each.ledger_id}, which was deleted"
    for ledger_id in sorted(ledgers.records.keys() - named) if is_whole else ():
        # A log that cannot delete a ledger, or cannot tell whether it made one, leaves it to the sweep of ledgers.
        if "log" not in ledgers.current(ledger_id).custom:
            yield f"ledger {ledger_id}, which no topic has"


def _logs(tables: sqlite3.Connection) -> dict[int, LogRecord]:
    if not tables.execute("SELECT 1 FROM sqlite_master WHERE name = 'named_records'").fetchall():
        return {}
    stored = tables.execute("SELECT value FROM named_records WHERE name LIKE 'log-%'").fetchall()
    return {log.number: log for (value,) in stored for log in (LogRecord.decode(value),)}


def left_tasks() -> Iterator[str]:
    """Name the tasks that still run although everything was closed."""
    for task in asyncio.all_tasks():
        if task is not asyncio.current_task():
            name = getattr(task.get_coro(), "__qualname__", "of no name")
            yield f"a task: {name}"
