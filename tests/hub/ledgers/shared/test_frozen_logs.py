"""Prove that no record of logs is written while the metadata are frozen, and that all goes on afterwards."""

import asyncio
from random import Random

import pytest

from hedwig.hub.ledgers.shared.options import SharedLogOptions
from hedwig.hub.ledgers.shared.store import SharedLedgerStore
from hedwig.hub.log_sweep import LogSweep
from hedwig.metadata import NEW, MetadataStore, StoreOptions, WriteGate
from hedwig.metadata.logs.record import LogRecord
from hedwig.metadata.logs.records import KeptLogRecords
from hedwig.metadata.logs.sweep_turn import SweepTurn
from hedwig.model import HubInfo, LedgerRange, LedgerRanges, Topic
from tests.hub.ledgers.bookkeeper.support.room import BOTH, Room, run, until
from tests.hub.ledgers.shared.support.steps import NamesInSteps, Steps
from tests.hub.ledgers.support.contents import fill, payload, read_all
from tests.simulation.metadata_model import ModelWay, open_model, open_tables
from tests.simulation.simulated_hub import VirtualClock

HUB = HubInfo(host="hub", port=4080, epoch=1)
OPTIONS = SharedLogOptions(segment_bytes=300, roll_pause_s=0.0, upkeep_interval_s=0.5, sweep_interval_s=3.0)
LONG_S = 600.0


def _metadata(gate: WriteGate) -> MetadataStore:
    return open_model(ModelWay(open_tables(), Random(7), 0.001), StoreOptions(clock=VirtualClock(), gate=gate))


async def _is_alive(_: HubInfo) -> bool:
    return True


async def _stored(metadata: MetadataStore) -> list[bytes | None]:
    return [await metadata.named_records.read(name) for name in ("log-0000000000", "sweep-of-logs")]


def test_writer_upkeep_and_sweep_stand_still_in_a_freeze() -> None:
    async def work() -> None:
        gate = WriteGate(VirtualClock(), 1.0)
        metadata = _metadata(gate)
        records = KeptLogRecords(metadata.named_records, gate)
        store = await SharedLedgerStore.open(
            Room(2, BOTH).client(), records, HUB, VirtualClock(), OPTIONS, is_alive=_is_alive
        )
        sweep = LogSweep(
            store,
            records,
            metadata,
            HUB,
            VirtualClock(),
            OPTIONS.sweep_interval_s,
            lambda: gate.why_closed is None,
        )
        sweeping = asyncio.create_task(sweep.run())

        async def record() -> LogRecord:
            assert store.log is not None
            present = await records.read(store.log)
            assert present is not None
            return present

        kept, gone = await store.create(), await store.create()
        ranges = LedgerRanges(tuple(LedgerRange(ledger_id=each, start=1) for each in (kept, gone)))
        await metadata.persistence.write(Topic(b"news"), ranges, NEW)
        await fill(store, [kept, gone], range(20))
        await until(lambda: store._writer is not None and len(store._writer.record.segments) > 1)
        await asyncio.sleep(2 * OPTIONS.sweep_interval_s)
        gate.close("frozen")
        await gate.settle()
        before = await _stored(metadata)
        assert before[1] is not None, "there is a turn to renew"
        await store.delete(gone)
        await fill(store, [kept], range(20, 60))
        await asyncio.sleep(LONG_S)
        assert await _stored(metadata) == before
        assert await read_all(store, kept) == [payload(kept, entry) for entry in range(60)]
        segments = len((await record()).segments)
        gate.open()
        await asyncio.sleep(LONG_S)
        after = await _stored(metadata)
        assert all(now != then for now, then in zip(after, before, strict=True))
        present = await record()
        assert len(present.segments) > segments or present.dropped
        assert await read_all(store, kept) == [payload(kept, entry) for entry in range(60)]
        sweeping.cancel()
        await store.aclose()

    run(work)


@pytest.mark.parametrize("is_of_turn", [False, True])
def test_a_freeze_waits_for_a_write_under_way(is_of_turn: bool) -> None:
    async def work() -> None:
        gate = WriteGate(VirtualClock(), 1.0)
        metadata = _metadata(gate)
        records = KeptLogRecords(metadata.named_records)
        first = await records.create(HUB)
        steps = Steps(1 if is_of_turn else 0)
        names = NamesInSteps(metadata.named_records, steps.next)
        if is_of_turn:
            writing = asyncio.create_task(SweepTurn(names, HUB, gate).take())
        else:
            writing = asyncio.create_task(KeptLogRecords(names, gate).replace(first, first.changed(listed=(1, 2))))
        await steps.stands.wait()
        gate.close("frozen")
        settling = asyncio.create_task(gate.settle())
        await asyncio.sleep(0.5)
        assert not settling.done()
        steps.may_go_on.set()
        assert await writing
        await settling

    run(work)
