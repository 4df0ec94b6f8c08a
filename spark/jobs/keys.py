"""Keys: the busiest business keys, and the life of an order from its first message to its last.

hot        messages sent with a key (label), by topic, the busiest few; at_ms is the first
reach      keys seen on a topic: the funnel that orders go through
life_…     count, p50, p95, p99, max of the ms between the first and the last message of a key, by the topic of the
           first; keys with one message only are left out
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark.points import Question, points, quantiles, together
from spark.view import View

#: Spark makes places as few as it can; the hash table of one has to fit into memory, or its rows are sorted on disk.
_PLACES_A_CORE = 4


def keys(view: View, question: Question) -> DataFrame:
    """Return the points of the dashboard."""
    # topics travel as numbers: hash tables hold those in place
    topics = view.records.where("shown is not null").select("shown").distinct()
    topics = F.broadcast(topics.select(F.col("shown").alias("topic"), F.xxhash64("shown").alias("about")))
    # all records of a key come to one place once, for both ways to count them
    words = _words(view.records).repartition(_PLACES_A_CORE * _cores(view), "key")
    busy = words.groupBy("about", "key").agg(
        F.count_if("sent").alias("sent"), F.min("store_ms").alias("first_ms"), F.min("position").alias("first")
    )
    best = F.expr(
        "min_by(struct(key, sent, first_ms, first), struct(-sent AS most, first, key), "
        f"{int(question.top)}) FILTER (WHERE sent > 0)"
    )
    by_topic = busy.groupBy("about").agg(
        F.count("*").alias("keys"), best.alias("best"), F.min("first").alias("first_of_all")
    )
    reach = _line("reach", F.lit(""), F.col("keys"), F.lit(None).cast("bigint"), F.col("first_of_all"))
    hot = F.transform(
        F.coalesce("best", F.array()),
        lambda one: _line("hot", one["key"], one["sent"], one["first_ms"], one["first"]),
    )
    figures = by_topic.join(topics, "about").select("topic", F.inline(F.concat(F.array(reach), hot)))
    lives = (
        words.groupBy("key")
        .agg(
            F.count("sent").alias("records"),
            F.min_by("about", "position").alias("about"),
            (F.max("store_ms") - F.min("store_ms")).alias("life_ms"),
            F.min("position").alias("first"),
        )
        .where("records > 1")
    )
    return together(
        points(
            figures,
            F.col("series"),
            F.col("value"),
            topic=F.col("topic"),
            label=F.col("key"),
            at_ms=F.col("first_ms"),
            positions=F.array("first"),
        ),
        quantiles(lives.join(topics, "about"), F.col("life_ms"), "life_", "topic", position=F.col("first")),
    )


def _cores(view: View) -> int:
    return int(view.records.sparkSession.sparkContext.defaultParallelism)


def _line(series: str, key: Column, value: Column, first_ms: Column, first: Column) -> Column:
    """Return one figure of a topic; structs of one array have the same names."""
    return F.struct(
        F.lit(series).alias("series"),
        key.alias("key"),
        value.alias("value"),
        first_ms.alias("first_ms"),
        first.alias("first"),
    )


def _words(records: DataFrame) -> DataFrame:
    """Return one row a key of a message: key, about (its topic's number), store_ms, position, sent."""
    named = records.where("keys is not null and kind in ('plain', 'parked', 'half')").select(
        F.col("keys").alias("key"), F.xxhash64("shown").alias("about"), "store_ms", "position", "sent"
    )
    # nearly all have one key: taking them apart costs more than looking twice
    has_several = F.col("key").contains(" ")
    several = named.where(has_several).withColumn("key", F.explode(F.array_distinct(F.split("key", " "))))
    return named.where(~has_several).unionByName(several).where("key <> ''")
