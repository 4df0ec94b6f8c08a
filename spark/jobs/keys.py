"""Keys: the busiest business keys, and the life of an order from its first message to its last.

hot        messages sent with a key (label), by topic, the busiest few; at_ms is the first
reach      keys seen on a topic: the funnel that orders go through
life_…     count, p50, p95, p99, max of the ms between the first and the last message of a key, by the topic of the
           first; keys with one message only are left out
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark.points import Question, points, quantiles, together
from spark.view import View


def keys(view: View, question: Question) -> DataFrame:
    """Return the points of the dashboard."""
    records = view.records
    named = (
        records.where("keys is not null and kind in ('plain', 'parked', 'half')")
        .select(
            F.explode(F.array_distinct(F.split("keys", " "))).alias("key"),
            F.col("shown").alias("topic"),
            "store_ms", "position", "sent",
        )
        .where("key <> ''")
    )  # fmt: skip
    by_topic = named.groupBy("topic", "key").agg(
        F.count_if("sent").alias("sent"),
        F.count("*").alias("records"),
        F.min("store_ms").alias("first_ms"),
        F.max("store_ms").alias("last_ms"),
        F.min("position").alias("first"),
    )
    rank = Window.partitionBy("topic").orderBy(F.desc("sent"), "first")
    hot = by_topic.where("sent > 0").withColumn("rank", F.row_number().over(rank))
    lives = by_topic.groupBy("key").agg(
        F.sum("records").alias("records"),
        F.min_by("topic", "first").alias("topic"),
        (F.max("last_ms") - F.min("first_ms")).alias("life_ms"),
    )
    reach = by_topic.groupBy("topic").count()
    return together(
        points(
            hot.where(F.col("rank") <= question.top), "hot", F.col("sent"), topic=F.col("topic"), label=F.col("key"),
            at_ms=F.col("first_ms"), positions=F.array("first"),
        ),
        points(reach, "reach", F.col("count"), topic=F.col("topic")),
        quantiles(lives.where("records > 1"), F.col("life_ms"), "life_", "topic"),
    )  # fmt: skip
