"""Lag, backlog and fan-out of topics and subscriptions, and how many topics each hub owns.

The records give the end of a topic only as far as its ledgers are closed. For an open last ledger, `open_ledgers` asks
the ledger store for the last entry. Even that may miss what the owner has just written. So the figures of such a topic
are lower bounds, and `is_exact` is false.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from hedwig.pipeline.audit.findings import hub_name
from hedwig.pipeline.frames.columns import UINT64

__all__ = ["fan_outs", "hub_loads", "powers_of", "subscription_lags", "topic_positions", "topic_standings"]


def topic_positions(ledgers: DataFrame, ends: DataFrame | None = None) -> DataFrame:
    """Return where each topic begins and ends, by its ranges, and by `ends` for open ledgers.

    Args: ends - columns topic, last_entry_id and is_closed, as of `ask_open_ledgers`.

    Columns: topic (binary); ledgers (int); first_message and last_message (decimal(20,0)): the oldest message that is
    kept and the newest that is known, null and 0 for a topic that never had one; is_exact (boolean): there was no newer
    one; end_from (string): the source of the end, `record` or `ledger`, or `nobody` if the last ledger is open and its
    end is not known.
    """
    known = F.coalesce(F.array_max(F.transform("ranges", _last_known)), F.lit(0))
    last = F.try_element_at("ranges", F.lit(-1))
    is_open = (F.size("ranges") > 0) & last["end"].isNull()
    if ends is None:
        asked, seen = ledgers, F.lit(None).cast("bigint")
        is_closed = F.lit(False)
    else:
        asked = ledgers.join(ends.select("topic", "last_entry_id", "is_closed"), on="topic", how="left")
        seen, is_closed = F.col("last_entry_id"), F.coalesce(F.col("is_closed"), F.lit(False))
    has_answer = is_open & seen.isNotNull()
    return asked.select(
        F.col("topic"),
        F.size("ranges").alias("ledgers"),
        F.try_element_at("ranges", F.lit(1))["start"].alias("first_message"),
        F.when(has_answer, F.greatest(known, last["start"] + seen)).otherwise(known).cast(UINT64).alias("last_message"),
        (~is_open | (has_answer & is_closed)).alias("is_exact"),
        F.when(has_answer, "ledger").when(is_open, "nobody").otherwise("record").alias("end_from"),
    )


def subscription_lags(subscriptions: DataFrame, positions: DataFrame) -> DataFrame:
    """Return how far each subscription is behind its topic; `positions` is from `topic_positions`.

    Columns: topic, subscriber (binary); consumed_message, last_message, lag_messages (decimal(20,0)); is_exact. The
    last three are null where the topic does not exist.
    """
    consumed = F.coalesce(F.col("state.consumed.local"), F.lit(0)).cast(UINT64)
    consumption = subscriptions.select("topic", "subscriber", consumed.alias("consumed_message"))
    joined = consumption.join(positions.select("topic", "last_message", "is_exact"), on="topic", how="left")
    return joined.select(
        "topic",
        "subscriber",
        "consumed_message",
        "last_message",
        _behind(F.col("last_message"), F.col("consumed_message")).alias("lag_messages"),
        "is_exact",
    )


def topic_standings(positions: DataFrame, lags: DataFrame) -> DataFrame:
    """Return one row for each topic that exists: its positions, and sums over its subscriptions.

    Columns: those of `topic_positions`; subscriptions (bigint); kept_messages: the number from the first to the last;
    backlog_messages: what the slowest subscriber has not consumed, null without subscriptions; total_lag_messages: the
    sum of all lags (decimal(38,0)).
    """
    summed = lags.groupBy("topic").agg(
        F.count(F.lit(1)).alias("subscriptions"),
        F.max("lag_messages").alias("backlog_messages"),
        F.sum(F.col("lag_messages").cast("decimal(38,0)")).alias("total_lag_messages"),
    )
    kept = F.when(F.col("first_message").isNotNull(), _behind(F.col("last_message") + 1, F.col("first_message")))
    return positions.join(summed, on="topic", how="left").select(
        *positions.columns,
        F.coalesce(F.col("subscriptions"), F.lit(0)).alias("subscriptions"),
        F.coalesce(kept, F.lit(0)).cast(UINT64).alias("kept_messages"),
        "backlog_messages",
        "total_lag_messages",
    )


def hub_loads(owners: DataFrame, living: DataFrame | None) -> DataFrame:
    """Return how many topics each incarnation of a hub owns, most first.

    Columns: hub (host:port:sslport and epoch); topics (bigint); share (of all owned topics) and skew (topics divided by
    the mean of all hubs in the frame), both null if no hub owns a topic; is_alive (null if `living` is None). The frame
    includes hubs that are alive and own nothing.

    Args: living - the hubs that are alive, with columns host, port, ssl_port and epoch; None if not known.
    """
    counted = owners.groupBy("host", "port", "ssl_port", "epoch").agg(F.count(F.lit(1)).alias("topics"))
    named = counted.select(hub_name().alias("hub"), "topics")
    if living is None:
        marked = named.withColumn("is_alive", F.lit(None).cast("boolean"))
    else:
        alive = living.select(hub_name().alias("hub")).distinct().withColumn("lives", F.lit(True))
        marked = named.join(alive, on="hub", how="full_outer").select(
            "hub",
            F.coalesce(F.col("topics"), F.lit(0)).alias("topics"),
            F.coalesce(F.col("lives"), F.lit(False)).alias("is_alive"),
        )
    everyone = Window.partitionBy()
    return marked.select(
        "hub",
        "topics",
        F.try_divide("topics", F.sum("topics").over(everyone)).alias("share"),
        F.try_divide("topics", F.avg("topics").over(everyone)).alias("skew"),
        "is_alive",
    ).orderBy(F.desc("topics"), "hub")


def fan_outs(subscriptions: DataFrame, most: int) -> DataFrame:
    """Return the `most` topics with the most subscriptions: topic (binary), subscriptions (bigint), most first."""
    counted = subscriptions.groupBy("topic").agg(F.count(F.lit(1)).alias("subscriptions"))
    return counted.orderBy(F.desc("subscriptions"), "topic").limit(most)


def powers_of(frame: DataFrame, column: str) -> DataFrame:
    """Return how many whole numbers of each size `column` has: `from_value` (0, 1, 2, 4, 8 …) and `rows`.

    The row of 4 counts the numbers 4 to 7.
    """
    value = F.col(column)
    least = F.when(value < 1, F.lit(0.0)).otherwise(F.pow(F.lit(2.0), F.floor(F.log2(value.cast("double")))))
    counted = frame.where(value.isNotNull()).groupBy(least.cast("decimal(20,0)").alias("from_value"))
    return counted.agg(F.count(F.lit(1)).alias("rows")).orderBy("from_value")


def _last_known(held: Column) -> Column:
    """Return the last message up to the end of a range; for an open range, the last one before its start."""
    return F.greatest(F.coalesce(held["end"]["local"], held["start"] - 1, F.lit(0)), F.lit(0)).cast(UINT64)


def _behind(last: Column, consumed: Column) -> Column:
    # Spark's `greatest` of a null and a number is the number, so check for null.
    return F.when(last.isNotNull(), F.greatest(last - consumed, F.lit(0))).cast(UINT64)
