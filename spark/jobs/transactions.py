"""Transactions: how long producers take to decide, what they decide, how often they had to be asked.

outcome       transactions by producer group (label) and outcome (part): committed, rolled back, stuck, open
decide_…      count, p50, p95, p99, max of the ms from half to decision, by topic and group (label)
checks        times a producer was asked, by topic and group (label)
checked       transactions by how often they were asked about (label)
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark.points import Question, first_and_last, points, quantiles, together
from spark.view import View


def transactions(view: View, question: Question) -> DataFrame:
    """Return the points of the dashboard."""
    known = view.halves.withColumn("label", F.coalesce("producer_group", F.lit("")))
    by = {"topic": F.col("topic"), "label": F.col("label")}
    behind = first_and_last(F.col("position")).alias("behind")
    counted = F.count("*").alias("count")
    outcome = known.groupBy("topic", "label", F.col("outcome").alias("part")).agg(counted, behind)
    asked = known.where("checks > 0").groupBy("topic", "label").agg(F.sum("checks").alias("checks"), behind)
    often = known.groupBy("topic", F.col("checks").cast("string").alias("label")).agg(counted, behind)
    took_ms = F.col("decided_ms") - F.col("store_ms")
    return together(
        points(outcome, "outcome", F.col("count"), part=F.col("part"), positions=F.col("behind"), **by),
        quantiles(known, took_ms, "decide_", "topic", "label", position=F.col("position")),
        points(asked, "checks", F.col("checks"), positions=F.col("behind"), **by),
        points(often, "checked", F.col("count"), positions=F.col("behind"), **by),
    )
