"""Dashboards of messages that wait for their moment or a decision, and of what became of them."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark.points import first_and_last, floor_to, points, quantiles, some_positions, span_of, together
from spark.question import AHEAD_MS, HOUR_MS, Question
from spark.view import View


def lateness(view: View, question: Question) -> DataFrame:
    """Lateness: when a message was released against when it was due; never below zero for one of ours by itself.

    A timer of ours that went out before its moment was delivered on somebody's word: the histogram counts it as early,
    and the other figures, which say how punctual the broker is, leave it out.

    histogram           released messages by span (part) and level or timer (label)
    late_count, _p50, _p95, _p99, _max   of the lateness in ms, by topic and level (label)
    hour_count, …                        the same by topic and hour (at_ms), for the map of hours and days
    """
    lane = F.when(F.col("mode") == "level", F.concat(F.lit("level "), F.col("delay_level").cast("string")))
    released = view.items.where("position is not null and how = 'released' and due_ms is not null").select(
        F.col("shown").alias("topic"),
        F.coalesce(lane, F.lit("timer")).alias("label"),
        F.col("ended_ms"),
        F.col("ended_by").alias("position"),
        (F.col("exact") & (F.col("ended_ms") < F.col("due_ms"))).alias("on_request"),
        # one that was sent with a moment already over is not late by that
        F.try_subtract("ended_ms", F.greatest("due_ms", "store_ms")).alias("late_ms"),
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


def pending(view: View, question: Question) -> DataFrame:
    """Pending and forecast: what fires when, from now to ten years.

    pending             messages that wait, by topic and how soon (label); ``overdue`` if their moment is over
    minute, hour, day   messages that fire in the next hour, two days, sixty days, by topic and moment (at_ms)
    """
    now = F.lit(question.as_of_ms)
    waiting = view.items.where("ends = 0").withColumn("in_ms", F.try_subtract("due_ms", now))
    soon = F.when(F.col("in_ms") < 0, "overdue").otherwise(span_of(F.col("in_ms")))
    counted = waiting.groupBy("shown", F.coalesce(soon, F.lit("unknown")).alias("soon")).agg(
        F.count("*").alias("count"), F.min_by("position", F.struct("due_ms", "position")).alias("first")
    )
    frames = [
        points(
            counted, "pending", F.col("count"), topic=F.col("shown"), label=F.col("soon"), positions=F.array("first")
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


def cancellations(view: View, question: Question) -> DataFrame:
    """Cancellations and reschedules: how long before its moment a message was called back, and how many are.

    before      cancelled or replaced (label) messages by how long before they were due (part)
    fate        parked messages by what became of them (label: released, cancelled, replaced, pending)
    share       cancelled or replaced (label) of all that were parked, 0 to 1
    """
    items = view.items.where("position is not null").select(
        F.col("shown").alias("topic"),
        F.coalesce("how", F.lit("pending")).alias("label"),
        F.try_subtract("due_ms", "ended_ms").alias("before_ms"),
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


def transactions(view: View, question: Question) -> DataFrame:
    """Transactions: how long producers take to decide, what they decide, how often they had to be asked.

    outcome       transactions by producer group (label) and outcome (part): committed, rolled back, stuck, open
    decide_…      count, p50, p95, p99, max of the ms from half to decision, by topic and group (label)
    checks        times a producer was asked, by topic and group (label)
    checked       transactions by how often they were asked about (label)
    """
    known = view.halves.withColumn("label", F.coalesce("producer_group", F.lit("")))
    by = {"topic": F.col("topic"), "label": F.col("label")}
    behind = first_and_last(F.col("position")).alias("behind")
    counted = F.count("*").alias("count")
    outcome = known.groupBy("topic", "label", F.col("outcome").alias("part")).agg(counted, behind)
    # a producer may have put any number there
    asked = (
        known.where("checks > 0")
        .groupBy("topic", "label")
        .agg(F.sum(F.col("checks").cast("decimal(19)")).alias("checks"), behind)
    )
    often = known.groupBy("topic", F.col("checks").cast("string").alias("label")).agg(counted, behind)
    took_ms = F.try_subtract("decided_ms", "store_ms")
    return together(
        points(outcome, "outcome", F.col("count"), part=F.col("part"), positions=F.col("behind"), **by),
        quantiles(known, took_ms, "decide_", "topic", "label", position=F.col("position")),
        points(asked, "checks", F.col("checks"), positions=F.col("behind"), **by),
        points(often, "checked", F.col("count"), positions=F.col("behind"), **by),
    )
