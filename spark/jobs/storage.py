"""Storage: what fills each segment, what holds it, how fast the log grows, and when a segment may go.

content    bytes of a segment (label) by topic
held       records of a segment (label) that still wait, by what they are (part: level, timer, half)
held_bytes the same in bytes
growth     bytes of the log by hour (at_ms) and topic
expiry     when a segment (label) may be deleted (value and at_ms): old enough, and nothing in it waits any more;
           half messages that are open have no moment, they hold it until they are decided (value -1)
"""

from __future__ import annotations

from itertools import pairwise

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark.points import HOUR_MS, Question, floor_to, points, together
from spark.view import View


def storage(view: View, question: Question) -> DataFrame:
    """Return the points of the dashboard."""
    sized = view.records.withColumn("segment", _segment_of(F.col("position"), question))
    hour = floor_to(F.col("store_ms"), HOUR_MS).alias("at_ms")
    filled = sized.groupBy("segment", "shown", hour).agg(
        F.sum("size").alias("bytes"), F.min("position").alias("first"), F.max("position").alias("last")
    )
    waiting = _waiting(view).withColumn("segment", _segment_of(F.col("position"), question))
    held = waiting.groupBy("segment", "topic", "part").agg(
        F.count("*").alias("count"), F.sum("size").alias("bytes"), F.min("position").alias("first")
    )
    last = sized.groupBy("segment").agg((F.max("store_ms") + question.retention_ms).alias("old_ms"))
    until = waiting.groupBy("segment").agg(
        F.max("due_ms").alias("held_ms"), F.bool_or(F.col("due_ms").isNull()).alias("undecided")
    )
    expiry = last.join(until, "segment", "left").select(
        "segment",
        F.when(F.col("undecided"), F.lit(-1)).otherwise(F.greatest("old_ms", "held_ms")).alias("at_ms"),
    )
    by = {"label": F.col("segment"), "topic": F.col("topic"), "part": F.col("part")}
    return together(
        _filled(filled),
        points(held, "held", F.col("count"), positions=F.array("first"), **by),
        points(held, "held_bytes", F.col("bytes"), **by),
        points(expiry, "expiry", F.col("at_ms"), label=F.col("segment"), at_ms=F.col("at_ms")),
    )


def _filled(filled: DataFrame) -> DataFrame:
    """Add up what fills the log, once by segment and once by hour."""
    both = F.array(
        F.struct(F.lit("content").alias("series"), F.col("segment").alias("label"), F.lit(None).alias("at_ms")),
        F.struct(F.lit("growth").alias("series"), F.lit(None).alias("label"), F.col("at_ms")),
    )
    spread = filled.select("shown", "bytes", "first", "last", F.inline(both)).where(
        "series = 'content' or at_ms is not null"
    )
    summed = spread.groupBy("series", "shown", "label", "at_ms").agg(
        F.sum("bytes").alias("bytes"), F.array_distinct(F.array(F.min("first"), F.max("last"))).alias("behind")
    )
    return points(
        summed,
        F.col("series"),
        F.col("bytes"),
        topic=F.col("shown"),
        label=F.col("label"),
        at_ms=F.col("at_ms"),
        positions=F.col("behind"),
    )


def _segment_of(position: Column, question: Question) -> Column:
    """Return the first position of the segment that holds a record."""
    starts = sorted(start for start, _ in question.segments)
    if len(starts) < 2:
        return F.lit(starts[0] if starts else 0).cast("bigint")
    # segments of one store are of one size; a file can be shorter, where it was not copied whole
    size = min(later - start for start, later in pairwise(starts))
    return position - F.pmod(position - F.lit(starts[0]), F.lit(size))


def _waiting(view: View) -> DataFrame:
    parked = view.items.where("ends = 0")
    halves = view.halves.where("outcome in ('open', 'stuck')")
    return parked.select(
        F.col("shown").alias("topic"), F.col("mode").alias("part"), "position", "size", "due_ms"
    ).unionByName(
        halves.select(
            "topic", F.lit("half").alias("part"), "position", "size", F.lit(None).cast("bigint").alias("due_ms")
        )
    )
