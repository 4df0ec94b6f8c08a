"""Parked messages and what became of each: the join on which lateness, forecast, cancellations and ledger rest.

Escapement names the parked record in whatever ends it (ESC_SOURCE, ESC_CANCELS, ESC_REPLACES: its position). Apache
RocketMQ names nothing: there the n-th release of a unique key on a topic is taken for the n-th parked record with them.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F


def parked_items(records: DataFrame) -> DataFrame:
    """Return one row a parked message, and one for each message that was ended, but never parked.

    Columns: position (null for what was never parked), shown, mode, exact, delay_level, due_ms, store_ms, size; of its
    first ending how (released, cancelled, replaced; null while it waits), ended_ms and ended_by (its position); ends
    (how many there are) and item (the position that they name).
    """
    parked = records.where("kind = 'parked'").select(
        "position", "shown", "mode", "exact", "delay_level", "due_ms", "store_ms", "size"
    )
    of_item = Window.partitionBy("item")
    numbered = endings(records).select(
        "*", F.row_number().over(of_item.orderBy("by")).alias("nth"), F.count("*").over(of_item).alias("all")
    )
    first = numbered.where("nth = 1")
    joined = parked.join(first, parked["position"] == first["item"], "full")
    return joined.select(
        "position",
        F.coalesce("shown", "ended_topic").alias("shown"),
        "mode",
        "exact",
        "delay_level",
        "due_ms",
        "store_ms",
        "size",
        "how",
        F.col("at_ms").alias("ended_ms"),
        F.col("by").alias("ended_by"),
        F.coalesce("all", F.lit(0)).alias("ends"),
        "item",
    )


def endings(records: DataFrame) -> DataFrame:
    """Return what ended parked messages: item (position of the parked record), how, by, at_ms, ended_topic."""
    item = (
        F.when(F.col("released"), F.col("source_position"))
        .when(F.col("kind") == "delete", F.col("cancels_position"))
        .when(F.col("kind") == "parked", F.col("replaces_position"))
    )
    how = F.when(F.col("released"), "released").when(F.col("kind") == "delete", "cancelled").otherwise("replaced")
    own = records.where(item.isNotNull()).select(
        item.alias("item"),
        how.alias("how"),
        F.col("position").alias("by"),
        F.col("store_ms").alias("at_ms"),
        F.col("shown").alias("ended_topic"),
    )
    return own.unionByName(_apache_endings(records))


def _apache_endings(records: DataFrame) -> DataFrame:
    """Match releases and deletes of Apache RocketMQ with what they end, within each unique key."""
    marks = records.where(
        "unique_key is not null and released and source_position is null"
        " or kind = 'delete' and not exact and deletes_key is not null"
    ).select(
        # the value of a delete is the key, or topic+key
        F.when(F.col("released"), F.col("unique_key"))
        .otherwise(F.regexp_replace("deletes_key", r"^[^+]*\+", ""))
        .alias("unique_key"),
        "released",
        "out_ms",
        "position",
        "store_ms",
        F.col("shown").alias("ended_topic"),
    )
    turn = Window.partitionBy("unique_key", "shown").orderBy("item")
    parked = (
        records.where("kind = 'parked'")
        .join(marks.select("unique_key").distinct(), "unique_key", "left_semi")
        .select(
            "unique_key",
            "shown",
            "exact",
            "mode",
            F.col("out_ms").alias("item_out_ms"),
            F.col("position").alias("item"),
        )
        .withColumn("nth", F.row_number().over(turn))
    )
    among = Window.partitionBy("unique_key", "ended_topic", "released").orderBy("position")
    found = marks.withColumn("mark", F.row_number().over(among)).join(parked, "unique_key")
    releases = F.col("released") & (F.col("ended_topic") == F.col("shown")) & (F.col("mark") == F.col("nth"))
    deletes = (
        ~F.col("released")
        & (F.col("mode") == "timer")
        & ~F.col("exact")
        & (F.col("out_ms") == F.col("item_out_ms"))
        & (F.col("item") < F.col("position"))
    )
    matched = (
        found.where(releases | deletes)
        .groupBy("item", "released")
        .agg(F.min("position").alias("by"), F.min("store_ms").alias("at_ms"), F.first("shown").alias("ended_topic"))
    )
    return matched.select(
        "item", F.when(F.col("released"), "released").otherwise("cancelled").alias("how"), "by", "at_ms", "ended_topic"
    )
