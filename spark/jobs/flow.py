"""Flow: what is sent, released, committed and consumed, by topic and minute; how much it is; who sends most.

sent, released, committed   messages, by topic and minute (at_ms); a timer that is moved was sent once
bytes                       of the log, by topic and minute
consumed                    of the messages that reached a topic in a minute, those a group (label) is past
producers                   messages sent, by address (label), the first few
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark.points import MINUTE_MS, Question, first_and_last, floor_to, points, together
from spark.view import View

_COUNTED = ("sent", "released", "committed")


def flow(view: View, question: Question) -> DataFrame:
    """Return the points of the dashboard."""
    records = view.records
    counted = (
        records.where("kind <> 'damage'")
        .withColumn("at_ms", floor_to(F.col("store_ms"), MINUTE_MS))
        .groupBy("shown", "at_ms")
        .agg(
            *[_figure(name, F.count_if(name), F.when(F.col(name), F.col("position"))) for name in _COUNTED],
            _figure("bytes", F.sum("size"), F.col("position")),
        )
    )
    spread = counted.select("shown", "at_ms", F.inline(F.array(*_COUNTED, "bytes"))).where("value > 0")
    by_minute = points(
        spread, F.col("series"), F.col("value"), topic=F.col("shown"), at_ms=F.col("at_ms"), positions=F.col("behind")
    )
    known = [_consumed(records, question)] if question.offsets else []
    return together(by_minute, *known, _producers(records, question))


def _figure(series: str, value: Column, position: Column) -> Column:
    """Return one figure of a minute; structs of one array have the same names."""
    return F.struct(
        F.lit(series).alias("series"), value.alias("value"), first_and_last(position).alias("behind")
    ).alias(series)


def _consumed(records: DataFrame, question: Question) -> DataFrame:
    session = records.sparkSession
    offsets = session.createDataFrame(
        list(question.offsets), "topic string, consumer string, queue_id int, next_offset bigint"
    )
    past = (
        records.where("kind = 'plain'")
        .select("position", "topic", "queue_id", "queue_offset", floor_to(F.col("store_ms"), MINUTE_MS).alias("at_ms"))
        .join(F.broadcast(offsets), ["topic", "queue_id"])
        .where("queue_offset < next_offset")
        .groupBy("topic", "consumer", "at_ms")
        .agg(F.count("*").alias("count"), first_and_last(F.col("position")).alias("behind"))
    )
    return points(
        past,
        "consumed",
        F.col("count"),
        topic=F.col("topic"),
        label=F.col("consumer"),
        at_ms=F.col("at_ms"),
        positions=F.col("behind"),
    )


def _producers(records: DataFrame, question: Question) -> DataFrame:
    address = F.regexp_replace("born_host", r":[0-9]+$", "")
    # by topic, because not everybody may see every topic
    counted = (
        records.where("sent")
        .groupBy("shown", "born_host")
        .agg(F.count("*").alias("count"), F.min("position").alias("first"), F.max("position").alias("last"))
    )
    summed = counted.groupBy("shown", address.alias("label")).agg(
        F.sum("count").alias("value"), F.array_distinct(F.array(F.min("first"), F.max("last"))).alias("behind")
    )
    return points(
        summed, "producers", F.col("value"), topic=F.col("shown"), label=F.col("label"), positions=F.col("behind")
    )
