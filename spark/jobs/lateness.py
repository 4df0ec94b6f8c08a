"""Lateness: when a message was released against when it was due; never below zero for one of ours by itself.

A timer of ours that went out before its moment was delivered on somebody's word: the histogram counts it as early, and
the other figures, which say how punctual the broker is, leave it out.

histogram           released messages by span (part) and level or timer (label)
late_count, _p50, _p95, _p99, _max   of the lateness in ms, by topic and level (label)
hour_count, …                        the same by topic and hour (at_ms), for the map of hours and days
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark.points import HOUR_MS, Question, first_and_last, floor_to, points, quantiles, span_of, together
from spark.view import View


def lateness(view: View, question: Question) -> DataFrame:
    """Return the points of the dashboard."""
    lane = F.when(F.col("mode") == "level", F.concat(F.lit("level "), F.col("delay_level").cast("string")))
    released = view.items.where("position is not null and how = 'released' and due_ms is not null").select(
        F.col("shown").alias("topic"),
        F.coalesce(lane, F.lit("timer")).alias("label"),
        F.col("ended_ms"),
        F.col("ended_by").alias("position"),
        (F.col("exact") & (F.col("ended_ms") < F.col("due_ms"))).alias("on_request"),
        # one that was sent with a moment already over is not late by that
        (F.col("ended_ms") - F.greatest("due_ms", "store_ms")).alias("late_ms"),
    )
    spans = released.groupBy("topic", "label", span_of(F.col("late_ms")).alias("part")).agg(
        F.count("*").alias("count"), first_and_last(F.col("position")).alias("behind")
    )
    timely = released.where("not on_request")
    hours = timely.withColumn("at_ms", floor_to(F.col("ended_ms"), HOUR_MS))
    return together(
        points(
            spans,
            "histogram",
            F.col("count"),
            topic=F.col("topic"),
            label=F.col("label"),
            part=F.col("part"),
            positions=F.col("behind"),
        ),
        quantiles(timely, F.col("late_ms"), "late_", "topic", "label", position=F.col("position")),
        quantiles(hours, F.col("late_ms"), "hour_", "topic", "at_ms", position=F.col("position")),
    )
