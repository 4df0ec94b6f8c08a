"""Pending and forecast: what fires when, from now to ten years.

pending             messages that wait, by topic and how soon (label); ``overdue`` if their moment is over
minute, hour, day   messages that fire in the next hour, two days, sixty days, by topic and moment (at_ms)
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark.points import DAY_MS, HOUR_MS, MINUTE_MS, Question, floor_to, points, some_positions, span_of, together
from spark.view import View

#: How far ahead each unit is counted.
AHEAD_MS = {"minute": (MINUTE_MS, HOUR_MS), "hour": (HOUR_MS, 2 * DAY_MS), "day": (DAY_MS, 60 * DAY_MS)}


def pending(view: View, question: Question) -> DataFrame:
    """Return the points of the dashboard."""
    now = F.lit(question.as_of_ms)
    waiting = view.items.where("ends = 0").withColumn("in_ms", F.col("due_ms") - now)
    soon = F.when(F.col("in_ms") < 0, "overdue").otherwise(span_of(F.col("in_ms")))
    counted = waiting.groupBy("shown", F.coalesce(soon, F.lit("unknown")).alias("soon")).agg(
        F.count("*").alias("count"), F.min_by("position", "due_ms").alias("first")
    )
    frames = [
        points(
            counted,
            "pending",
            F.col("count"),
            topic=F.col("shown"),
            label=F.col("soon"),
            positions=F.array("first"),
        )
    ]
    for name, (step_ms, ahead_ms) in AHEAD_MS.items():
        near = waiting.where((F.col("in_ms") >= 0) & (F.col("in_ms") < ahead_ms))
        by_moment = near.groupBy("shown", floor_to(F.col("due_ms"), step_ms).alias("at_ms")).agg(
            F.count("*").alias("count"), some_positions(F.col("position")).alias("positions")
        )
        frames.append(
            points(
                by_moment,
                name,
                F.col("count"),
                topic=F.col("shown"),
                at_ms=F.col("at_ms"),
                positions=F.slice("positions", 1, 10),
            )
        )
    return together(*frames)
