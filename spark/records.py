"""What a record is: the columns from which every dashboard is made.

kind      plain   a message where its consumers look for it: sent there, released or committed to there
          parked  waits in SCHEDULE_TOPIC_XXXX (mode "level") or rmq_sys_wheel_timer (mode "timer")
          rolled  the same timer written again by Apache RocketMQ, because its wheel was too short
          delete  ends a timer      half, op, note, stuck  transactions      damage  bytes without a record
shown     the topic it is about: the real topic of what is parked or half
released  it left a lane or the wheel: it names the parked record (ESC_SOURCE), or Apache RocketMQ left its marks
committed it is the copy that a commit made
sent      somebody sent it; the other records were written by the broker about it
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

LEVEL_TOPIC = "SCHEDULE_TOPIC_XXXX"
TIMER_TOPIC = "rmq_sys_wheel_timer"
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
STUCK_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
CHECKS_TOPIC = "rmq_sys_esc_checks"
RETRY_PREFIX = "%RETRY%"
DEAD_PREFIX = "%DLQ%"

#: Topics whose bodies are the broker's own notes.
NOTED_TOPICS = (OP_TOPIC, CHECKS_TOPIC)
#: Properties that the jobs look at beyond the usual ones.
EXTRACTED = (
    "ESC_DUE_MS", "ESC_CANCELS", "ESC_REPLACES", "ESC_ECHO", "ESC_PARKED", "ESC_DECISIONS", "TIMER_DEL_UNIQKEY",
    "TIMER_OUT_MS", "TIMER_ROLL_TIMES", "PGROUP", "TRANSACTION_CHECK_TIMES", "TRAN_PREPARED_QUEUE_OFFSET",
    "ORIGIN_MESSAGE_ID",
)  # fmt: skip
#: Options with which the log is read for the jobs.
OPTIONS = {"columns": "names,hosts", "extract": ",".join(EXTRACTED), "body_topics": ",".join(NOTED_TOPICS)}

_TRANSACTION_BITS = 0xC
_COMMITTED = 0x8


def classify(log: DataFrame) -> DataFrame:
    """Return the records of a log (read with OPTIONS) with what each is."""
    commits = F.col("sys_flag").bitwiseAND(_TRANSACTION_BITS) == _COMMITTED
    own_release = F.col("source_position").isNotNull() & ~(
        commits & (F.col("source_position") == F.col("prepared_position"))
    )
    apache_release = (
        F.col("source_position").isNull()
        & (F.col("topic") == F.col("real_topic"))
        & ((F.col("delay_level") >= 1) | F.col("property_timer_out_ms").isNotNull())
    )
    is_system = F.col("topic").isin(LEVEL_TOPIC, TIMER_TOPIC, HALF_TOPIC, OP_TOPIC, STUCK_TOPIC, CHECKS_TOPIC)
    released = F.coalesce(~is_system & (own_release | apache_release), F.lit(False))
    kind = _kind()
    frame = log.select(
        "position", "size", "topic", "queue_id", "queue_offset", "born_ms", "store_ms", "born_host", "reconsume_times",
        "prepared_position", "body_size", "corrupt", "keys", "unique_key", "delay_level", "due_ms", "source_position",
        "body",
        kind.alias("kind"),
        F.when(F.col("topic") == LEVEL_TOPIC, "level").when(F.col("topic") == TIMER_TOPIC, "timer").alias("mode"),
        F.when(is_system, F.coalesce("real_topic", "topic")).otherwise(F.col("topic")).alias("shown"),
        released.alias("released"),
        (~released & F.coalesce(commits, F.lit(False)) & kind.isin("plain", "parked")).alias("committed"),
        F.col("property_esc_due_ms").isNotNull().alias("exact"),
        F.col("property_timer_out_ms").cast("bigint").alias("out_ms"),
        F.col("property_esc_cancels").cast("bigint").alias("cancels_position"),
        F.col("property_esc_replaces").cast("bigint").alias("replaces_position"),
        F.col("property_esc_parked").cast("bigint").alias("stuck_position"),
        F.col("property_esc_echo").isNotNull().alias("echo"),
        F.col("property_timer_del_uniqkey").alias("deletes_key"),
        F.col("property_pgroup").alias("producer_group"),
        F.coalesce(F.col("property_transaction_check_times").cast("int"), F.lit(0)).alias("check_times"),
        (
            F.col("property_transaction_check_times").isNotNull()
            | F.col("property_tran_prepared_queue_offset").isNotNull()
        ).alias("put_back"),
        F.col("property_esc_decisions").alias("decisions"),
        F.col("property_origin_message_id").alias("origin_id"),
    )  # fmt: skip
    ours = ~F.col("released") & ~F.col("committed")
    return frame.withColumn(
        "sent", ours & (F.col("kind").isin("plain", "parked") | ((F.col("kind") == "half") & ~F.col("put_back")))
    )


def _kind() -> Column:
    topic = F.col("topic")
    deletes = (
        F.col("property_timer_del_uniqkey").isNotNull()
        | F.col("property_esc_cancels").isNotNull()
        | F.col("property_esc_echo").isNotNull()
    )
    return (
        F.when(topic.isNull(), "damage")
        .when(topic == LEVEL_TOPIC, "parked")
        .when((topic == TIMER_TOPIC) & deletes, "delete")
        .when((topic == TIMER_TOPIC) & F.col("property_timer_roll_times").isNotNull(), "rolled")
        .when(topic == TIMER_TOPIC, "parked")
        .when(topic == HALF_TOPIC, "half")
        .when(topic == OP_TOPIC, "op")
        .when(topic == CHECKS_TOPIC, "note")
        .when(topic == STUCK_TOPIC, "stuck")
        .otherwise("plain")
    )
