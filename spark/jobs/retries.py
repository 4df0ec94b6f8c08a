"""Retries and dead letters: how often groups need another try, how long that takes, and what never succeeds.

attempts    messages delivered again, by group (label) and the number of the try (part)
dead        messages given up, by group (label)
again_…     count, p50, p95, p99, max of the ms from the first send to the latest retry of messages not given up
poison      messages given up or tried again, by group (label) and key (part), the worst few; with their records
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from broker.rocketmq.topics import DLQ_PREFIX, RETRY_PREFIX
from spark.points import Question, first_and_last, points, quantiles, some_positions, together
from spark.view import View


def retries(view: View, question: Question) -> DataFrame:
    """Return the points of the dashboard."""
    records = view.records
    again = _of_group(records, RETRY_PREFIX)
    dead = _of_group(records, DLQ_PREFIX)
    by = {"topic": F.col("topic"), "label": F.col("label")}
    attempts = again.groupBy("topic", "label", F.col("reconsume_times").alias("part")).agg(
        F.count("*").alias("count"), first_and_last(F.col("position")).alias("behind")
    )
    given_up = dead.groupBy("topic", "label").agg(
        F.count("*").alias("count"), some_positions(F.col("position")).alias("positions")
    )
    latest = again.groupBy("topic", "label", "message").agg(
        (F.max("store_ms") - F.min("born_ms")).alias("took_ms"), F.max("position").alias("position")
    )
    alive = latest.join(dead.select("label", "message").distinct(), ["label", "message"], "left_anti")
    worst = (
        again.withColumn("dead", F.lit(0))
        .unionByName(dead.withColumn("dead", F.lit(1)))
        .where("key <> ''")
        .groupBy("topic", "label", "key")
        .agg(F.sum("dead").alias("dead"), F.count("*").alias("count"), some_positions(F.col("position")).alias("at"))
    )
    rank = Window.partitionBy("topic", "label").orderBy(F.desc("dead"), F.desc("count"), "key")
    poison = worst.withColumn("rank", F.row_number().over(rank)).where(F.col("rank") <= question.top)
    return together(
        points(attempts, "attempts", F.col("count"), part=F.col("part"), positions=F.col("behind"), **by),
        points(given_up, "dead", F.col("count"), positions=F.col("positions"), **by),
        quantiles(alive, F.col("took_ms"), "again_", "topic", "label", position=F.col("position")),
        points(poison, "poison", F.col("count"), part=F.col("key"), positions=F.col("at"), **by),
    )


def _of_group(records: DataFrame, prefix: str) -> DataFrame:
    """Return the messages on a topic with that prefix: topic, label (the group), message, key and the rest."""
    named = F.substring("topic", len(prefix) + 1, 255)
    # a group that pops has a topic for each topic it reads, <group>_<topic> or <group>+<topic>: the record says which
    begins = [named.startswith(F.concat("origin_group", F.lit(sign))) for sign in ("_", "+")]
    return records.where((F.col("kind") == "plain") & F.col("topic").startswith(prefix)).select(
        "topic",
        F.when(begins[0] | begins[1], F.col("origin_group")).otherwise(named).alias("label"),
        F.coalesce("origin_id", "unique_key", F.col("position").cast("string")).alias("message"),
        F.coalesce(F.col("keys"), F.col("unique_key"), F.lit("")).alias("key"),
        "reconsume_times",
        "born_ms",
        "store_ms",
        "position",
    )
