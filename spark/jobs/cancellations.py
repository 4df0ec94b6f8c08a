"""Cancellations and reschedules: how long before its moment a message was called back, and how many are.

before      cancelled or replaced (label) messages by how long before they were due (part)
fate        parked messages by what became of them (label: released, cancelled, replaced, pending)
share       cancelled or replaced (label) of all that were parked, 0 to 1
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark.points import Question, first_and_last, points, span_of, together
from spark.view import View


def cancellations(view: View, question: Question) -> DataFrame:
    """Return the points of the dashboard."""
    items = view.items.where("position is not null").select(
        F.col("shown").alias("topic"),
        F.coalesce("how", F.lit("pending")).alias("label"),
        (F.col("due_ms") - F.col("ended_ms")).alias("before_ms"),
        "position",
    )
    counted = (F.count("*").alias("count"), first_and_last(F.col("position")).alias("behind"))
    ended = items.where("label in ('cancelled', 'replaced')")
    before = ended.groupBy("topic", "label", span_of(F.col("before_ms")).alias("part")).agg(*counted)
    fate = items.groupBy("topic", "label").agg(*counted)
    totals = items.groupBy("topic").agg(
        F.count("*").alias("all"),
        F.count_if(F.col("label") == "cancelled").alias("cancelled"),
        F.count_if(F.col("label") == "replaced").alias("replaced"),
    )
    shares = totals.unpivot(["topic", "all"], ["cancelled", "replaced"], "label", "count")
    columns = {"topic": F.col("topic"), "label": F.col("label")}
    return together(
        points(before, "before", F.col("count"), part=F.col("part"), positions=F.col("behind"), **columns),
        points(fate, "fate", F.col("count"), positions=F.col("behind"), **columns),
        points(shares, "share", F.col("count") / F.col("all"), **columns),
    )
