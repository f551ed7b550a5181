"""Realistic metadata of any size: every row is a pure function of the recipe and its index, and of nothing else.

So the rows do not depend on the partitions, and a task that runs again makes the same rows again. A part of a table can
be made without the rest. Nothing here draws random numbers, reads the clock, or looks at another row. A subscription
finds its topic by arithmetic (`popularity`). Two tables must agree on the ledgers of a topic, and on how far its
subscribers have consumed them. Both compute that from the topic's index.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from hedwig.pipeline.frames.columns import UINT64
from hedwig.pipeline.frames.tables import Table
from hedwig.pipeline.generate.popularity import Popularity, Shuffle

__all__ = ["Recipe", "generate"]

_AREAS: Final = ("orders", "payments", "stock", "shipping", "search", "accounts", "billing", "fraud", "audit", "mail")
_EVENTS: Final = ("created", "changed", "removed", "failed", "expired", "approved", "viewed", "exported")
_SITES: Final = ("ams1", "bom2", "fra3", "iad1", "nrt1", "sea2", "sin4", "syd1")
_TEAMS: Final = ("atlas", "borealis", "cassini", "dione", "europa", "ganymede", "hyperion", "io")
_CITIES: Final = ("köln", "málaga", "台北", "łódź", "москва", "são-paulo")

_LEDGERS_MAX: Final = 8
_ROWS_PER_PARTITION: Final = 200_000
_BACKEND: Final = "generated"
_REMOTE: Final = f"array<struct<region:binary,seq_id:{UINT64}>>"
_RANGES: Final = f"array<struct<ledger_id:{UINT64},start:{UINT64},end:struct<local:{UINT64},remote:{_REMOTE}>>>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What to generate.

    Without `with_history` all topics are empty, as if they had just been made, and nothing was consumed. Hubs can serve
    such topics. With it, topics have ledger ranges, owners and consume pointers like those of a cluster of `hubs` hubs
    that has been in use. The ledgers do not exist, so this is only for measuring and for audits.

    Raises: ValueError - a number is out of range.
    """

    topics: int
    subscriptions: int
    seed: int = 1
    exponent: float = 0.9
    with_history: bool = False
    hubs: int = 4

    def __post_init__(self) -> None:
        if not 1 <= self.topics <= Shuffle.SIZE_MAX or self.subscriptions < 0 or self.hubs < 1:
            raise ValueError("generate needs 1 to 3,000,000,000 topics, at least 0 subscriptions, and at least 1 hub")
        if self.subscribers > Shuffle.SIZE_MAX:
            raise ValueError(
                f"{self.subscriptions:,} subscriptions need more than {Shuffle.SIZE_MAX:,} subscribers: take fewer, or "
                "a lower zipf"
            )
        if not -(1 << 63) <= self.seed < 1 << 63:
            raise ValueError("a seed is a whole number of 64 bits")

    @property
    def popularity(self) -> Popularity:
        """Return how the subscriptions are shared out."""
        return Popularity(topics=self.topics, subscriptions=self.subscriptions, exponent=self.exponent)

    @property
    def subscribers(self) -> int:
        """Return how many different subscribers there are. The most popular topic has no more than that."""
        return max(1, self.popularity.most, self.subscriptions // 5)

    @property
    def tables(self) -> tuple[Table, ...]:
        """Return the tables that `generate` makes with this recipe."""
        return (
            (Table.LEDGERS, Table.SUBSCRIPTIONS, Table.OWNERS)
            if self.with_history
            else (Table.LEDGERS, Table.SUBSCRIPTIONS)
        )


def generate(spark: SparkSession, recipe: Recipe, table: Table, *, partitions: int | None = None) -> DataFrame:
    """Return the rows of `table`, with its columns; `version` is null, since no store has written them.

    Args: partitions - how many tasks make them; the rows do not depend on it.
    """
    rows = recipe.subscriptions if table is Table.SUBSCRIPTIONS else recipe.topics
    frame = spark.range(0, rows, 1, partitions or max(1, rows // _ROWS_PER_PARTITION))
    made = _Made(recipe)
    match table:
        case Table.TOPICS:
            frame = made.topics(frame)
        case Table.LEDGERS:
            frame = made.ledgers(frame)
        case Table.OWNERS:
            frame = made.owners(frame)
        case Table.SUBSCRIPTIONS:
            frame = made.subscriptions(frame)
    return frame.select("*", F.lit(None).cast("binary").alias("version"), F.lit(_BACKEND).alias("backend"))


class _Made:
    """The columns of one recipe, as functions of the row's index `id`."""

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        self._popularity = recipe.popularity
        # Shuffle, so that popular topics are spread over all names, and the topics of a subscriber over all ranks.
        self._by_rank = Shuffle.of(recipe.topics, recipe.seed)
        self._by_number = Shuffle.of(recipe.subscribers, recipe.seed + 1)

    # --------------------------------------------------------------------------------------------------------- tables

    def topics(self, frame: DataFrame) -> DataFrame:
        count = self._ledger_count(F.col("id")).cast("int") if self._recipe.with_history else F.lit(0)
        return frame.select(self._topic_name(F.col("id")).alias("topic"), count.alias("ledgers"))

    def ledgers(self, frame: DataFrame) -> DataFrame:
        return frame.select(self._topic_name(F.col("id")).alias("topic"), self._ranges(F.col("id")).alias("ranges"))

    def owners(self, frame: DataFrame) -> DataFrame:
        topic = F.col("id")
        # Some hubs own more than others. One in a hundred owner records names a hub from before its restart.
        hub = F.least(self._pick(topic, "hub", self._recipe.hubs), self._pick(topic, "skew", self._recipe.hubs))
        is_stale = self._pick(topic, "stale", 100) == 0
        return frame.where(self._is_owned(topic)).select(
            self._topic_name(topic).alias("topic"),
            F.concat(F.lit("hub-"), F.lpad(hub.cast("string"), 3, "0"), F.lit(".example")).alias("host"),
            F.lit(4080).alias("port"),
            F.lit(None).cast("int").alias("ssl_port"),
            (hub * 1000 + F.when(is_stale, F.lit(1)).otherwise(F.lit(2))).cast(UINT64).alias("epoch"),
            F.lit(None).cast(UINT64).alias("log"),
        )

    def subscriptions(self, frame: DataFrame) -> DataFrame:
        ranked = frame.select("id", self._popularity.rank_of(F.col("id")).alias("rank"))
        placed = ranked.select(
            "id",
            self._by_rank.of_number(F.col("rank")).alias("topic_index"),
            # The number of the subscription within its topic, shifted by topic so that subscribers differ.
            self._by_number.of_number(F.col("id") - self._popularity.before(F.col("rank")) + F.col("rank") * 7).alias(
                "subscriber_index"
            ),
        )
        return placed.select(
            self._topic_name(F.col("topic_index")).alias("topic"),
            self._subscriber_name(F.col("subscriber_index")).alias("subscriber"),
            self._preferences(F.col("id")).alias("preferences"),
            self._state(F.col("id"), F.col("topic_index")).alias("state"),
        )

    # ---------------------------------------------------------------------------------------------------------- names

    def _topic_name(self, index: Column) -> Column:
        """Return names of several shapes. Each holds the index, and no two shapes can be equal, so names are unique."""
        number = index.cast("string")
        padded = F.lpad(F.lower(F.hex(index)), 12, "0")
        area, event = self._word(index, "area", _AREAS), self._word(index, "event", _EVENTS)
        team, site = self._word(index, "team", _TEAMS), self._word(index, "site", _SITES)
        tenant = F.lpad(self._pick(index, "tenant", 5000).cast("string"), 4, "0")
        digits = F.lower(F.hex(self._hash(index, "uuid")))
        uuid = F.concat_ws(
            "-", F.substring(F.lpad(digits, 16, "0"), 1, 8), F.substring(F.lpad(digits, 16, "0"), 9, 4), padded
        )
        shape = self._pick(index, "shape", 100)
        text = (
            F.when(shape < 30, F.concat_ws("/", F.lit("tenants"), tenant, area, event, number))
            .when(shape < 55, F.concat_ws("/", F.lit("devices"), site, padded, F.lit("telemetry")))
            .when(shape < 75, F.concat_ws(".", F.lit("com.example"), team, area, event, number))
            .when(shape < 90, F.concat_ws("/", F.lit("users"), uuid, F.lit("inbox")))
            .when(shape < 96, F.concat_ws("-", F.lit("shard"), area, number))
            .when(shape < 99, F.concat_ws("/", F.lit("städte"), self._word(index, "city", _CITIES), number))
        )
        # One name in a hundred is no text, but bytes, such as the key of some system.
        raw = F.concat(F.unhex(F.lit("fffe00")), F.unhex(padded))
        return F.when(shape < 99, text.cast("binary")).otherwise(raw)

    def _subscriber_name(self, index: Column) -> Column:
        number = index.cast("string")
        area, team = self._word(index, "reader", _AREAS), self._word(index, "owner", _TEAMS)
        shape = self._pick(index, "kind", 10)
        text = (
            F.when(shape < 5, F.concat_ws("-", area, F.lit("worker"), number))
            .when(shape < 8, F.concat_ws(".", team, area, number))
            .otherwise(F.concat(F.lit("user:"), F.lpad(number, 10, "0")))
        )
        return text.cast("binary")

    # --------------------------------------------------------------------------------------------------------- values

    def _ranges(self, topic: Column) -> Column:
        if not self._recipe.with_history:
            return F.array().cast(_RANGES)
        count, each = self._ledger_count(topic), self._ledger_messages(topic)
        is_open = self._is_owned(topic)

        def ledger(number: Column) -> Column:
            ends_open = is_open & (number == count - 1)
            return F.struct(
                (topic * _LEDGERS_MAX + number + 1).alias("ledger_id"),
                (number * each + 1).alias("start"),
                F.when(~ends_open, F.struct(((number + 1) * each).alias("local"), F.array().alias("remote"))).alias(
                    "end"
                ),
            )

        ranges = F.transform(F.sequence(F.lit(0).cast("bigint"), F.greatest(count - 1, F.lit(0))), ledger)
        return F.when(count > 0, ranges.cast(_RANGES)).otherwise(F.array().cast(_RANGES))

    def _preferences(self, index: Column) -> Column:
        says = self._pick(index, "says", 10)
        options = F.array(F.struct(F.lit("content-type").alias("name"), F.lit("json").cast("binary").alias("value")))
        none = F.array().cast("array<struct<name:string,value:binary>>")
        return F.struct(
            F.when(says == 0, options).otherwise(none).alias("options"),
            F.when(says == 1, F.lit(10_000).cast("bigint")).alias("message_bound"),
            F.lit(None).cast("string").alias("message_filter"),
            F.when(says < 4, F.lit(100).cast("bigint")).alias("message_window_size"),
        )

    def _state(self, index: Column, topic: Column) -> Column:
        consumed = F.lit(0).cast("bigint")
        if self._recipe.with_history:
            closed = self._ledger_count(topic) - self._is_owned(topic).cast("bigint")
            last = F.greatest(closed, F.lit(0)) * self._ledger_messages(topic)
            # Nine in ten subscribers keep up; the tenth is behind by any number of messages.
            behind = F.when(self._pick(index, "slow", 10) == 0, F.pmod(self._hash(index, "lag"), last + 1)).otherwise(0)
            consumed = last - F.least(behind, last)
        remote = F.array().cast(_REMOTE)
        return F.struct(F.struct(consumed.cast(UINT64).alias("local"), remote.alias("remote")).alias("consumed"))

    def _ledger_count(self, topic: Column) -> Column:
        """Return the number of ledgers: 0 for half of the topics, to which nobody has published yet."""
        return F.greatest(self._pick(topic, "ledgers", 2 * _LEDGERS_MAX) - _LEDGERS_MAX + 1, F.lit(0))

    def _ledger_messages(self, topic: Column) -> Column:
        return self._pick(topic, "messages", 5000) + 1

    def _is_owned(self, topic: Column) -> Column:
        """Say whether a hub owns the topic. Its last ledger is open then."""
        return (self._ledger_count(topic) > 0) & (self._pick(topic, "owned", 3) == 0)

    # --------------------------------------------------------------------------------------------------------- chance

    def _hash(self, index: Column, purpose: str) -> Column:
        return F.xxhash64(F.lit(self._recipe.seed).cast("bigint"), index, F.lit(purpose))

    def _pick(self, index: Column, purpose: str, choices: int) -> Column:
        """Return a number from 0 to `choices` - 1 (bigint), which depends on the index and the purpose."""
        return F.pmod(self._hash(index, purpose), F.lit(choices).cast("bigint"))

    def _word(self, index: Column, purpose: str, words: Sequence[str]) -> Column:
        return F.element_at(F.array(*map(F.lit, words)), (self._pick(index, purpose, len(words)) + 1).cast("int"))
