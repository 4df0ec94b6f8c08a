"""The frames from which all dashboards are made, each derived once from the log and shared by the jobs.

What became of a parked message is the join on which lateness, forecast, cancellations and ledger rest. Escapement names
the parked record in whatever ends it (ESC_SOURCE, ESC_CANCELS, ESC_REPLACES: its position). Apache RocketMQ names
nothing: there the n-th release of a unique key on a topic is taken for the n-th parked record with them.

Escapement writes one half record a transaction, and says in the op record what was decided (ESC_DECISIONS). Apache
RocketMQ writes a half again with each check (a chain of records, of which the decision names one), and an op record
that does not say whether it was a commit: it was, if a message names one of the chain (prepared position).

Where the records are those of several logs, a position is a place (``places.py``), and all other keys go with the
number of the log: a message that a client sent again to another broker has the same unique key there.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from broker.rocketmq.topics import CHECKS_TOPIC, OP_TOPIC

from .columns import KINDS
from .places import apart

#: Columns that the jobs look at beside what each record is.
COLUMNS = (
    "position",
    "size",
    "topic",
    "queue_id",
    "queue_offset",
    "born_ms",
    "store_ms",
    "born_host",
    "reconsume_times",
    "prepared_position",
    "corrupt",
    "keys",
    "unique_key",
    "delay_level",
    "due_ms",
    "source_position",
    "body",
)
#: Topics whose bodies are the broker's own notes; others are not read.
NOTED_TOPICS = (OP_TOPIC, CHECKS_TOPIC)
#: Options with which the log is read for the jobs.
OPTIONS = {"columns": ",".join((*COLUMNS, *KINDS)), "body_topics": ",".join(NOTED_TOPICS)}


def parked_items(records: DataFrame) -> DataFrame:
    """Return one row a parked message, and one for each message that was ended, but never parked.

    Columns: position (null for what was never parked), shown, mode, exact, delay_level, due_ms, store_ms, size; of its
    first ending how (released, cancelled, replaced; null while it waits), ended_ms and ended_by (its position); ends
    (how many there are) and item (the position that they name).
    """
    parked = records.where("kind = 'parked'").select(
        "position", "shown", "mode", "exact", "delay_level", "due_ms", "store_ms", "size"
    )
    of_item = Window.partitionBy("item")
    numbered = endings(records).select(
        "*", F.row_number().over(of_item.orderBy("by")).alias("nth"), F.count("*").over(of_item).alias("all")
    )
    first = numbered.where("nth = 1")
    joined = parked.join(first, parked["position"] == first["item"], "full")
    return joined.select(
        "position",
        F.coalesce("shown", "ended_topic").alias("shown"),
        "mode",
        "exact",
        "delay_level",
        "due_ms",
        "store_ms",
        "size",
        "how",
        F.col("at_ms").alias("ended_ms"),
        F.col("by").alias("ended_by"),
        F.coalesce("all", F.lit(0)).alias("ends"),
        "item",
    )


def endings(records: DataFrame) -> DataFrame:
    """Return what ended parked messages: item (position of the parked record), how, by, at_ms, ended_topic."""
    item = (
        F.when(F.col("released"), F.col("source_position"))
        .when(F.col("kind") == "delete", F.col("cancels_position"))
        .when(F.col("kind") == "parked", F.col("replaces_position"))
    )
    how = F.when(F.col("released"), "released").when(F.col("kind") == "delete", "cancelled").otherwise("replaced")
    own = records.where(item.isNotNull()).select(
        item.alias("item"),
        how.alias("how"),
        F.col("position").alias("by"),
        F.col("store_ms").alias("at_ms"),
        F.col("shown").alias("ended_topic"),
    )
    return own.unionByName(_apache_endings(records))


def _apache_endings(records: DataFrame) -> DataFrame:
    """Match releases and deletes of Apache RocketMQ with what they end, within each unique key."""
    own = apart(records)
    marks = records.where(
        "unique_key is not null and released and source_position is null"
        " or kind = 'delete' and not exact and deletes_key is not null"
    ).select(
        # the value of a delete is the key, or topic+key
        F.when(F.col("released"), F.col("unique_key"))
        .otherwise(F.regexp_replace("deletes_key", r"^[^+]*\+", ""))
        .alias("unique_key"),
        "released",
        "out_ms",
        "position",
        "store_ms",
        F.col("shown").alias("ended_topic"),
        *own,
    )
    turn = Window.partitionBy("unique_key", "shown", *own).orderBy("item")
    parked = (
        records.where("kind = 'parked'")
        .join(marks.select("unique_key", *own).distinct(), ["unique_key", *own], "left_semi")
        .select(
            "unique_key",
            "shown",
            "exact",
            "mode",
            F.col("out_ms").alias("item_out_ms"),
            F.col("position").alias("item"),
            *own,
        )
        .withColumn("nth", F.row_number().over(turn))
    )
    among = Window.partitionBy("unique_key", "ended_topic", "released", *own).orderBy("position")
    found = marks.withColumn("mark", F.row_number().over(among)).join(parked, ["unique_key", *own])
    releases = F.col("released") & (F.col("ended_topic") == F.col("shown")) & (F.col("mark") == F.col("nth"))
    deletes = (
        ~F.col("released")
        & (F.col("mode") == "timer")
        & ~F.col("exact")
        & (F.col("out_ms") == F.col("item_out_ms"))
        & (F.col("item") < F.col("position"))
    )
    matched = (
        found.where(releases | deletes)
        .groupBy("item", "released")
        .agg(F.min("position").alias("by"), F.min("store_ms").alias("at_ms"), F.first("shown").alias("ended_topic"))
    )
    return matched.select(
        "item", F.when(F.col("released"), "released").otherwise("cancelled").alias("how"), "by", "at_ms", "ended_topic"
    )


_OF_HALVES = (
    "position",
    "queue_offset",
    "unique_key",
    "producer_group",
    "shown",
    "store_ms",
    "size",
    "check_times",
    "put_back",
)


def half_messages(records: DataFrame) -> DataFrame:
    """Return one row a transaction.

    Columns: position (of its first half), topic (the real one), producer_group, store_ms, size, checks, outcome
    (committed, rolled back, stuck, open), decided_ms, copies (messages that its commit made), said (what the op record
    says: c, r, or ? where it does not tell; null without one).
    """
    own = apart(records)
    order = Window.partitionBy("unique_key", "producer_group", *own).orderBy("position")
    # one more wherever a record was not put back; what has no key is a chain of its own
    chain = F.when(F.col("unique_key").isNull(), F.col("position")).otherwise(
        F.sum(F.when(F.col("put_back"), 0).otherwise(1)).over(order)
    )
    halves = (
        records.where("kind = 'half'")
        .select(*_OF_HALVES, *own)
        .join(_said_of_offsets(records), ["queue_offset", *own], "left")
        .join(_said_of_positions(records), "position", "left")
        .withColumn("chain", chain)
    )
    found = halves.groupBy("unique_key", "producer_group", "chain", *own).agg(
        F.min("position").alias("position"),
        F.min_by("shown", "position").alias("topic"),
        F.min("store_ms").alias("store_ms"),
        F.sum("size").alias("size"),
        F.greatest(F.max("check_times"), F.coalesce(F.max("asked"), F.lit(0))).alias("checks"),
        F.min("said").alias("said"),
        F.least(F.min("op_ms"), F.min("copied_ms")).alias("decided_ms"),
        F.coalesce(F.sum("copies"), F.lit(0)).alias("copies"),
        F.coalesce(F.bool_or("stuck"), F.lit(False)).alias("stuck"),
    )
    found = found.join(F.broadcast(_stuck_keys(records)), ["unique_key", *own], "left")
    outcome = (
        F.when((F.col("said") == "c") | (F.col("copies") > 0), "committed")
        .when(F.col("said").isNotNull(), "rolled back")
        .when(F.col("stuck") | F.col("stuck_key"), "stuck")
        .otherwise("open")
    )
    return found.select(
        "position",
        "topic",
        "producer_group",
        "store_ms",
        "size",
        "checks",
        outcome.alias("outcome"),
        "decided_ms",
        "copies",
        "said",
    )


def _stuck_keys(records: DataFrame) -> DataFrame:
    """Return the unique keys that were given up where nothing names the half, with stuck_key."""
    given_up = records.where("kind = 'stuck' and stuck_position is null")
    return given_up.select("unique_key", *apart(records)).distinct().withColumn("stuck_key", F.lit(True))


def _said_of_offsets(records: DataFrame) -> DataFrame:
    """Return what ops and notes say of half offsets: said (c, r, ?; the first word counts), op_ms, asked."""
    # \z, as $ lets a line end behind it, which is no part of a number
    words = F.split(F.col("body").cast("string"), ",")
    offsets = F.filter(words, lambda word: word.rlike(r"^[0-9]{1,18}\z"))
    letters = F.regexp_extract_all("decisions", F.lit(r"([cr])\d+"), F.lit(1))
    said = F.when(F.size(letters) == F.size(offsets), letters).otherwise(F.transform(offsets, lambda _: F.lit("?")))
    counts = F.filter(words, lambda word: word.rlike(r"^[0-9]{1,18}:[0-9]{1,9}\z"))
    is_op = F.col("kind") == "op"
    pairs = F.when(is_op, F.arrays_zip(offsets.alias("place"), said.alias("word"))).otherwise(
        F.transform(
            counts,
            lambda pair: F.struct(
                F.substring_index(pair, ":", 1).alias("place"), F.substring_index(pair, ":", -1).alias("word")
            ),
        )
    )
    spread = records.where("kind in ('op', 'note')").select(
        is_op.alias("is_op"), "position", "store_ms", F.posexplode(pairs).alias("nth", "pair"), *apart(records)
    )
    return spread.groupBy(F.col("pair.place").cast("bigint").alias("queue_offset"), *apart(records)).agg(
        F.min_by("pair.word", F.when(F.col("is_op"), F.struct("position", "nth"))).alias("said"),
        F.min(F.when(F.col("is_op"), F.col("store_ms"))).alias("op_ms"),
        F.max(F.when(~F.col("is_op"), F.col("pair.word").cast("int"))).alias("asked"),
    )


def _said_of_positions(records: DataFrame) -> DataFrame:
    """Return what copies say of the half that they name: copies, copied_ms, stuck."""
    named = F.when(F.col("committed"), F.col("prepared_position")).otherwise(F.col("stuck_position"))
    return (
        records.where("committed or kind = 'stuck' and stuck_position is not null")
        .groupBy(named.alias("position"))
        .agg(
            F.count_if("committed").alias("copies"),
            F.min(F.when(F.col("committed"), F.col("store_ms"))).alias("copied_ms"),
            F.bool_or(F.col("kind") == "stuck").alias("stuck"),
        )
    )


@dataclass(frozen=True, slots=True)
class View:
    """``records``: a log read with ``OPTIONS``. ``items``: parked messages and their endings. ``halves``: half messages
    and what was decided."""

    records: DataFrame
    items: DataFrame
    halves: DataFrame

    def keep(self) -> View:
        """Keep items and halves in memory (or on disk, where it is too much) from their first use on."""
        self.items.persist()
        self.halves.persist()
        return self

    def drop(self) -> None:
        """Free what was kept."""
        for frame in (self.halves, self.items):
            frame.unpersist()


def view_of(records: DataFrame) -> View:
    """Return the frames of a log that was read with ``OPTIONS``."""
    return View(records, parked_items(records), half_messages(records))
