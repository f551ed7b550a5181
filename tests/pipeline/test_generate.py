"""Prove that generated rows depend on the seed and their numbers only, fit each other, and look like real data."""

import math
from collections import Counter

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from hedwig.metadata.records.ranges import range_defects
from hedwig.model import Topic
from hedwig.names import NAME_BYTES_MAX
from hedwig.pipeline.frames.checksum import checksum_of
from hedwig.pipeline.frames.input_rows import rows_of
from hedwig.pipeline.frames.spark_types import spark_schema
from hedwig.pipeline.frames.tables import Table
from hedwig.pipeline.generate.generate import Recipe, generate
from hedwig.pipeline.generate.popularity import Popularity, Shuffle

RECIPE = Recipe(topics=2_000, subscriptions=6_000, seed=7, with_history=True)


def _keys(frame: DataFrame, *columns: str) -> Counter[tuple[bytes, ...]]:
    return Counter(tuple(bytes(value) for value in row) for row in frame.select(*columns).collect())


@pytest.mark.parametrize("table", Table)
def test_rows_are_the_same_for_any_partitioning_and_have_the_columns_of_the_table(
    spark: SparkSession, table: Table
) -> None:
    frames = [generate(spark, RECIPE, table, partitions=partitions) for partitions in (1, 7)]
    assert [frame.rdd.getNumPartitions() for frame in frames] == [1, 7]
    one, other = (checksum_of(table, frame) for frame in frames)
    assert one == other
    assert [(field.name, field.dataType.simpleString()) for field in frames[0].schema] == [
        (field.name, field.dataType.simpleString()) for field in spark_schema(table)
    ]


@pytest.mark.full
def test_another_seed_makes_other_rows(spark: SparkSession) -> None:
    other = Recipe(topics=2_000, subscriptions=6_000, seed=8, with_history=True)
    for table in Table:
        assert checksum_of(table, generate(spark, RECIPE, table)) != checksum_of(table, generate(spark, other, table))


def test_names_are_unique_and_of_several_shapes_and_subscriptions_are_of_topics_that_exist(spark: SparkSession) -> None:
    topics = _keys(generate(spark, RECIPE, Table.LEDGERS), "topic")
    subscriptions = _keys(generate(spark, RECIPE, Table.SUBSCRIPTIONS), "topic", "subscriber")
    assert len(topics) == RECIPE.topics
    assert len(subscriptions) == RECIPE.subscriptions
    assert set(topics.values()) == set(subscriptions.values()) == {1}
    assert {(topic,) for topic, _ in subscriptions} <= topics.keys()
    assert max(len(topic) for (topic,) in topics) <= NAME_BYTES_MAX
    beginnings = Counter(topic.split(b"/")[0] for (topic,) in topics)
    assert beginnings[b"tenants"] > beginnings[b"users"] > 100
    assert any(topic.startswith(b"\xff\xfe") for (topic,) in topics), "some are no text"


@pytest.mark.parametrize(
    "exponent", [pytest.param(0.0, marks=pytest.mark.full), 0.9, 1.0, pytest.param(1.5, marks=pytest.mark.full)]
)
@pytest.mark.parametrize("count", [0, pytest.param(5, marks=pytest.mark.full), 20_000])
def test_every_subscription_has_its_place_by_zipfs_law(spark: SparkSession, exponent: float, count: int) -> None:
    popularity = Popularity(topics=500, subscriptions=count, exponent=exponent)
    fan_out = popularity.before(F.col("id") + 1) - popularity.before(F.col("id"))
    ranks = spark.range(500).select("id", fan_out.alias("expected")).collect()
    expected = {row["id"]: row["expected"] for row in ranks}
    assert sum(expected.values()) == count
    counted = spark.range(count).groupBy(popularity.rank_of(F.col("id")).alias("rank")).count().collect()
    assert {row["rank"]: row["count"] for row in counted} == {rank: many for rank, many in expected.items() if many}
    assert max(expected.values()) <= popularity.most
    if count == 20_000 and exponent:
        assert expected[0] > expected[9] > expected[99]


@pytest.mark.parametrize("size", [1, 7, 2_500_000_001, Shuffle.SIZE_MAX])
def test_a_shuffle_of_any_size_is_the_same_as_with_numbers_of_any_length(spark: SparkSession, size: int) -> None:
    shuffle = Shuffle.of(size, 5)
    numbers = [0, 1, 6, size - 1, size, 8 * size - 1, 21_000_000_000]
    frame = spark.createDataFrame([(number,) for number in numbers], "number bigint")
    shuffled = frame.select(shuffle.of_number(F.col("number")).alias("index")).collect()
    assert [row["index"] for row in shuffled] == [(n * shuffle.factor + shuffle.shift) % size for n in numbers]
    assert math.gcd(shuffle.factor, size) == 1, "no two numbers have one index"


def test_a_history_fits_together(spark: SparkSession) -> None:
    ranges = generate(spark, RECIPE, Table.LEDGERS)
    records = {
        row.key.topic: row.record
        for batch in ranges.toArrow().to_batches()
        for row in rows_of(Table.LEDGERS, batch)
        if row.key is not None
    }
    assert len(records) == RECIPE.topics
    assert not [topic for topic, record in records.items() if range_defects(record)]
    ids = Counter(each.ledger_id for record in records.values() for each in record.ranges)
    assert set(ids.values()) == {1}
    owned = {topic for (topic,) in _keys(generate(spark, RECIPE, Table.OWNERS), "topic")}
    open_ones = {topic for topic, record in records.items() if record.ranges and record.ranges[-1].end is None}
    assert owned == open_ones
    assert owned
    consumed = generate(spark, RECIPE, Table.SUBSCRIPTIONS).select("topic", "state.consumed.local").collect()
    behind = 0
    for row in consumed:
        closed = [each.end.local for each in records[Topic(bytes(row["topic"]))].ranges if each.end is not None]
        last = max(closed, default=0)
        assert 0 <= row["local"] <= last
        behind += row["local"] < last
    assert 0 < behind < RECIPE.subscriptions // 4


def test_without_a_history_topics_are_empty_and_nothing_is_consumed(spark: SparkSession) -> None:
    recipe = Recipe(topics=50, subscriptions=100)
    assert recipe.tables == (Table.LEDGERS, Table.SUBSCRIPTIONS)
    assert generate(spark, recipe, Table.LEDGERS).where(F.size("ranges") > 0).count() == 0
    assert generate(spark, recipe, Table.SUBSCRIPTIONS).where("state.consumed.local > 0").count() == 0


def test_recipes_that_cannot_be_are_refused() -> None:
    for topics, subscriptions, hubs, seed in (
        (0, 1, 1, 1),
        (3_000_000_001, 1, 1, 1),
        (1, -1, 1, 1),
        (1, 1, 0, 1),
        (1, 1, 1, 1 << 63),
        (1, 3_000_000_001, 1, 1),
        (3_000_000_000, 15_000_000_005, 1, 1),
    ):
        with pytest.raises(ValueError, match=r"generate needs|a seed|subscriptions need more"):
            Recipe(topics=topics, subscriptions=subscriptions, hubs=hubs, seed=seed)
