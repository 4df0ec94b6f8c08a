"""Flow: what is sent, released, committed and consumed, by topic and minute; how much it is; who sends most.

sent, released, committed   messages, by topic and minute (at_ms)
bytes                       of the log, by topic and minute
consumed                    of the messages that reached a topic in a minute, those a group (label) is past
producers                   messages sent, by address (label), the first few
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark.points import MINUTE_MS, Question, floor_to, points, together
from spark.view import View


def flow(view: View, question: Question) -> DataFrame:
    """Return the points of the dashboard."""
    records = view.records
    counted = (
        records.where("kind <> 'damage'")
        .withColumn("at_ms", floor_to(F.col("store_ms"), MINUTE_MS))
        .groupBy("shown", "at_ms")
        .agg(
            F.count_if("sent").cast("double").alias("sent"),
            F.count_if("released").cast("double").alias("released"),
            F.count_if("committed").cast("double").alias("committed"),
            F.sum("size").cast("double").alias("bytes"),
        )
    )
    by_minute = (
        counted.unpivot(["shown", "at_ms"], ["sent", "released", "committed", "bytes"], "series", "value")
        .where("value > 0")
        .transform(
            lambda frame: points(frame, F.col("series"), F.col("value"), topic=F.col("shown"), at_ms=F.col("at_ms"))
        )
    )
    return together(by_minute, _consumed(records, question), _producers(records, question))


def _consumed(records: DataFrame, question: Question) -> DataFrame:
    session = records.sparkSession
    offsets = session.createDataFrame(
        list(question.offsets), "topic string, consumer string, queue_id int, next_offset bigint"
    )
    past = (
        records.where("kind = 'plain'")
        .select("topic", "queue_id", "queue_offset", floor_to(F.col("store_ms"), MINUTE_MS).alias("at_ms"))
        .join(F.broadcast(offsets), ["topic", "queue_id"])
        .where("queue_offset < next_offset")
        .groupBy("topic", "consumer", "at_ms")
        .count()
    )
    return points(past, "consumed", F.col("count"), topic=F.col("topic"), label=F.col("consumer"), at_ms=F.col("at_ms"))


def _producers(records: DataFrame, question: Question) -> DataFrame:
    address = F.regexp_replace("born_host", r":[0-9]+$", "")
    # by topic, because not everybody may see every topic
    counted = records.where("sent").groupBy("shown", "born_host").count()
    summed = counted.groupBy("shown", address.alias("label")).agg(F.sum("count").alias("value"))
    return points(summed, "producers", F.col("value"), topic=F.col("shown"), label=F.col("label"))
