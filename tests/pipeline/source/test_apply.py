"""Prove that each policy writes what it says, once, however often it runs, and that every row is counted once."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

import pyarrow as pa
import pytest
from msgpack import packb

from hedwig.clock import SystemClock
from hedwig.errors import ConfigurationError, InvalidArgumentError, MetadataUnavailableError, UncertainStateError
from hedwig.metadata import Delete, MetadataStore, Operation, Outcome, RecordKey, StoreOptions, Write, open_metadata
from hedwig.metadata.contract.operations import Read
from hedwig.metadata.freezing import StoreFreeze
from hedwig.metadata.testing import samples
from hedwig.model import (
    LedgerRanges,
    SubscriberId,
    SubscriptionData,
    SubscriptionPreferences,
    SubscriptionState,
    Topic,
    UnknownFields,
)
from hedwig.pipeline.frames.policies import Policy, WriteResult
from hedwig.pipeline.frames.schemas import batch_of
from hedwig.pipeline.frames.tables import Table
from hedwig.pipeline.source.apply import ApplyConfig, TargetFrozenError, apply, apply_batches, prepare
from hedwig.pipeline.source.statistics import STATISTICS_SCHEMA, Statistics
from hedwig.versions import ANY, NEW, Version, Versioned
from tests.pipeline.support.stores import new_store, records, with_store

TOPICS: Final = [Topic(b"topic/%03d" % number) for number in range(100)]


@pytest.fixture
def url(tmp_path: Path) -> str:
    """The URL of an empty store."""
    return new_store(tmp_path)


def batches(table: Table, records: Sequence[tuple[RecordKey, Any]], size: int = 30) -> Iterator[pa.RecordBatch]:
    """Make a frame that does not come from a store."""
    for start in range(0, len(records), size):
        stored = [(key, Versioned(record, Version(b"elsewhere"))) for key, record in records[start : start + size]]
        yield batch_of(table, "elsewhere", stored)


def owners(first: int = 0) -> list[tuple[RecordKey, Any]]:
    return [(RecordKey(topic), samples.hub(first + number)) for number, topic in enumerate(TOPICS)]


def subscriptions(first: int = 0) -> list[tuple[RecordKey, Any]]:
    keys = [RecordKey(topic, SubscriberId(b"s%d" % number)) for topic in TOPICS[:20] for number in range(6)]
    return [(key, samples.subscription(first + number)) for number, key in enumerate(keys)]


def applied(statistics: Statistics, **expected: int) -> None:
    """Check the results of all rows."""
    assert {result.value: number for result, number in statistics.counts.items() if number} == expected


def config(url: str, table: Table, policy: Policy = Policy.CREATE, **how: Any) -> ApplyConfig:
    return ApplyConfig(url=url, table=table, policy=policy, batch_rows=16, **how)


def change(url: str, table: Table, operations: Iterable[Operation[Any]]) -> None:
    """Change records as a hub does."""

    async def work(store: MetadataStore) -> None:
        manager: Any = {
            Table.OWNERS: store.ownership,
            Table.TOPICS: store.persistence,
            Table.LEDGERS: store.persistence,
            Table.SUBSCRIPTIONS: store.subscriptions,
        }[table]
        for outcome in await manager.apply(list(operations)):
            outcome.check()

    with_store(url, work)


# --------------------------------------------------------------------------------------------------------------- create


@pytest.mark.parametrize(("table", "rows"), [(Table.OWNERS, owners()), (Table.SUBSCRIPTIONS, subscriptions())])
def test_create_writes_what_is_not_there(url: str, table: Table, rows: list[tuple[RecordKey, Any]]) -> None:
    applied(apply(batches(table, rows), config(url, table)), created=len(rows))
    assert {key: stored.value for key, stored in records(url, table).items()} == dict(rows)


def test_create_made_again_changes_nothing(url: str) -> None:
    apply(batches(Table.OWNERS, owners()), config(url, Table.OWNERS))
    before = records(url, Table.OWNERS)
    applied(apply(batches(Table.OWNERS, owners()), config(url, Table.OWNERS)), same=100)
    assert records(url, Table.OWNERS) == before


def test_create_leaves_what_differs_and_names_it(url: str) -> None:
    apply(batches(Table.SUBSCRIPTIONS, subscriptions()), config(url, Table.SUBSCRIPTIONS))
    before = records(url, Table.SUBSCRIPTIONS)
    statistics = apply(batches(Table.SUBSCRIPTIONS, subscriptions(first=1)), config(url, Table.SUBSCRIPTIONS))
    applied(statistics, conflict=120)
    assert statistics.unwritten == 120
    assert records(url, Table.SUBSCRIPTIONS) == before
    assert "the subscription of subscriber 's0' on topic 'topic/000' exists already" in statistics.problems[0]
    assert len(statistics.problems) == 20


def test_topics_are_created_empty_and_are_the_same_whatever_they_hold(url: str) -> None:
    rows = [(RecordKey(topic), LedgerRanges()) for topic in TOPICS]
    change(url, Table.TOPICS, [Write(RecordKey(TOPICS[0]), samples.ranges(1), NEW)])
    applied(apply(batches(Table.TOPICS, rows), config(url, Table.TOPICS)), created=99, same=1)
    stored = records(url, Table.TOPICS)
    assert stored[RecordKey(TOPICS[0])].value == samples.ranges(1)
    assert stored[RecordKey(TOPICS[1])].value == LedgerRanges()


def test_rows_of_topics_replace_nothing() -> None:
    for policy in (Policy.REPLACE, Policy.OVERWRITE):
        with pytest.raises(ConfigurationError, match="write the table ledgers"):
            ApplyConfig(url="sqlite:///store.db", table=Table.TOPICS, policy=policy, hubs_stopped=True)


def test_row_that_is_no_record_fails_alone(url: str) -> None:
    good = batch_of(Table.OWNERS, "sqlite", [(RecordKey(TOPICS[0]), Versioned(samples.hub(1), Version(b"v")))])
    bad = good.set_column(0, good.schema.field(0), pa.array([b"x" * 9000]))
    large = batch_of(
        Table.SUBSCRIPTIONS,
        "sqlite",
        [(RecordKey(TOPICS[0], SubscriberId(b"s")), Versioned(_too_large(), Version(b"v")))],
    )
    statistics = apply([bad, good], config(url, Table.OWNERS))
    applied(statistics, created=1, failed=1)
    assert "1 to 8192 bytes" in statistics.problems[0]
    statistics = apply([large], config(url, Table.SUBSCRIPTIONS))
    applied(statistics, failed=1)
    assert "can be stored" in statistics.problems[0]


def _too_large() -> Any:
    return SubscriptionData(preferences=SubscriptionPreferences(options={"large": b"." * 600_000}))


# -------------------------------------------------------------------------------------------------------------- replace


def read_and_changed(url: str, table: Table, rows: list[tuple[RecordKey, Any]]) -> list[pa.RecordBatch]:
    """Return rows with new contents and the versions of the store."""
    versions = {key: stored.version for key, stored in records(url, table).items()}
    return [batch_of(table, "sqlite", [(key, Versioned(record, versions[key])) for key, record in rows])]


def test_replace_writes_at_the_version_that_was_read(url: str) -> None:
    apply(batches(Table.OWNERS, owners()), config(url, Table.OWNERS))
    rows = read_and_changed(url, Table.OWNERS, owners(first=1000))
    applied(apply(rows, config(url, Table.OWNERS, Policy.REPLACE)), replaced=100)
    after = records(url, Table.OWNERS)
    assert {key: stored.value for key, stored in after.items()} == dict(owners(first=1000))
    applied(apply(rows, config(url, Table.OWNERS, Policy.REPLACE)), same=100)
    assert records(url, Table.OWNERS) == after


def test_replace_never_takes_back_what_was_written_since(url: str) -> None:
    apply(batches(Table.SUBSCRIPTIONS, subscriptions()), config(url, Table.SUBSCRIPTIONS))
    rows = read_and_changed(url, Table.SUBSCRIPTIONS, subscriptions(first=1000))
    stored = records(url, Table.SUBSCRIPTIONS)
    newer, gone, back = list(stored)[0:10], list(stored)[10:15], list(stored)[15:18]
    change(url, Table.SUBSCRIPTIONS, [Write(key, samples.subscription(7), stored[key].version) for key in newer])
    change(url, Table.SUBSCRIPTIONS, [Delete(key, stored[key].version) for key in (*gone, *back)])
    change(url, Table.SUBSCRIPTIONS, [Write(key, stored[key].value, NEW) for key in back])
    statistics = apply(rows, config(url, Table.SUBSCRIPTIONS, Policy.REPLACE))
    applied(statistics, replaced=102, superseded=13, conflict=5)
    after = records(url, Table.SUBSCRIPTIONS)
    assert all(after[key].value == samples.subscription(7) for key in newer)
    assert not any(key in after for key in gone)
    assert all(after[key].value == stored[key].value for key in back)
    assert any("was changed since it was read" in problem for problem in statistics.problems)
    assert any("is gone" in problem for problem in statistics.problems)


def test_replace_takes_versions_of_its_own_store_only(url: str) -> None:
    apply(batches(Table.OWNERS, owners()), config(url, Table.OWNERS))
    replacing = config(url, Table.OWNERS, Policy.REPLACE)
    with pytest.raises(InvalidArgumentError, match="rows whose backend is 'elsewhere' cannot replace"):
        apply(batches(Table.OWNERS, owners(first=1)), replacing)
    (rows,) = read_and_changed(url, Table.OWNERS, owners(first=1))
    with pytest.raises(InvalidArgumentError, match="needs the columns 'version' and 'backend'"):
        apply([rows.drop_columns(["version"])], replacing)
    before = records(url, Table.OWNERS)
    for raw in (ANY.raw, NEW.raw, b""):
        column = rows.schema.get_field_index("version")
        forged = rows.set_column(column, rows.schema.field(column), pa.array([raw] * rows.num_rows))
        statistics = apply([forged], replacing)
        applied(statistics, failed=100)
        assert "no version in its column 'version'" in statistics.problems[0]
    assert records(url, Table.OWNERS) == before


def test_replace_leaves_records_alone_whose_fields_a_row_cannot_hold(url: str) -> None:
    newer = UnknownFields("msgpack", packb({"zz": 1}))
    state = SubscriptionState(unknown=newer)
    rows = subscriptions()
    apply(batches(Table.SUBSCRIPTIONS, rows), config(url, Table.SUBSCRIPTIONS))
    kept = [key for key, _ in rows[:3]]
    change(url, Table.SUBSCRIPTIONS, [Write(key, SubscriptionData(state=state), ANY) for key in kept])
    before = records(url, Table.SUBSCRIPTIONS)
    changed = read_and_changed(url, Table.SUBSCRIPTIONS, subscriptions(first=1000))
    statistics = apply(changed, config(url, Table.SUBSCRIPTIONS, Policy.REPLACE))
    applied(statistics, replaced=117, failed=3)
    assert "has fields of a newer release, which a row cannot hold" in statistics.problems[0]
    after = records(url, Table.SUBSCRIPTIONS)
    assert all(after[key] == before[key] for key in kept)
    assert all(after[key].value.state.unknown == newer for key in kept)


# ------------------------------------------------------------------------------------------------------------ overwrite


def test_overwrite_demands_stopped_hubs_and_an_empty_target(url: str) -> None:
    with pytest.raises(ConfigurationError, match="hubsStopped=true"):
        config(url, Table.OWNERS, Policy.OVERWRITE)
    blind = config(url, Table.OWNERS, Policy.OVERWRITE, hubs_stopped=True)
    prepare(blind)
    applied(apply(batches(Table.OWNERS, owners()), blind), replaced=100)
    assert {key: stored.value for key, stored in records(url, Table.OWNERS).items()} == dict(owners())
    with pytest.raises(ConfigurationError, match=r"needs an empty target, and .* has topic 'topic/000'"):
        prepare(blind)
    prepare(config(url, Table.SUBSCRIPTIONS, Policy.OVERWRITE, hubs_stopped=True))


# ----------------------------------------------------------------------------------------- tasks that end in the middle


class _Ended(Exception):
    """The task ends here."""


def cut_short(source: Iterable[pa.RecordBatch], after: int) -> Iterator[pa.RecordBatch]:
    for number, batch in enumerate(source):
        if number == after:
            raise _Ended
        yield batch


@pytest.mark.parametrize("after", [0, 1, 2, 3])
def test_task_that_is_run_again_loses_and_repeats_nothing(url: str, after: int) -> None:
    creating = config(url, Table.OWNERS)
    with pytest.raises(_Ended):
        apply(cut_short(batches(Table.OWNERS, owners()), after), creating)
    before = records(url, Table.OWNERS)
    assert len(before) == 30 * after
    statistics = apply(batches(Table.OWNERS, owners()), creating)
    applied(statistics, **{name: n for name, n in (("created", 100 - 30 * after), ("same", 30 * after)) if n})
    again = records(url, Table.OWNERS)
    assert {key: again[key] for key in before} == before, "a row that was written is not written again"


def test_replacing_task_that_is_run_again_writes_once(url: str) -> None:
    apply(batches(Table.OWNERS, owners()), config(url, Table.OWNERS))
    (rows,) = read_and_changed(url, Table.OWNERS, owners(first=1000))
    parts = [rows.slice(start, 25) for start in range(0, 100, 25)]
    with pytest.raises(_Ended):
        apply(cut_short(parts, 2), config(url, Table.OWNERS, Policy.REPLACE))
    half = records(url, Table.OWNERS)
    # A hub overwrites what the first attempt wrote; the second attempt must not undo that.
    change(url, Table.OWNERS, [Write(RecordKey(TOPICS[0]), samples.hub(5), half[RecordKey(TOPICS[0])].version)])
    statistics = apply(parts, config(url, Table.OWNERS, Policy.REPLACE))
    applied(statistics, replaced=50, same=49, superseded=1)
    after = records(url, Table.OWNERS)
    assert after[RecordKey(TOPICS[0])].value == samples.hub(5)
    assert {after[RecordKey(topic)] for topic in TOPICS[1:50]} == {half[RecordKey(topic)] for topic in TOPICS[1:50]}


def test_two_tasks_that_write_the_same_at_once_write_it_once(url: str) -> None:
    async def both(store: MetadataStore) -> list[Statistics]:
        async with await open_metadata(url) as other:
            creating = config(url, Table.SUBSCRIPTIONS)
            return await asyncio.gather(
                *(
                    apply_batches(each, batches(Table.SUBSCRIPTIONS, subscriptions()), creating)
                    for each in (store, other)
                )
            )

    total = Statistics()
    for statistics in with_store(url, both):
        total.include(statistics)
    applied(total, created=120, same=120)


# ------------------------------------------------------------------------------------------------ stores in bad company


class _FaultyManager:
    """A manager whose answers to writes get lost, and that counts how many calls are open at once."""

    def __init__(self, manager: Any, losses: int) -> None:
        self._manager = manager
        self.losses = losses
        self.at_once = self.at_once_max = 0

    async def apply(self, operations: Sequence[Operation[Any]]) -> list[Outcome[Any]]:
        self.at_once += 1
        self.at_once_max = max(self.at_once, self.at_once_max)
        try:
            outcomes: list[Outcome[Any]] = await self._manager.apply(operations)
        finally:
            self.at_once -= 1
        if self.losses == 0 or all(isinstance(operation, Read) for operation in operations):
            return outcomes
        self.losses -= 1
        return [Outcome(error=UncertainStateError("the answer got lost"))] * len(outcomes)


def applied_with_losses(url: str, rows: Iterable[pa.RecordBatch], how: ApplyConfig, losses: int) -> Statistics:
    async def work(store: MetadataStore) -> Statistics:
        store.ownership = manager = _FaultyManager(store.ownership, losses)  # type: ignore[assignment]
        statistics = await apply_batches(store, rows, how)
        assert manager.at_once_max <= how.connections
        return statistics

    return with_store(url, work)


def test_lost_answer_is_looked_into_and_counts_as_done(url: str) -> None:
    creating = config(url, Table.OWNERS, connections=1)
    # One portion each: the lost answer belongs to 16 rows, which the retry finds written.
    applied(applied_with_losses(url, batches(Table.OWNERS, owners()), creating, 1), created=84, same=16)
    assert {key: stored.value for key, stored in records(url, Table.OWNERS).items()} == dict(owners())
    before = records(url, Table.OWNERS)
    rows = read_and_changed(url, Table.OWNERS, owners(first=1000))
    replacing = config(url, Table.OWNERS, Policy.REPLACE, connections=1)
    applied(applied_with_losses(url, rows, replacing, 2), replaced=84, same=16)
    after = records(url, Table.OWNERS)
    assert {key: stored.value for key, stored in after.items()} == dict(owners(first=1000))
    assert all(after[key].version != stored.version for key, stored in before.items())


def test_answers_that_stay_lost_fail_the_task(url: str) -> None:
    with pytest.raises(UncertainStateError):
        applied_with_losses(url, batches(Table.OWNERS, owners()), config(url, Table.OWNERS), 1000)
    # The task can run again.
    assert apply(batches(Table.OWNERS, owners()), config(url, Table.OWNERS)).unwritten == 0


def test_store_that_is_closed_fails_the_task(url: str) -> None:
    async def work() -> None:
        store = await open_metadata(url, StoreOptions(operation_timeout_s=2))
        await store.close()
        await apply_batches(store, batches(Table.OWNERS, owners()), config(url, Table.OWNERS))

    with pytest.raises(MetadataUnavailableError):
        asyncio.run(work())


def freeze_of(store: MetadataStore) -> StoreFreeze:
    return StoreFreeze(
        store.named_records, b"m", "sqlite:///next.db", lease_s=600, clock=SystemClock(), random=Random(1)
    )


def test_frozen_store_is_not_written_to(url: str) -> None:
    with_store(url, lambda store: freeze_of(store).begin())
    with pytest.raises(TargetFrozenError, match="hedwig-admin metadata thaw"):
        prepare(config(url, Table.OWNERS))
    with pytest.raises(TargetFrozenError, match=r"their migration to sqlite:///next\.db"):
        apply(batches(Table.OWNERS, owners()), config(url, Table.OWNERS))
    assert records(url, Table.OWNERS) == {}


def test_store_that_is_frozen_meanwhile_ends_the_task(url: str) -> None:
    async def work(store: MetadataStore) -> None:
        def source() -> Iterator[pa.RecordBatch]:
            yield from batches(Table.OWNERS, owners()[:30])
            frozen.result(timeout=30)
            yield from batches(Table.OWNERS, owners()[30:])

        loop = asyncio.get_running_loop()
        frozen = asyncio.run_coroutine_threadsafe(freeze_of(store).begin(), loop)
        await apply_batches(store, source(), config(url, Table.OWNERS))

    with pytest.raises(TargetFrozenError):
        with_store(url, work)
    assert len(records(url, Table.OWNERS)) < 100


# ----------------------------------------------------------------------------------------------------------- statistics


def test_statistics_travel_as_rows() -> None:
    first = Statistics(Counter({WriteResult.CREATED: 3, WriteResult.CONFLICT: 1}), ["one"])
    second = Statistics(Counter({WriteResult.SAME: 2}))
    assert first.batch().schema == STATISTICS_SCHEMA
    total = Statistics.of_rows([*first.batch().to_pylist(), *second.batch().to_pylist()])
    applied(total, created=3, same=2, conflict=1)
    assert (total.rows, total.unwritten, total.problems) == (6, 1, ["one"])
    assert str(total) == "6 rows: 3 created, 2 same, 1 conflict"
    assert str(Statistics()) == "no rows"
