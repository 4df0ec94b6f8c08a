"""The points that a dashboard is made of, with the same columns for all.

series     which figure            topic   whom it is about ("" for all)
label      what is counted         part    a second way to divide it
at_ms      the moment or bucket    value   the figure
positions  records behind it: all that an alarm names, else the first and the last; of a maximum the one that has it

No checksum covers the times in a record's head, and the sender says one of them: of two that are so far apart that 64
bits do not hold it, the difference is missing (``try_subtract``), and no reason to have no figures at all.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from .question import MOST_POSITIONS, SPANS


def points(
    frame: DataFrame,
    series: str | Column,
    value: Column,
    *,
    topic: Column | None = None,
    label: Column | None = None,
    part: Column | None = None,
    at_ms: Column | None = None,
    positions: Column | None = None,
) -> DataFrame:
    """Return a frame as points of one series."""
    return frame.select(
        (F.lit(series) if isinstance(series, str) else series).alias("series"),
        F.coalesce(F.lit("") if topic is None else topic, F.lit("")).alias("topic"),
        F.coalesce(F.lit("") if label is None else label.cast("string"), F.lit("")).alias("label"),
        F.coalesce(F.lit("") if part is None else part.cast("string"), F.lit("")).alias("part"),
        (F.lit(None) if at_ms is None else at_ms).cast("bigint").alias("at_ms"),
        value.cast("double").alias("value"),
        (F.lit(None) if positions is None else positions).cast("array<bigint>").alias("positions"),
    )


def together(*frames: DataFrame) -> DataFrame:
    """Return all points of a job."""
    return reduce(DataFrame.unionAll, frames)


def floor_to(moment: Column, step_ms: int) -> Column:
    """Return the beginning of the bucket of a moment."""
    return F.try_subtract(moment, F.pmod(moment, F.lit(step_ms)))


def span_of(length_ms: Column) -> Column:
    """Return the name of the span in which a length of time lies."""
    named = F.when(length_ms < SPANS[0][0], SPANS[0][1])
    for bound, name in SPANS[1:]:
        named = named.when(length_ms < bound, name)
    return named


def some_positions(position: Column) -> Column:
    """Return the first positions of a group, in order."""
    return F.slice(F.sort_array(F.collect_list(position)), 1, MOST_POSITIONS)


def first_and_last(position: Column) -> Column:
    """Return the first and the last position of a group; nulls count for nothing."""
    return F.array_compact(F.array_distinct(F.array(F.min(position), F.max(position))))


def quantiles(frame: DataFrame, value: Column, prefix: str, *by: str, position: Column) -> DataFrame:
    """Return count, p50, p95, p99 and max of a whole value by some of the columns topic, label, part and at_ms.

    A percentile is the smallest value that at least so large a share of the values does not exceed. The maximum names
    the ``position`` of the first that has it.
    """
    # equal values are counted first: what has to be put in order is less then
    counted = (
        frame.where(value.isNotNull())
        .groupBy(*by, value.alias("measured"))
        .agg(F.count("*").alias("count"), F.min(position).alias("at"))
    )
    group = Window.partitionBy(*by)
    ranked = counted.select(
        *by,
        "measured",
        "count",
        "at",
        F.sum("count").over(group.orderBy("measured")).alias("up_to"),
        F.sum("count").over(group).alias("all"),
    )
    grouped = ranked.groupBy(*by).agg(
        F.sum("count").alias("count"),
        *[
            F.min(F.when(F.col("up_to") * 100 >= F.col("all") * share, F.col("measured"))).alias(f"p{share}")
            for share in (50, 95, 99)
        ],
        F.max("measured").alias("max"),
        F.max_by("at", "measured").alias("at"),
    )
    nothing = F.lit(None).cast("bigint")
    figures = [
        F.struct(
            F.lit(prefix + name).alias("name"),
            F.col(name).cast("double").alias("value"),
            (F.col("at") if name == "max" else nothing).alias("at"),
        )
        for name in ("count", "p50", "p95", "p99", "max")
    ]
    spread = grouped.select(*by, F.explode(F.array(*figures)).alias("figure"))
    given = {name: F.col(name) for name in by}
    worst = F.when(F.col("figure.at").isNotNull(), F.array("figure.at"))
    return points(spread, F.col("figure.name"), F.col("figure.value"), positions=worst, **given)
