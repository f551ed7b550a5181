"""Records of logs that go to another store, with the owners and ranges that name them. The ledgers stay where they are.

A log is written by one incarnation of a hub, so records of one number and one hub are states of one log. If a store has
one, that is the truth: a state from elsewhere may be older, and name ledgers that were deleted since. Records of one
number and of different hubs are of two deployments, whose logs and ledgers cannot be in one store.
"""

from collections.abc import Iterable, Sequence

from hedwig.errors import HedwigError
from hedwig.metadata.contract.named_records import NamedRecords
from hedwig.metadata.logs.format import raise_format
from hedwig.metadata.logs.record import LogRecord
from hedwig.metadata.logs.records import KeptLogRecords
from hedwig.metadata.store import MetadataStore

__all__ = ["LogConflictError", "bring_logs", "has_logs", "logs_to_bring", "read_logs"]


class LogConflictError(HedwigError):
    """The store has logs of another deployment under the same numbers, or with the same ledgers."""


async def has_logs(records: NamedRecords) -> bool:
    """Say whether the store has shared logs. Raises: MetadataError."""
    return await anext(KeptLogRecords(records).numbers(), None) is not None


async def read_logs(records: NamedRecords, numbers: Iterable[int]) -> list[LogRecord]:
    """Return the records of these logs that there are, in the order of their numbers. Raises: MetadataError."""
    logs = KeptLogRecords(records)
    return [record for number in sorted(numbers) if (record := await logs.read(number)) is not None]


async def logs_to_bring(records: NamedRecords, logs: Sequence[LogRecord]) -> list[LogRecord]:
    """Return those of `logs`, which come from another store, that this store lacks.

    Raises: LogConflictError - it must not have them; MetadataError.
    """
    kept = KeptLogRecords(records)
    lacking = {each.number: each for each in logs}
    log_of = {ledger: each.number for each in logs for ledger in each.ledgers}
    async for number in kept.numbers():
        present = await kept.read(number)
        if present is None:
            continue
        wanted = lacking.pop(number, None)
        if wanted is not None and not wanted.hub.is_same(present.hub):
            raise _conflict(f"log {number} is {_of(wanted)}, and in the store {_of(present)}")
        for ledger in sorted(present.ledgers):
            if log_of.get(ledger, number) != number:
                raise _conflict(f"ledger {ledger} is in log {log_of[ledger]}, and in the store in log {number}")
    return list(lacking.values())


async def bring_logs(store: MetadataStore, logs: Sequence[LogRecord]) -> int:
    """Make the records of `logs` that the store lacks, and return how many. Ranges that name them may follow.

    The caller holds the sweep of logs, which would delete the ledgers of a log that no range names yet.

    Raises: LogConflictError - none was made, or other processes made records meanwhile; MetadataError - repeat it.
    """
    kept = KeptLogRecords(store.named_records)
    lacking = await logs_to_bring(store.named_records, logs)
    for each in lacking:
        # As the next change, so that no two states of a log in one store have the same bytes.
        if not await kept.bring(each.changed()):
            await logs_to_bring(store.named_records, [each])
    await raise_format(store)
    return len(lacking)


def _of(log: LogRecord) -> str:
    return f"that of hub {log.hub.name} of epoch {log.hub.epoch}"


def _conflict(what: str) -> LogConflictError:
    return LogConflictError(
        f"{what}: they are the logs of two deployments, which cannot be in one store; take the store that they come "
        "from, or one that has never been used"
    )
