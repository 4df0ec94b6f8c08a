"""Dashboards of what the log holds: what fills its segments, and whether everything that was accepted is somewhere."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark.places import LOG, apart, log_of, position_at, position_of
from spark.points import floor_to, points, some_positions, together
from spark.question import DAY_MS, HOUR_MS, Question
from spark.view import View


def storage(view: View, question: Question) -> DataFrame:
    """Storage: what fills each segment, what holds it, how fast the log grows, and when a segment may go.

    content    bytes of a segment (label) by topic
    held       records of a segment (label) that still wait, by what they are (part: level, timer, half)
    held_bytes the same in bytes
    growth     bytes of the log by hour (at_ms) and topic
    expiry     when a segment (label) may be deleted (value and at_ms): old enough, and nothing in it waits any more;
               half messages that are open have no moment, they hold it until they are decided (value -1)

    Of several brokers those whose files are read; a segment is named with its broker then.
    """
    sized = _by_segment(view.records, question)
    hour = floor_to(F.col("store_ms"), HOUR_MS).alias("at_ms")
    filled = sized.groupBy("segment", "shown", hour).agg(
        F.sum("size").alias("bytes"), F.min("position").alias("first"), F.max("position").alias("last")
    )
    waiting = _by_segment(_waiting(view), question)
    held = waiting.groupBy("segment", "topic", "part").agg(
        F.count("*").alias("count"), F.sum("size").alias("bytes"), F.min("position").alias("first")
    )
    kept_ms = _retention_ms(F.col("segment"), question)
    last = sized.groupBy("segment").agg(F.max("store_ms").alias("last_ms"))
    last = last.select("segment", F.try_add("last_ms", kept_ms).alias("old_ms"))
    until = waiting.groupBy("segment").agg(
        F.max("due_ms").alias("held_ms"), F.bool_or(F.col("due_ms").isNull()).alias("undecided")
    )
    expiry = last.join(until, "segment", "left").select(
        "segment", F.when(F.col("undecided"), F.lit(-1)).otherwise(F.greatest("old_ms", "held_ms")).alias("at_ms")
    )
    label = _named(F.col("segment"), question)
    by = {"label": label, "topic": F.col("topic"), "part": F.col("part")}
    return together(
        _filled(filled, question),
        points(held, "held", F.col("count"), positions=F.array("first"), **by),
        points(held, "held_bytes", F.col("bytes"), **by),
        points(expiry, "expiry", F.col("at_ms"), label=label, at_ms=F.col("at_ms")),
    )


def _filled(filled: DataFrame, question: Question) -> DataFrame:
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
        label=_named(F.col("label"), question),
        at_ms=F.col("at_ms"),
        positions=F.col("behind"),
    )


def _by_segment(frame: DataFrame, question: Question) -> DataFrame:
    """Say of each row in which segment it lies; what lies in none is left out: of the archive, or of a log of several
    that is pulled."""
    position = F.col("position")
    firsts: dict[int, int] = {}
    for start, _ in question.segments:
        log = position_at(start)[0] if question.brokers else 0
        firsts[log] = min(start, firsts.get(log, start))
    if question.brokers:
        within = F.lit(False)
        for log, first in firsts.items():
            within |= (log_of(position) == log) & (position >= first)
        frame = frame.where(within)
    elif firsts:
        frame = frame.where(position >= firsts[0])
    return frame.withColumn("segment", _segment_of(position, question))


def _named(segment: Column, question: Question) -> Column:
    """Return the name of a segment: its first position, of several logs behind the name of the broker."""
    if not question.brokers:
        return segment
    broker = F.element_at(F.array(*map(F.lit, question.brokers)), (log_of(segment) + 1).cast("int"))
    return F.concat(broker, F.lit(" "), position_of(segment).cast("string"))


def _retention_ms(segment: Column, question: Question) -> Column:
    """Return for how long the broker of a segment keeps it."""
    found = F.lit(question.retention_ms)
    for log, kept_ms in question.retentions_ms.items():
        found = F.when(log_of(segment) == log, F.lit(kept_ms)).otherwise(found)
    return found


def _segment_of(place: Column, question: Question) -> Column:
    """Return the first position of the segment that holds a record."""
    starts: dict[int, list[int]] = defaultdict(list)
    for start, _ in sorted(question.segments):
        starts[position_at(start)[0]].append(start)
    if len(starts) < 2:
        return _segment_among(place, next(iter(starts.values()), [0]))
    found = F.lit(None).cast("bigint")
    for log, of_log in starts.items():
        found = F.when(log_of(place) == log, _segment_among(place, of_log)).otherwise(found)
    return found


def _segment_among(place: Column, starts: list[int]) -> Column:
    if len(starts) < 2:
        return F.lit(starts[0]).cast("bigint")
    # segments of one store are of one size; a file can be shorter, where it was not copied whole
    size = min(later - start for start, later in pairwise(starts))
    return place - F.pmod(place - F.lit(starts[0]), F.lit(size))


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


def ledger(view: View, question: Question) -> DataFrame:
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
    own = apart(view.records)
    begin = F.broadcast(view.records.groupBy(*own).agg(F.min("position").alias("begin")))
    overdue = (F.col("ends") == 0) & (F.col("due_ms") < question.as_of_ms - question.grace_ms)
    of_items = F.when(F.col("position").isNull(), "unknown").when(F.col("ends") > 1, "twice").when(overdue, "overdue")
    of_halves = F.when((F.col("said") == "c") & (F.col("copies") == 0), "no copy").when(
        F.col("copies") > 1, "two copies"
    )
    mine = log_of(F.coalesce("position", "item")) == F.col(LOG) if own else None
    items = view.items.join(begin, mine).where("position is not null or item >= begin")
    found = together(
        items.select(
            F.col("shown").alias("topic"), of_items.alias("part"), F.coalesce("position", "ended_by").alias("at")
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
