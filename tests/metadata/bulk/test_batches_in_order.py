"""Prove that batches run side by side, within a bound, and that the record of finished batches never has a gap."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

import pytest

from hedwig.errors import MetadataUnavailableError
from hedwig.metadata.bulk.loading import load_batches


class Run:
    """A load whose batches end when the test says so."""

    def __init__(self, batches: int, in_flight_max: int = 4, fail_to_record: int | None = None) -> None:
        self.gates = [asyncio.get_running_loop().create_future() for _ in range(batches)]
        self.begun: list[int] = []
        self.recorded: list[int] = []
        self.read = 0
        self._fail_to_record = fail_to_record
        self.task = asyncio.create_task(
            load_batches(self._batches(), self._carry_out, self._record, in_flight_max=in_flight_max)
        )

    async def settle(self) -> None:
        """Let the load do all that it can do without the test."""
        for _ in range(50):
            await asyncio.sleep(0)

    async def _batches(self) -> AsyncIterator[int]:
        for number in range(len(self.gates)):
            self.read += 1
            yield number

    async def _carry_out(self, batch: int) -> str:
        self.begun.append(batch)
        await self.gates[batch]
        return f"result {batch}"

    def _record(self, batch: int, result: str) -> None:
        assert result == f"result {batch}"
        if batch == self._fail_to_record:
            raise OSError("no room")
        self.recorded.append(batch)


async def test_no_more_batches_begin_than_may_be_under_way() -> None:
    run = Run(20)
    await run.settle()
    assert run.begun == [0, 1, 2, 3]
    assert run.read <= 5
    run.gates[0].set_result(None)
    await run.settle()
    assert (run.begun, run.recorded) == ([0, 1, 2, 3, 4], [0])
    for gate in run.gates[1:]:
        gate.set_result(None)
    await run.task
    assert run.recorded == list(range(20))


async def test_results_wait_for_those_before_them() -> None:
    run = Run(4)
    await run.settle()
    for number in (3, 1, 2):
        run.gates[number].set_result(None)
        await run.settle()
        assert run.recorded == []
    run.gates[0].set_result(None)
    await run.task
    assert run.recorded == [0, 1, 2, 3]


async def test_results_are_recorded_while_input_is_awaited() -> None:
    more: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    recorded: list[int] = []

    async def batches() -> AsyncIterator[int]:
        yield 1
        await more
        yield 2

    async def carry_out(batch: int) -> int:
        return batch

    task = asyncio.create_task(load_batches(batches(), carry_out, lambda batch, _: recorded.append(batch)))
    for _ in range(50):
        await asyncio.sleep(0)
    assert recorded == [1]
    more.set_result(None)
    await task
    assert recorded == [1, 2]


async def test_cancelled_load_records_what_was_under_way() -> None:
    run = Run(20)
    await run.settle()
    run.task.cancel()
    await run.settle()
    assert not run.task.done()
    for gate in run.gates:
        gate.set_result(None)
    with pytest.raises(asyncio.CancelledError):
        await run.task
    assert run.recorded == run.begun == [0, 1, 2, 3]


async def test_second_cancellation_gives_up_waiting() -> None:
    run = Run(20)
    await run.settle()
    run.gates[0].set_result(None)
    await run.settle()
    run.task.cancel()
    await run.settle()
    run.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run.task
    assert run.recorded == [0]
    assert all(gate.cancelled() for gate in run.gates[1:5])


async def test_batch_that_fails_stops_the_load_and_hides_those_behind_it() -> None:
    run = Run(20)
    await run.settle()
    run.gates[1].set_exception(MetadataUnavailableError("gone"))
    run.gates[2].set_exception(MetadataUnavailableError("gone too"))
    run.gates[3].set_result(None)
    await run.settle()
    run.gates[0].set_result(None)
    for gate in run.gates[4:]:
        gate.set_result(None)
    with pytest.raises(MetadataUnavailableError, match=r"^gone$"):
        await run.task
    assert run.recorded == [0]


async def test_nothing_is_recorded_behind_what_could_not_be() -> None:
    run = Run(20, fail_to_record=1)
    for gate in run.gates:
        gate.set_result(None)
    with pytest.raises(OSError, match="no room"):
        await run.task
    assert run.recorded == [0]


async def test_input_that_fails_stops_the_load_after_what_was_read() -> None:
    recorded: list[int] = []

    async def batches() -> AsyncIterator[int]:
        yield 1
        yield 2
        raise OSError("unreadable")

    async def carry_out(batch: int) -> int:
        await asyncio.sleep(0)
        return batch

    with pytest.raises(OSError, match="unreadable"):
        await load_batches(batches(), carry_out, lambda batch, _: recorded.append(batch))
    assert recorded == [1, 2]


async def test_input_that_is_being_read_when_a_batch_fails_can_be_closed_at_once() -> None:
    """Otherwise closing the input fails because it is still running, and nobody learns that the batch failed."""

    async def endless() -> AsyncGenerator[int, None]:
        yield 1
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(10):
                await asyncio.sleep(0)  # Like a store that has to stop reading.

    async def fail(_: int) -> None:
        await asyncio.sleep(0)
        raise MetadataUnavailableError("gone")

    with pytest.raises(MetadataUnavailableError, match="gone"):
        async with aclosing(endless()) as batches:
            await load_batches(batches, fail, lambda *_: None)
