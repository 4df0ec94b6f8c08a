"""Dashboards of what goes through the broker: flow, tries and dead letters, and the keys that messages are about."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from broker.rocketmq.topics import DLQ_PREFIX, RETRY_PREFIX
from spark.places import apart
from spark.points import first_and_last, floor_to, points, quantiles, some_positions, together
from spark.question import MINUTE_MS, Question
from spark.view import View

_COUNTED = ("sent", "released", "committed")


def flow(view: View, question: Question) -> DataFrame:
    """Flow: what is sent, released, committed and consumed, by topic and minute; how much it is; who sends most.

    sent, released, committed   messages, by topic and minute (at_ms); a timer that is moved was sent once
    bytes                       of the log, by topic and minute
    consumed                    of the messages that reached a topic in a minute, those a group (label) is past
    producers                   messages sent, by address (label), the first few
    """
    records = view.records
    counted = (
        records.where("kind <> 'damage'")
        .withColumn("at_ms", floor_to(F.col("store_ms"), MINUTE_MS))
        .groupBy("shown", "at_ms")
        .agg(
            *[_figure(name, F.count_if(name), F.when(F.col(name), F.col("position"))) for name in _COUNTED],
            _figure("bytes", F.sum("size"), F.col("position")),
        )
    )
    spread = counted.select("shown", "at_ms", F.inline(F.array(*_COUNTED, "bytes"))).where("value > 0")
    by_minute = points(
        spread, F.col("series"), F.col("value"), topic=F.col("shown"), at_ms=F.col("at_ms"), positions=F.col("behind")
    )
    known = [_consumed(records, question)] if question.offsets else []
    return together(by_minute, *known, _producers(records, question))


def _figure(series: str, value: Column, position: Column) -> Column:
    """Return one figure of a minute; structs of one array have the same names."""
    return F.struct(
        F.lit(series).alias("series"), value.alias("value"), first_and_last(position).alias("behind")
    ).alias(series)


def _consumed(records: DataFrame, question: Question) -> DataFrame:
    session, own = records.sparkSession, apart(records)
    offsets = session.createDataFrame(
        list(question.offsets),
        ", ".join(
            ("topic string, consumer string, queue_id int, next_offset bigint", *(f"{name} int" for name in own))
        ),
    )
    at_ms = floor_to(F.col("store_ms"), MINUTE_MS).alias("at_ms")
    past = (
        records.where("kind = 'plain'")
        .select("position", "topic", "queue_id", "queue_offset", at_ms, *own)
        .join(F.broadcast(offsets), ["topic", "queue_id", *own])
        .where("queue_offset < next_offset")
        .groupBy("topic", "consumer", "at_ms")
        .agg(F.count("*").alias("count"), first_and_last(F.col("position")).alias("behind"))
    )
    return points(
        past,
        "consumed",
        F.col("count"),
        topic=F.col("topic"),
        label=F.col("consumer"),
        at_ms=F.col("at_ms"),
        positions=F.col("behind"),
    )


def _producers(records: DataFrame, question: Question) -> DataFrame:
    address = F.regexp_replace("born_host", r":[0-9]+$", "")
    # by topic, because not everybody may see every topic
    counted = (
        records.where("sent")
        .groupBy("shown", "born_host")
        .agg(F.count("*").alias("count"), F.min("position").alias("first"), F.max("position").alias("last"))
    )
    summed = counted.groupBy("shown", address.alias("label")).agg(
        F.sum("count").alias("value"), F.array_distinct(F.array(F.min("first"), F.max("last"))).alias("behind")
    )
    return points(
        summed, "producers", F.col("value"), topic=F.col("shown"), label=F.col("label"), positions=F.col("behind")
    )


def retries(view: View, question: Question) -> DataFrame:
    """Retries and dead letters: how often groups need another try, how long that takes, and what never succeeds.

    attempts    messages delivered again, by group (label) and the number of the try (part)
    dead        messages given up, by group (label)
    again_…     count, p50, p95, p99, max of the ms from the first send to the latest retry of messages not given up
    poison      messages given up or tried again, by group (label) and key (part), the worst few; with their records
    """
    records = view.records
    again = _of_group(records, RETRY_PREFIX)
    dead = _of_group(records, DLQ_PREFIX)
    by = {"topic": F.col("topic"), "label": F.col("label")}
    attempts = again.groupBy("topic", "label", F.col("reconsume_times").alias("part")).agg(
        F.count("*").alias("count"), first_and_last(F.col("position")).alias("behind")
    )
    given_up = dead.groupBy("topic", "label").agg(
        F.count("*").alias("count"), some_positions(F.col("position")).alias("positions")
    )
    latest = again.groupBy("topic", "label", "message").agg(
        F.try_subtract(F.max("store_ms"), F.min("born_ms")).alias("took_ms"), F.max("position").alias("position")
    )
    alive = latest.join(dead.select("label", "message").distinct(), ["label", "message"], "left_anti")
    worst = (
        again.withColumn("dead", F.lit(0))
        .unionByName(dead.withColumn("dead", F.lit(1)))
        .where("key <> ''")
        .groupBy("topic", "label", "key")
        .agg(F.sum("dead").alias("dead"), F.count("*").alias("count"), some_positions(F.col("position")).alias("at"))
    )
    rank = Window.partitionBy("topic", "label").orderBy(F.desc("dead"), F.desc("count"), "key")
    poison = worst.withColumn("rank", F.row_number().over(rank)).where(F.col("rank") <= question.top)
    return together(
        points(attempts, "attempts", F.col("count"), part=F.col("part"), positions=F.col("behind"), **by),
        points(given_up, "dead", F.col("count"), positions=F.col("positions"), **by),
        quantiles(alive, F.col("took_ms"), "again_", "topic", "label", position=F.col("position")),
        points(poison, "poison", F.col("count"), part=F.col("key"), positions=F.col("at"), **by),
    )


def _of_group(records: DataFrame, prefix: str) -> DataFrame:
    """Return the messages on a topic with that prefix: topic, label (the group), message, key and the rest."""
    named = F.substring("topic", len(prefix) + 1, 255)
    # a group that pops has a topic for each topic it reads, <group>_<topic> or <group>+<topic>: the record says which
    begins = [named.startswith(F.concat("origin_group", F.lit(sign))) for sign in ("_", "+")]
    return records.where((F.col("kind") == "plain") & F.col("topic").startswith(prefix)).select(
        "topic",
        F.when(begins[0] | begins[1], F.col("origin_group")).otherwise(named).alias("label"),
        F.coalesce("origin_id", "unique_key", F.col("position").cast("string")).alias("message"),
        F.coalesce(F.col("keys"), F.col("unique_key"), F.lit("")).alias("key"),
        "reconsume_times",
        "born_ms",
        "store_ms",
        "position",
    )


#: Spark makes places as few as it can; the hash table of one has to fit into memory, or its rows are sorted on disk.
_PLACES_A_CORE = 4


def keys(view: View, question: Question) -> DataFrame:
    """Keys: the busiest business keys, and the life of an order from its first message to its last.

    hot        messages sent with a key (label), by topic, the busiest few; at_ms is the first
    reach      keys seen on a topic: the funnel that orders go through
    life_…     count, p50, p95, p99, max of the ms between the first and the last message of a key, by the topic of the
               first; keys with one message only are left out
    """
    # topics travel as numbers: hash tables hold those in place
    topics = view.records.where("shown is not null").select("shown").distinct()
    topics = F.broadcast(topics.select(F.col("shown").alias("topic"), F.xxhash64("shown").alias("about")))
    # all records of a key come to one place once, for both ways to count them
    words = _words(view.records).repartition(_PLACES_A_CORE * _cores(view), "key")
    turn, first = _turn(view.records)
    busy = words.groupBy("about", "key").agg(
        F.count_if("sent").alias("sent"), F.min("store_ms").alias("first_ms"), first.alias("first")
    )
    best = F.expr(
        "min_by(struct(key, sent, first_ms, first), struct(-sent AS most, first, key), "
        f"{int(question.top)}) FILTER (WHERE sent > 0)"
    )
    by_topic = busy.groupBy("about").agg(
        F.count("*").alias("keys"), best.alias("best"), F.min("first").alias("first_of_all")
    )
    reach = _line("reach", F.lit(""), F.col("keys"), F.lit(None).cast("bigint"), F.col("first_of_all"))
    hot = F.transform(
        F.coalesce("best", F.array()), lambda one: _line("hot", one["key"], one["sent"], one["first_ms"], one["first"])
    )
    figures = by_topic.join(topics, "about").select("topic", F.inline(F.concat(F.array(reach), hot)))
    lives = (
        words.groupBy("key")
        .agg(
            F.count("sent").alias("records"),
            F.min_by("about", turn).alias("about"),
            F.try_subtract(F.max("store_ms"), F.min("store_ms")).alias("life_ms"),
            first.alias("first"),
        )
        .where("records > 1")
    )
    return together(
        points(
            figures,
            F.col("series"),
            F.col("value"),
            topic=F.col("topic"),
            label=F.col("key"),
            at_ms=F.col("first_ms"),
            positions=F.array("first"),
        ),
        quantiles(lives.join(topics, "about"), F.col("life_ms"), "life_", "topic", position=F.col("first")),
    )


def _cores(view: View) -> int:
    return int(view.records.sparkSession.sparkContext.defaultParallelism)


def _turn(records: DataFrame) -> tuple[Column, Column]:
    """Return what orders messages, and the position of the first of some: of several logs only time can tell."""
    if not apart(records):
        return F.col("position"), F.min("position")
    turn = F.struct("store_ms", "position")
    return turn, F.min_by("position", turn)


def _line(series: str, key: Column, value: Column, first_ms: Column, first: Column) -> Column:
    """Return one figure of a topic; structs of one array have the same names."""
    return F.struct(
        F.lit(series).alias("series"),
        key.alias("key"),
        value.alias("value"),
        first_ms.alias("first_ms"),
        first.alias("first"),
    )


def _words(records: DataFrame) -> DataFrame:
    """Return one row a key of a message: key, about (its topic's number), store_ms, position, sent."""
    named = records.where("keys is not null and kind in ('plain', 'parked', 'half')").select(
        F.col("keys").alias("key"), F.xxhash64("shown").alias("about"), "store_ms", "position", "sent"
    )
    # nearly all have one key: taking them apart costs more than looking twice
    has_several = F.col("key").contains(" ")
    several = named.where(has_several).withColumn("key", F.explode(F.array_distinct(F.split("key", " "))))
    return named.where(~has_several).unionByName(several).where("key <> ''")
