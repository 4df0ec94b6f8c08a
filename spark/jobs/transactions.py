"""Transactions: how long producers take to decide, what they decide, how often they had to be asked.

outcome       transactions by producer group (label) and outcome (part): committed, rolled back, stuck, open
decide_…      count, p50, p95, p99, max of the ms from half to decision, by topic and group (label)
checks        times a producer was asked, by topic and group (label)
checked       transactions by how often they were asked about (label)
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark.points import Question, points, quantiles, together
from spark.view import View


def transactions(view: View, question: Question) -> DataFrame:
    """Return the points of the dashboard."""
    known = view.halves.withColumn("label", F.coalesce("producer_group", F.lit("")))
    by = {"topic": F.col("topic"), "label": F.col("label")}
    outcome = known.groupBy("topic", "label", F.col("outcome").alias("part")).count()
    asked = known.groupBy("topic", "label").agg(F.sum("checks").alias("checks")).where("checks > 0")
    often = known.groupBy("topic", F.col("checks").cast("string").alias("label")).count()
    return together(
        points(outcome, "outcome", F.col("count"), part=F.col("part"), **by),
        quantiles(known, F.col("decided_ms") - F.col("store_ms"), "decide_", "topic", "label"),
        points(asked, "checks", F.col("checks"), **by),
        points(often, "checked", F.col("count"), **by),
    )
