"""Half messages and what became of each.

Escapement writes one half record a transaction, and says in the op record what was decided (ESC_DECISIONS). Apache
RocketMQ writes a half again with each check (a chain of records, of which the decision names one), and an op record
that does not say whether it was a commit: it was, if a message names one of the chain (prepared position).
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F


def half_messages(records: DataFrame) -> DataFrame:
    """Return one row a transaction.

    Columns: position (of its first half), topic (the real one), producer_group, store_ms, size, checks, outcome
    (committed, rolled back, stuck, open), decided_ms, copies (messages that its commit made), said (what the op record
    says: c, r, or ? where it does not tell; null without one).
    """
    order = Window.partitionBy("unique_key", "producer_group").orderBy("position")
    # one more wherever a record was not put back; what has no key is a chain of its own
    chain = F.when(F.col("unique_key").isNull(), F.col("position")).otherwise(
        F.sum(F.when(F.col("put_back"), 0).otherwise(1)).over(order)
    )
    halves = (
        records.where("kind = 'half'")
        .select(
            "position",
            "queue_offset",
            "unique_key",
            "producer_group",
            "shown",
            "store_ms",
            "size",
            "check_times",
            "put_back",
        )
        .join(_said_of_offsets(records), "queue_offset", "left")
        .join(_said_of_positions(records), "position", "left")
        .withColumn("chain", chain)
    )
    found = halves.groupBy("unique_key", "producer_group", "chain").agg(
        F.min("position").alias("position"),
        F.min_by("shown", "position").alias("topic"),
        F.min("store_ms").alias("store_ms"),
        F.sum("size").alias("size"),
        F.greatest(F.max("check_times"), F.coalesce(F.max("asked"), F.lit(0))).alias("checks"),
        F.min("said").alias("said"),
        F.least(F.min("op_ms"), F.min("copied_ms")).alias("decided_ms"),
        F.coalesce(F.sum("copies"), F.lit(0)).alias("copies"),
        F.coalesce(F.bool_or("stuck"), F.lit(False)).alias("stuck"),
    )
    by_key = records.where("kind = 'stuck' and stuck_position is null").select("unique_key").distinct()
    found = found.join(F.broadcast(by_key.withColumn("stuck_key", F.lit(True))), "unique_key", "left")
    outcome = (
        F.when((F.col("said") == "c") | (F.col("copies") > 0), "committed")
        .when(F.col("said").isNotNull(), "rolled back")
        .when(F.col("stuck") | F.col("stuck_key"), "stuck")
        .otherwise("open")
    )
    return found.select(
        "position",
        "topic",
        "producer_group",
        "store_ms",
        "size",
        "checks",
        outcome.alias("outcome"),
        "decided_ms",
        "copies",
        "said",
    )


def _said_of_offsets(records: DataFrame) -> DataFrame:
    """Return what ops and notes say of half offsets: said (c, r, ?; the first word counts), op_ms, asked."""
    words = F.split(F.col("body").cast("string"), ",")
    offsets = F.filter(words, lambda word: word.rlike("^[0-9]{1,18}$"))
    letters = F.regexp_extract_all("decisions", F.lit(r"([cr])\d+"), F.lit(1))
    said = F.when(F.size(letters) == F.size(offsets), letters).otherwise(F.transform(offsets, lambda _: F.lit("?")))
    counts = F.filter(words, lambda word: word.rlike("^[0-9]{1,18}:[0-9]{1,9}$"))
    is_op = F.col("kind") == "op"
    pairs = F.when(is_op, F.arrays_zip(offsets.alias("place"), said.alias("word"))).otherwise(
        F.transform(
            counts,
            lambda pair: F.struct(
                F.substring_index(pair, ":", 1).alias("place"), F.substring_index(pair, ":", -1).alias("word")
            ),
        )
    )
    spread = records.where("kind in ('op', 'note')").select(
        is_op.alias("is_op"), "position", "store_ms", F.explode(pairs).alias("pair")
    )
    return spread.groupBy(F.col("pair.place").cast("bigint").alias("queue_offset")).agg(
        F.min_by("pair.word", F.when(F.col("is_op"), F.col("position"))).alias("said"),
        F.min(F.when(F.col("is_op"), F.col("store_ms"))).alias("op_ms"),
        F.max(F.when(~F.col("is_op"), F.col("pair.word").cast("int"))).alias("asked"),
    )


def _said_of_positions(records: DataFrame) -> DataFrame:
    """Return what copies say of the half that they name: copies, copied_ms, stuck."""
    named = F.when(F.col("committed"), F.col("prepared_position")).otherwise(F.col("stuck_position"))
    return (
        records.where("committed or kind = 'stuck' and stuck_position is not null")
        .groupBy(named.alias("position"))
        .agg(
            F.count_if("committed").alias("copies"),
            F.min(F.when(F.col("committed"), F.col("store_ms"))).alias("copied_ms"),
            F.bool_or(F.col("kind") == "stuck").alias("stuck"),
        )
    )
