"""Prove that metadata workloads show the known delays, stalls, refusals and failures of their store."""

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from hedwig.benchmarks.load.load import Load
from hedwig.benchmarks.load.recording import Summary
from hedwig.benchmarks.load.workloads import Among, Choice, Operation, Workload
from hedwig.benchmarks.runs.results import Measurement
from hedwig.benchmarks.stores.client import probe
from hedwig.benchmarks.stores.dataset import DATA, PREDECESSOR, SUCCESSOR, Dataset, FillTask, wide_count
from hedwig.benchmarks.stores.fill import fill
from hedwig.benchmarks.stores.target import MetadataTarget
from hedwig.metadata.contract.operations import RecordKey
from hedwig.model import LedgerRanges
from hedwig.versions import Version, Versioned
from tests.benchmarks.support.known_store import KnownStore
from tests.support.virtual_time import VirtualTime

MS = 1_000
READ_S, WRITE_S = 0.005, 0.010
ONE_PER_CENT = 0.01
TOPICS, WIDE = 200, 30
DATASET = Dataset(topics=TOPICS, subscribers=2, drawn=100, first_claim=0, claims=TOPICS // 2, token="t")


def _workload(operation: Operation, **changes: Any) -> Workload:
    given: dict[str, Any] = {
        "name": operation.value,
        "mix": {operation.value: 1.0},
        "topics": TOPICS,
        "subscribers": 2,
        "in_flight": 4,
        "seconds": 10.0,
        "warmup_s": 2.0,
        "choice": Choice.UNIFORM,
    }
    return Workload(**given | changes)


def _measured(
    workload: Workload,
    store: KnownStore,
    *,
    dataset: Dataset = DATASET,
    before: Callable[[], None] = lambda: None,
    number: int = 1,
) -> Summary:
    clock = VirtualTime()

    async def run() -> Summary:
        _, why = await fill(store, FillTask(first=0, last=TOPICS, subscribers=2, wide=[WIDE]), now_ns=clock.now_ns)
        assert why is None
        before()
        target = MetadataTarget(workload, store, dataset, round_number=number)
        load = Load(workload, target, round_number=number, now_ns=clock.now_ns)
        await target.open(load)
        start_ns = clock.now_ns() + 1_000_000_000
        store.delays.began = start_ns / 1e9
        recording = await load.run(start_ns)
        await target.close()
        await target.tidy()
        assert len(asyncio.all_tasks()) == 1, "tasks are left"
        return recording.summarize()

    return clock.run(run())


@pytest.mark.parametrize(
    ("operation", "changes", "delay_s"),
    [
        (Operation.READ_OWNER, {"among": Among.OWNED}, READ_S),
        (Operation.CLAIM, {"among": Among.OWNED, "in_flight": 1}, READ_S + WRITE_S),
        (Operation.CLAIM, {"among": Among.UNOWNED, "operations": 100}, READ_S + WRITE_S),
        (Operation.CONSUME, {"in_flight": 1}, WRITE_S),
        (Operation.CREATE_SUBSCRIPTION, {"operations": 500}, WRITE_S),
        (Operation.DELETE_SUBSCRIPTION, {"operations": 500}, WRITE_S),
        (Operation.READ_SUBSCRIPTIONS, {"among": Among.WIDE, "wide": WIDE, "seconds": 3.0}, READ_S),
        (Operation.RECREATE, {"in_flight": 1}, 2 * WRITE_S),
    ],
)
def test_known_delays_come_out(operation: Operation, changes: dict[str, Any], delay_s: float) -> None:
    workload = _workload(operation, **changes)
    store = KnownStore(READ_S, WRITE_S)
    summary = _measured(workload, store)
    assert (summary.errors, summary.refusals) == ({}, 0)
    assert summary.count / summary.seconds == pytest.approx(workload.in_flight / delay_s, rel=2 * ONE_PER_CENT)
    assert summary.service.percentile_us(50) == pytest.approx(delay_s * 1000 * MS, rel=ONE_PER_CENT)
    assert summary.service.max_us == pytest.approx(delay_s * 1000 * MS, rel=ONE_PER_CENT)
    assert len(store.subscribers.held) == 2 * TOPICS + wide_count(WIDE) * WIDE, "it must hold what it did before"
    assert len(store.ranges.held) == TOPICS + wide_count(WIDE)


@pytest.mark.parametrize(
    ("operation", "changes"),
    [
        (Operation.READ_OWNER, {"among": Among.OWNED}),
        (Operation.CONSUME, {}),
        (Operation.RECREATE, {}),
        (Operation.CREATE_SUBSCRIPTION, {}),
        (Operation.DELETE_SUBSCRIPTION, {}),
    ],
)
def test_a_round_goes_to_other_keys_than_the_one_before(operation: Operation, changes: dict[str, Any]) -> None:
    """This also holds for keys whose versions are read before, and for those made to be deleted."""
    workload = _workload(operation, in_flight=1, operations=40, **changes)

    def asked(number: int) -> list[bytes]:
        topics: list[bytes] = []

        def note(key: RecordKey) -> bool:
            topics.append(key.topic)
            return False

        store = KnownStore(READ_S, WRITE_S, fails=note)
        summary = _measured(workload, store, dataset=replace(DATASET, drawn=40), before=topics.clear, number=number)
        assert not summary.errors
        return topics

    first = asked(1)
    assert first == asked(1)
    assert len(set(first) - set(asked(2))) > 5


def test_a_page_that_ends_early_goes_on_from_the_beginning() -> None:
    summary = _measured(_workload(Operation.LIST_PAGE, in_flight=1), KnownStore(READ_S, WRITE_S))
    assert not summary.errors
    # All topics fit into a page, so two listings are needed, wherever the first one begins.
    assert summary.service.percentile_us(50) == pytest.approx(2 * READ_S * 1000 * MS, rel=ONE_PER_CENT)


def test_a_stall_shows_in_the_response_times_of_all_that_waited() -> None:
    """At 100/s, a second without answers delays a tenth of the operations of ten seconds, evenly up to a second."""
    workload = _workload(Operation.READ_OWNER, among=Among.OWNED, rate_per_s=100.0, in_flight=10_000, warmup_s=0.0)
    response = _measured(workload, KnownStore(0.010, 0.010, stalls=[(5.0, 6.0)])).response
    assert response.count == 1000
    assert response.percentile_us(50) == pytest.approx(10 * MS, abs=1.5 * MS)
    assert response.percentile_us(89) == pytest.approx(10 * MS, abs=1.5 * MS)
    assert response.percentile_us(95) == pytest.approx(500 * MS, abs=20 * MS)
    assert response.percentile_us(99) == pytest.approx(900 * MS, abs=20 * MS)
    assert response.max_us == pytest.approx(1000 * MS, abs=20 * MS)


def test_who_could_not_begin_in_time_is_not_forgiven() -> None:
    """With one in flight, a stall of a second is one slow operation of the store, and delays a hundred others."""
    workload = _workload(Operation.READ_OWNER, among=Among.OWNED, rate_per_s=100.0, in_flight=1, warmup_s=0.0)
    summary = _measured(workload, KnownStore(READ_S, WRITE_S, stalls=[(5.0, 6.0)]))
    assert summary.response.count == 1000
    assert summary.service.percentile_us(99.8) == pytest.approx(5 * MS, rel=ONE_PER_CENT)
    assert summary.service.max_us == pytest.approx(1000 * MS, rel=0.02)
    assert summary.response.percentile_us(90) == pytest.approx(500 * MS, abs=20 * MS)


def test_who_waits_for_the_write_before_it_is_counted_from_when_it_should_have_begun() -> None:
    """All consume one subscription, at the highest rate that it takes. After a stall of a second all are that late."""
    workload = _workload(Operation.CONSUME, rate_per_s=100.0, in_flight=1000, warmup_s=0.0, topics=2, subscribers=1)
    dataset = replace(DATASET, drawn=1, subscribers=1)
    store = KnownStore(READ_S, 0.010, stalls=[(5.0, 6.0)])
    summary = _measured(workload, store, dataset=dataset)
    assert not summary.errors
    assert summary.refusals == 0
    assert summary.response.count == 1000
    assert summary.response.percentile_us(40) <= 30 * MS
    assert summary.response.percentile_us(75) == pytest.approx(1000 * MS, abs=50 * MS)
    assert summary.service.percentile_us(75) == pytest.approx(1000 * MS, abs=50 * MS), "its turn is part of the service"


def test_claims_of_the_latest_are_new_topics_and_reads_go_to_the_newest_first() -> None:
    """One operation in ten is a claim. Reads go to the claimed topics far more often than their share."""
    asked: list[RecordKey] = []

    def note(key: RecordKey) -> bool:
        asked.append(key)
        return False

    store = KnownStore(READ_S, WRITE_S, fails=note)
    workload = replace(
        _workload(Operation.READ_OWNER, among=Among.LATEST, choice=Choice.ZIPF, in_flight=1, operations=300),
        mix={Operation.READ_OWNER.value: 0.9, Operation.CLAIM.value: 0.1},
    )
    summary = _measured(workload, store, before=asked.clear)
    assert not summary.errors
    claimed = [key for key, record in store.owners.held.items() if record.value == SUCCESSOR]
    kinds = list(map(workload.operation_chooser(), range(300)))
    assert len(claimed) == kinds.count(Operation.CLAIM), "each claims another topic"
    assert {key.topic for key in claimed} <= {DATASET.topic(2 * number + 1) for number in range(TOPICS // 2)}
    # A claim itself is a read and a write.
    of_new = sum(key in claimed for key in asked) - 2 * len(claimed)
    reads = len(asked) - 2 * len(claimed)
    assert reads == kinds.count(Operation.READ_OWNER)
    assert 0.4 < of_new / reads < 0.9, "older ones are read too"


def test_who_claims_more_of_the_latest_than_there_are_is_told() -> None:
    workload = _workload(Operation.CLAIM, among=Among.LATEST, choice=Choice.ZIPF, operations=20)
    summary = _measured(workload, KnownStore(READ_S, WRITE_S), dataset=replace(DATASET, claims=5))
    assert summary.count == 5
    assert summary.errors == {"no topic without an owner is left": 15}


@pytest.mark.parametrize("writers", [1, pytest.param(4, marks=pytest.mark.full), 64])
def test_claims_of_one_topic_are_refused_as_often_as_they_meet(writers: int) -> None:
    """The writers run in step. One of those that have read wins; the others retry at the version that it wrote."""
    keys = 64 // writers
    workload = _workload(Operation.CLAIM, among=Among.CONTENDED, keys=keys, in_flight=64)
    store = KnownStore(READ_S, WRITE_S)
    summary = _measured(workload, store)
    assert not summary.errors
    done = sum(second.finished for second in summary.series.values())
    filled = TOPICS // 2
    assert store.owners.writes == done + filled, "an update got lost, or was counted twice"
    claimed = [key for key, stored in store.owners.held.items() if stored.value == SUCCESSOR]
    assert len(claimed) == keys
    # A refused writer repeats only its write. So a writer between its read and its write meets others once or twice
    # more.
    assert summary.refusals / summary.count == pytest.approx(writers - 1, rel=0.5)


def test_failures_show_by_their_names_and_are_no_work_done() -> None:
    store = KnownStore(READ_S, WRITE_S)
    workload = _workload(Operation.READ_OWNER, among=Among.OWNED)

    def break_some() -> None:
        store.delays.fails = lambda key: int(key.topic[-1:]) == 0

    summary = _measured(workload, store, before=break_some)
    assert set(summary.errors) == {"MetadataUnavailableError"}
    failed = summary.errors["MetadataUnavailableError"]
    assert failed / (failed + summary.service.count) == pytest.approx(0.2, abs=0.05)


def test_a_store_that_forgets_is_found_out() -> None:
    store = KnownStore(READ_S, WRITE_S)

    def forget() -> None:
        store.owners.held.clear()
        for key in list(store.subscribers.held):
            if key.topic.startswith(b"wide") and key.subscriber == b"subscriber-0000000003":
                del store.subscribers.held[key]

    owners = _measured(_workload(Operation.READ_OWNER, among=Among.OWNED), store, before=forget)
    assert set(owners.errors) == {"an owner is missing"}
    assert owners.count == 0
    store = KnownStore(READ_S, WRITE_S)
    wide = _measured(
        _workload(Operation.READ_SUBSCRIPTIONS, among=Among.WIDE, wide=WIDE, seconds=3.0), store, before=forget
    )
    assert set(wide.errors) == {f"{WIDE - 1} subscriptions instead of {WIDE}"}
    assert wide.count == 0


@pytest.mark.parametrize("operation", [Operation.CREATE_SUBSCRIPTION, Operation.DELETE_SUBSCRIPTION])
@pytest.mark.parametrize("is_back", [False, True])
def test_what_cannot_be_deleted_after_a_load_is_counted(operation: Operation, is_back: bool) -> None:
    """Of 100 subscriptions, those that end in 7 fail in the load, and also after it unless they are back."""
    clock = VirtualTime()
    store = KnownStore(READ_S, WRITE_S)

    async def run() -> tuple[int, dict[str, int], int]:
        await fill(store, FillTask(first=0, last=TOPICS, subscribers=2), now_ns=clock.now_ns)
        before = len(store.subscribers.held)
        workload = _workload(operation, operations=100)
        target = MetadataTarget(workload, store, DATASET, round_number=1)
        load = Load(workload, target, round_number=1, now_ns=clock.now_ns)
        await target.open(load)
        store.delays.fails = lambda key: (key.subscriber or b"").endswith(b"7")
        recording = await load.run(clock.now_ns())
        await target.close()
        if operation is Operation.CREATE_SUBSCRIPTION:
            # The answer may get lost although the subscription is there.
            key = DATASET.new_subscription(recording_topic, 7)
            store.subscribers.held[key] = Versioned(DATA, Version(b"v"))
        if is_back:
            store.delays.fails = lambda _: False
        left = await target.tidy()
        assert await target.tidy() == {}, "it is reported once"
        return len(store.subscribers.held) - before, dict(left), len(recording.errors)

    recording_topic = _workload(operation).topic_chooser(1)(7)
    more, left, failed = clock.run(run())
    assert failed == 10
    of_store = 1 if operation is Operation.CREATE_SUBSCRIPTION else 10
    assert (more, left) == ((0, {}) if is_back else (of_store, {"MetadataUnavailableError": 10}))


def test_claims_beyond_the_topics_without_an_owner_are_failures() -> None:
    workload = _workload(Operation.CLAIM, among=Among.UNOWNED, operations=20)
    summary = _measured(workload, KnownStore(READ_S, WRITE_S), dataset=replace(DATASET, claims=15))
    assert summary.count == 15
    assert summary.errors == {"no topic without an owner is left": 5}


# ------------------------------------------------------------------------------------------------------- filling


def _filled(store: KnownStore, task: FillTask) -> tuple[Summary, str | None]:
    clock = VirtualTime()

    async def run() -> tuple[Summary, str | None]:
        return await fill(store, task, now_ns=clock.now_ns)

    return clock.run(run())


def test_a_fill_makes_what_it_says_and_times_its_batches() -> None:
    store = KnownStore(READ_S, WRITE_S)
    task = FillTask(first=0, last=1001, subscribers=3, wide=[1, 700])
    summary, why = _filled(store, task)
    assert why is None
    held = len(store.owners.held) + len(store.ranges.held) + len(store.subscribers.held)
    assert (summary.count, summary.missed) == (held, 0) == (task.records, 0)
    assert len(store.owners.held) == 501
    assert {each.value for each in store.owners.held.values()} == {PREDECESSOR}
    assert [each.value for each in store.subscribers.held.values()] == [DATA] * (
        3 * 1001 + wide_count(1) + 700 * wide_count(700)
    )
    # A batch of topics takes three calls in a row, of one delay each.
    assert summary.service.percentile_us(50) == pytest.approx(3 * WRITE_S * 1000 * MS, rel=ONE_PER_CENT)
    assert sum(second.finished for second in summary.series.values()) == task.records


@pytest.mark.parametrize("subscribers", [1, 3, 10])
def test_a_batch_has_as_many_topics_and_subscriptions_as_fit_into_256(subscribers: int) -> None:
    """Owners come on top: at most one for each topic of the batch."""
    task = FillTask(first=0, last=1001, subscribers=subscribers)
    *full, last = task.batches()
    each = 256 // (1 + subscribers)
    assert {len(batch.topics) for batch in full} == {each}
    assert 0 < len(last.topics) <= each
    for batch in (*full, last):
        assert len(batch.topics) + len(batch.subscriptions) <= 256
        assert len(batch.subscriptions) == subscribers * len(batch.topics)
        assert len(batch.owned) <= len(batch.topics)


def test_a_batch_of_wide_topics_has_at_most_256_subscriptions() -> None:
    task = FillTask(first=0, last=0, subscribers=0, wide=[1, 100, 700])
    batches = list(task.batches())
    assert max(len(batch.subscriptions) for batch in batches) == 256
    # If a topic has more subscriptions, each of its batches but the last is full. The first one has the topic itself.
    widest = [batch for batch in batches if batch.subscriptions[0].topic.startswith(b"wide-700")]
    assert [len(batch.subscriptions) for batch in widest] == [256, 256, 188] * wide_count(700)
    assert [len(batch.topics) for batch in widest] == [1, 0, 0] * wide_count(700)


def test_a_fill_goes_on_where_the_one_before_ended() -> None:
    store = KnownStore(READ_S, WRITE_S)
    for first, last in ((0, 101), (101, 301)):
        summary, why = _filled(store, FillTask(first=first, last=last, subscribers=1))
        assert (why, summary.missed) == (None, 0)
    assert len(store.ranges.held) == len(store.subscribers.held) == 301
    assert len(store.owners.held) == 151


def test_a_batch_that_fails_is_made_again() -> None:
    asked: list[RecordKey] = []

    def fails(key: RecordKey) -> bool:
        asked.append(key)
        return len(asked) == 150

    summary, why = _filled(KnownStore(READ_S, WRITE_S, fails=fails), FillTask(first=0, last=500, subscribers=1))
    assert why is None
    assert summary.count == summary.offered
    assert summary.errors == {"MetadataUnavailableError": 1}


def test_attempts_of_a_fill_that_failed_are_counted_in_their_second() -> None:
    """For part of the fourth second the store refuses everything. Each of the six batches under way is made later."""
    clock = VirtualTime()
    began = clock.seconds
    store = KnownStore(READ_S, 0.1, fails=lambda _: 3.05 <= clock.seconds - began < 3.5)

    async def run() -> tuple[Summary, str | None]:
        return await fill(store, FillTask(first=0, last=15_000, subscribers=1), now_ns=clock.now_ns)

    summary, why = clock.run(run())
    assert (why, summary.missed) == (None, 0)
    failed = {number: each.failed for number, each in summary.series.items() if each.failed}
    assert failed == {3: 6}
    assert summary.errors == {"MetadataUnavailableError": 6}
    assert summary.series[3].finished < summary.series[2].finished / 2
    assert Summary.from_json(summary.to_json()).series[3].failed == 6


def test_a_store_that_takes_nothing_more_is_a_wall() -> None:
    store = KnownStore(READ_S, WRITE_S, fails=lambda key: key.topic >= b"bench-00000300")
    summary, why = _filled(store, FillTask(first=0, last=5_000, subscribers=1))
    assert why == "a batch failed 5 times: MetadataUnavailableError: it is broken"
    assert 0 < summary.count < summary.offered
    assert summary.missed == summary.offered - summary.count


def test_a_fill_that_takes_too_long_is_a_wall() -> None:
    summary, why = _filled(KnownStore(READ_S, 1.0), FillTask(first=0, last=100_000, subscribers=1, seconds_max=20.0))
    assert why == "the time for it was over"
    assert 0 < summary.count < summary.offered
    assert summary.seconds <= 25.0


@pytest.mark.parametrize(
    ("stalls", "is_over"),
    [
        ([(150.5 + 100.0 * number, 250.0 + 100.0 * number) for number in range(20)], True),
        pytest.param([(150.0, 210.0)], False, marks=pytest.mark.full),
        pytest.param([(0.0, 60.0)], False, marks=pytest.mark.full),
    ],
    ids=["for good", "for a minute", "at the beginning"],
)
def test_a_fill_that_comes_to_a_standstill_is_a_wall_long_before_its_time_is_over(
    stalls: list[tuple[float, float]], is_over: bool
) -> None:
    store = KnownStore(READ_S, 1.0, stalls=stalls)
    store.delays.began = VirtualTime().seconds
    summary, why = _filled(store, FillTask(first=0, last=80_000, subscribers=1, seconds_max=3_000.0))
    if is_over:
        assert why is not None
        assert re.fullmatch(r"it came to a standstill: \d+ records/s in the last 120 s, and \d{3}/s before that", why)
        assert 250.0 < summary.seconds < 600.0
    else:
        assert why is None
        assert 270.0 < summary.seconds < 600.0


# ------------------------------------------------------------------------------------------------------- the rest


def _store_of(topics: Sequence[int], **given: Any) -> KnownStore:
    """Return a store in which these topics have all records that are read after a restart."""
    store = KnownStore(READ_S, WRITE_S, **given)
    for number in topics:
        store.owners.held[RecordKey(DATASET.topic(number))] = Versioned(PREDECESSOR, Version(b"v"))
        store.ranges.held[RecordKey(DATASET.topic(number))] = Versioned(LedgerRanges(), Version(b"v"))
        store.subscribers.held[DATASET.subscription(number, 0)] = Versioned(DATA, Version(b"v"))
    return store


def test_a_probe_tells_when_topics_can_be_read_and_a_write_is_done() -> None:
    clock = VirtualTime()

    async def run() -> Any:
        store = _store_of((0, 2, 4), fails=lambda _: clock.seconds < 1_010.0)
        held = dict(store.subscribers.held)
        probed = await probe(store, DATASET, [0, 1, 2], 60.0, now_ns=clock.now_ns)
        assert store.subscribers.writes == 1
        assert store.subscribers.held == held, "what was written is deleted again"
        return probed, await probe(store, DATASET, [0, 4], 60.0, now_ns=clock.now_ns)

    probed, lost = clock.run(run())
    for name in ("first_ns", "owners_ns", "ranges_ns", "subscriptions_ns", "all_ns", "written_ns"):
        assert probed[name] == pytest.approx(1_010e9, rel=1e-4), name
    assert probed["written_ns"] - probed["all_ns"] >= (READ_S + 2 * WRITE_S) * 1e9
    assert lost["first_ns"] is not None
    assert [lost[name] for name in ("owners_ns", "ranges_ns", "subscriptions_ns", "all_ns", "written_ns")] == [None] * 5


@pytest.mark.parametrize("late", ["owners", "ranges", "subscribers"])
def test_each_kind_of_record_is_asked_for_and_has_its_time(late: str) -> None:
    """Tables come back one by one: a readable one proves nothing about the others."""
    clock = VirtualTime()

    async def run() -> Any:
        store = _store_of((0, 2))
        table = getattr(store, late)
        held, table.held = table.held, {}
        probing = asyncio.create_task(probe(store, DATASET, [0, 1], 60.0, now_ns=clock.now_ns))
        await asyncio.sleep(30.0)
        table.held = held
        return clock.now_ns(), await probing

    at_ns, probed = clock.run(run())
    names = {"owners": "owners_ns", "ranges": "ranges_ns", "subscribers": "subscriptions_ns"}
    for table, name in names.items():
        assert (probed[name] >= at_ns) == (table == late), name
    assert probed["all_ns"] == probed[names[late]]


def test_a_store_that_can_only_be_read_is_not_whole_again() -> None:
    clock = VirtualTime()

    async def run() -> Any:
        store = _store_of((0,), fails=lambda key: b"new-" in (key.subscriber or b""))
        return await probe(store, DATASET, [0], 60.0, now_ns=clock.now_ns)

    probed = clock.run(run())
    assert probed["all_ns"] is not None
    assert probed["written_ns"] is None


def test_an_offered_load_that_was_not_reached_is_no_success() -> None:
    workload = _workload(Operation.READ_OWNER, among=Among.OWNED, rate_per_s=1000.0, in_flight=1, warmup_s=0.0)
    measurement = Measurement(workload=workload, driver="known", round=1)
    measurement.take(_measured(workload, KnownStore(0.010, 0.010)), is_delivery=False)
    assert measurement.is_offered_load_reached is False
    assert measurement.notes() == [f"offered load not reached: {measurement.rate_per_s:,.0f} of 1,000/s"]
