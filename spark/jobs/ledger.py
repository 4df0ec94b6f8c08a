"""Ledger: everything that was accepted is somewhere, by topic and day.

accepted                                   parked messages, by day (at_ms) of their record; label "scheduled"
released, cancelled, replaced, pending     what became of them
accepted, committed, rolled back, stuck, open     the same of half messages; label "transactions"
difference   accepted less all of these; any that is not zero is an alarm
alarm        what does not add up (part), with the positions:
             twice        ended by more than one record      unknown   ended, but never parked
             overdue      due for longer than the grace, and still there
             no copy      committed, but no message names it     two copies    committed twice
             lost         bytes of the log that hold no readable record
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark.points import DAY_MS, Question, floor_to, points, some_positions, together
from spark.view import View


def ledger(view: View, question: Question) -> DataFrame:
    """Return the points of the dashboard."""
    day = floor_to(F.col("store_ms"), DAY_MS).alias("at_ms")
    items = view.items.where("position is not null").select(
        F.col("shown").alias("topic"),
        day,
        F.lit("scheduled").alias("label"),
        F.coalesce("how", F.lit("pending")).alias("how"),
        F.greatest("ends", F.lit(1)).alias("entries"),
        "position",
    )
    halves = view.halves.select(
        "topic",
        day,
        F.lit("transactions").alias("label"),
        F.col("outcome").alias("how"),
        F.when(F.col("outcome") == "committed", F.col("copies")).otherwise(F.lit(1)).alias("entries"),
        "position",
    )
    return together(*_account(items.unionByName(halves)), _alarms(view, question))


def _account(entries: DataFrame) -> list[DataFrame]:
    """Enter each message once as accepted, and what became of it as often as the log says so."""
    by = {name: F.col(name) for name in ("topic", "at_ms", "label")}
    fates = entries.groupBy(*by, "how").agg(
        F.count("*").alias("count"),
        F.sum("entries").alias("entries"),
        F.min("position").alias("first"),
        F.max("position").alias("last"),
    )
    behind = F.array_distinct(F.array(F.min("first"), F.max("last"))).alias("behind")
    totals = fates.groupBy(*by).agg(
        F.sum("count").alias("accepted"), (F.sum("count") - F.sum("entries")).alias("difference"), behind
    )
    sums = totals.unpivot([*by, "behind"], ["accepted", "difference"], "series", "value")
    both = F.array_distinct(F.array("first", "last"))
    return [
        points(fates, F.col("how"), F.col("count"), positions=both, **by),
        points(sums, F.col("series"), F.col("value"), positions=F.col("behind"), **by),
    ]


def _alarms(view: View, question: Question) -> DataFrame:
    # what was parked before the first position that is left cannot be looked up any more
    begin = view.records.agg(F.min("position").alias("begin"))
    overdue = (F.col("ends") == 0) & (F.col("due_ms") < question.as_of_ms - question.grace_ms)
    of_items = F.when(F.col("position").isNull(), "unknown").when(F.col("ends") > 1, "twice").when(overdue, "overdue")
    of_halves = F.when((F.col("said") == "c") & (F.col("copies") == 0), "no copy").when(
        F.col("copies") > 1, "two copies"
    )
    items = view.items.join(F.broadcast(begin)).where("position is not null or item >= begin")
    found = together(
        items.select(
            F.col("shown").alias("topic"),
            of_items.alias("part"),
            F.coalesce("position", "ended_by").alias("at"),
        ),
        view.halves.select("topic", of_halves.alias("part"), F.col("position").alias("at")),
        view.records.where("corrupt is not null").select(
            F.lit("").alias("topic"), F.lit("lost").alias("part"), F.col("position").alias("at")
        ),
    )
    grouped = (
        found.where("part is not null")
        .groupBy("topic", "part")
        .agg(F.count("*").alias("count"), some_positions(F.col("at")).alias("positions"))
    )
    return points(
        grouped, "alarm", F.col("count"), topic=F.col("topic"), part=F.col("part"), positions=F.col("positions")
    )
