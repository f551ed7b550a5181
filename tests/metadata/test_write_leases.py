"""Prove that no write begins, and none is repeated, once its lease has run out."""

import asyncio
import math
from collections.abc import Callable, Sequence
from random import Random
from typing import cast

import pytest

from hedwig.clock import Deadline
from hedwig.errors import MetadataError, MetadataUnavailableError, UncertainStateError
from hedwig.metadata import Delete, Operation, Read, RecordKey, StoreOptions, Write, open_metadata
from hedwig.metadata.calls.attempts import Attempts, Refusal, Verdict
from hedwig.metadata.contract.table import TableOver, VersionedTable
from hedwig.metadata.contract.write_gate import WriteGate
from hedwig.metadata.contract.write_lease import LeasedTable
from hedwig.model import HubInfo, Topic
from hedwig.outcomes import NotAppliedError, OutcomeUnknownError
from hedwig.versions import ANY, NEW, Version
from tests.metadata.calls.test_attempts import FakeClock

TOPIC = Topic(b"news")
HUB = HubInfo(host="hub.example", port=4080)
NO_LEASE = "cannot prove"


class Lease:
    """A lease that always has `left_s` left."""

    def __init__(self) -> None:
        self.left_s = math.inf

    def __call__(self) -> float:
        return self.left_s


async def test_writes_are_refused_and_reads_go_on() -> None:
    lease = Lease()
    async with await open_metadata("sqlite://", StoreOptions(gather=True)) as store:
        leased = store.leased(lease).ownership
        version = await leased.write(TOPIC, HUB, NEW)
        lease.left_s = 0.0
        for refused in (leased.write(TOPIC, HUB, version), leased.delete(TOPIC, version)):
            with pytest.raises(MetadataUnavailableError, match=NO_LEASE) as failure:
                await refused
            assert failure.value.happened == "no"
        key = RecordKey(TOPIC)
        operations: list[Operation[HubInfo]] = [Read(key), Write(key, HUB, version), Read(key), Delete(key, ANY)]
        outcomes = await leased.apply(operations)
        assert [type(each.error) for each in outcomes] == [
            type(None), MetadataUnavailableError, type(None), MetadataUnavailableError
        ]  # fmt: skip
        record = await leased.read(TOPIC)
        assert record is not None
        assert outcomes[0].record == outcomes[2].record == record
        assert record.version == version
        # The lease stops no writes of other callers.
        await store.ownership.delete(TOPIC, version)
        assert store.conflicts == 0


async def test_a_write_that_waited_begins_under_the_lease_of_that_moment() -> None:
    """The caller asked in time. The write waits at the gate until the lease has run out."""
    clock, lease = FakeClock(), Lease()
    gate = WriteGate(clock, 30.0)
    async with await open_metadata("sqlite://", StoreOptions(gather=True, gate=gate)) as store:
        gate.hold()
        writing = asyncio.create_task(store.leased(lease).ownership.write(TOPIC, HUB, NEW))
        await store.ownership.read(TOPIC)
        lease.left_s = 0.0
        gate.open()
        with pytest.raises(MetadataUnavailableError, match=NO_LEASE):
            await writing
        assert await store.ownership.read(TOPIC) is None


class AttemptingTable(TableOver[HubInfo]):
    """A VersionedTable whose deletes are attempts with these outcomes, one after the other."""

    def __init__(self, outcomes: Sequence[Callable[[], None]]) -> None:
        super().__init__(cast(VersionedTable[HubInfo], None))  # There is no table below.
        self.clock = FakeClock()
        self.given_s: list[float] = []
        """The time that each attempt was given."""
        self._outcomes = list(outcomes)

    async def delete(self, key: RecordKey, version: Version, deadline: Deadline | None = None) -> None:
        options = StoreOptions(clock=self.clock, random=Random(1), operation_timeout_s=30.0)

        async def attempt(deadline: Deadline) -> Refusal[str] | None:
            self.given_s.append(deadline.remaining_s())
            self._outcomes[len(self.given_s) - 1]()
            return None

        attempts = Attempts(options, "delete something", deadline)
        await asyncio.gather(attempts.write(attempt, lambda _: Verdict.UNCERTAIN))


async def attempting(lease: Lease, *outcomes: Callable[[], None]) -> AttemptingTable:
    """Start a delete under `lease`, in a task of its own, as drivers do."""
    table = AttemptingTable(outcomes)
    await LeasedTable(table, lease).delete(RecordKey(TOPIC), ANY)
    return table


def lost() -> None:
    raise OutcomeUnknownError("connection reset")


def not_applied() -> None:
    raise NotAppliedError("not connected")


@pytest.mark.parametrize(("outcome", "error"), [(lost, UncertainStateError), (not_applied, MetadataUnavailableError)])
async def test_a_write_is_not_repeated_once_the_lease_has_run_out(
    outcome: Callable[[], None], error: type[MetadataError]
) -> None:
    lease = Lease()

    def run_out() -> None:
        lease.left_s = 0.0
        outcome()

    with pytest.raises(error, match=NO_LEASE) as failure:
        await attempting(lease, outcome, run_out)
    assert type(failure.value) is error


async def test_an_attempt_has_no_longer_than_the_lease_and_the_operation_goes_on_with_it() -> None:
    lease = Lease()

    def renew() -> None:
        lease.left_s = 7.0
        not_applied()

    lease.left_s = 5.0
    table = await attempting(lease, renew, not_applied, lambda: None)
    assert table.given_s == [5.0, 7.0, 7.0]
