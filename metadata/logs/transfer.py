"""Records of logs that go to another store, with the owners and ranges that name them. The ledgers stay where they are.

A log is written by one incarnation of a hub, so records of one number and one hub are states of one log. The later one
counts: an older one may name ledgers that were deleted since. Records of one number and of different hubs are of two
deployments, whose logs and ledgers cannot be in one store.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

from hedwig.errors import HedwigError, MetadataUnavailableError
from hedwig.metadata.contract.named_records import NamedRecords
from hedwig.metadata.logs.format import raise_format
from hedwig.metadata.logs.record import LogRecord
from hedwig.metadata.logs.records import KeptLogRecords
from hedwig.metadata.logs.sweep_turn import sweep_held
from hedwig.metadata.store import MetadataStore

__all__ = [
    "LogConflictError",
    "bring_logs",
    "check_target",
    "has_logs",
    "logs_brought",
    "logs_to_bring",
    "move_logs",
    "read_logs",
]

_AT_ONCE: Final = 64
_ROUNDS: Final = 3


class LogConflictError(HedwigError):
    """The store has logs of another deployment under the same numbers, or with the same ledgers."""


async def has_logs(records: NamedRecords) -> bool:
    """Say whether the store has shared logs. Raises: MetadataError."""
    return await anext(KeptLogRecords(records).numbers(), None) is not None


async def read_logs(records: NamedRecords, numbers: Iterable[int]) -> list[LogRecord]:
    """Return the records of these logs that there are, in the order of their numbers. Raises: MetadataError."""
    logs = KeptLogRecords(records)
    wanted = sorted(numbers)
    read: list[LogRecord | None] = []
    for start in range(0, len(wanted), _AT_ONCE):
        read += await asyncio.gather(*map(logs.read, wanted[start : start + _AT_ONCE]))
    return [each for each in read if each is not None]


async def logs_to_bring(records: NamedRecords, logs: Iterable[LogRecord]) -> list[LogRecord]:
    """Return those of `logs`, which come from another store, that this store lacks or has in an older state.

    Raises: LogConflictError - it must not have them; MetadataError.
    """
    return [wanted for wanted, _ in await _to_bring(records, logs)]


@asynccontextmanager
async def logs_brought(
    store: MetadataStore,
    logs: Sequence[LogRecord],
    carry_out: Callable[[Callable[[], Awaitable[int]]], Awaitable[int]],
) -> AsyncIterator[int]:
    """Write `logs`, as `bring_logs`, and hold the sweep for the body, which writes the ranges that name them.

    Yield how many logs were written. `carry_out` is that of a FreezeWatch.

    Raises: as `bring_logs`, `sweep_held` and `carry_out`; LogConflictError - nothing was written at all.
    """
    await logs_to_bring(store.named_records, logs)
    async with sweep_held(store.named_records):
        yield await carry_out(lambda: bring_logs(store, logs))


async def bring_logs(store: MetadataStore, logs: Sequence[LogRecord]) -> int:
    """Write the records of `logs` that the store lacks, or has in an older state, and return how many.

    Ranges that name the logs may follow. The caller holds the sweep of logs, which would delete the ledgers of a log
    that no range names yet.

    Raises: LogConflictError - none was written, unless another process wrote records meanwhile; MetadataError.
    """
    kept = KeptLogRecords(store.named_records)
    written, left = 0, list(logs)
    while left:
        again = []
        for wanted, present in await _to_bring(store.named_records, left):
            record = wanted.imported(over=present)
            if await (kept.bring(record) if present is None else kept.replace(present, record)):
                written += 1
            else:
                again.append(wanted)  # A hub, or another import, has written it meanwhile.
        left = again
    await raise_format(store)
    return written


async def _to_bring(records: NamedRecords, logs: Iterable[LogRecord]) -> list[tuple[LogRecord, LogRecord | None]]:
    """Return the logs to write, each with the record that it replaces."""
    wanted = {each.number: each for each in logs}
    log_of = {ledger: each.number for each in wanted.values() for ledger in each.ledgers}
    present = await _all_logs(records)
    for number, each in present.items():
        if number in wanted and not wanted[number].hub.is_same(each.hub):
            raise _conflict(f"log {number} is {_of(wanted[number])}, and in the store {_of(each)}")
        for ledger in sorted(each.ledgers):
            if log_of.get(ledger, number) != number:
                raise _conflict(f"ledger {ledger} is in log {log_of[ledger]}, and in the store in log {number}")
    pairs = [(each, present.get(number)) for number, each in wanted.items()]
    return [(each, there) for each, there in pairs if there is None or there.age < each.age]


async def check_target(source: NamedRecords, target: NamedRecords) -> None:
    """Check that a migration may write the logs of `source` over those of `target`.

    Raises: LogConflictError - the target has logs that are not left from an earlier migration; MetadataError.
    """
    await _check_target(await _all_logs(source), await KeptLogRecords(source).count(), target)


async def move_logs(source: MetadataStore, target: MetadataStore) -> int:
    """Make the logs of `target` equal to those of `source`, find them equal, and return how many there are.

    No hub writes to either store meanwhile.

    Raises: LogConflictError - the target has other logs; MetadataUnavailableError - somebody writes to a store;
        MetadataError.
    """
    to = KeptLogRecords(target.named_records)
    for _ in range(_ROUNDS):
        logs, count = await _all_logs(source.named_records), await KeptLogRecords(source.named_records).count()
        present = await _check_target(logs, count, target.named_records)
        if logs:
            await raise_format(target)
        await to.count_at_least(count)
        if logs == present:
            return len(logs)
        for each in present.values():
            if each.number not in logs:
                await to.delete(each)
        for each in logs.values():
            at_target = present.get(each.number)
            if at_target is None:
                await to.bring(each)
            elif at_target != each:
                await to.replace(at_target, each)
    raise MetadataUnavailableError("something still changes the records of shared logs: stop the hubs, and try again")


async def _all_logs(records: NamedRecords) -> dict[int, LogRecord]:
    numbers = [number async for number in KeptLogRecords(records).numbers()]
    return {each.number: each for each in await read_logs(records, numbers)}


async def _check_target(logs: Mapping[int, LogRecord], count: int, target: NamedRecords) -> dict[int, LogRecord]:
    """Return the logs of the target. Raises: LogConflictError; MetadataError."""
    present = await _all_logs(target)
    for number, each in present.items():
        moved = logs.get(number)
        if moved is not None and not moved.hub.is_same(each.hub):
            raise _conflict(f"log {number} is {_of(moved)}, and in the target {_of(each)}")
        if number >= count:
            raise _conflict(f"the target has log {number}, and the source has given only {count} numbers")
    return present


def _of(log: LogRecord) -> str:
    return f"that of hub {log.hub.name} of epoch {log.hub.epoch}"


def _conflict(what: str) -> LogConflictError:
    return LogConflictError(
        f"{what}: they are the logs of two deployments, which cannot be in one store; take the store that they come "
        "from, or one that has never been used"
    )
