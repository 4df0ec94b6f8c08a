"""The records of a log as the jobs look at them."""

from __future__ import annotations

from broker.rocketmq.topics import CHECKS_TOPIC, OP_TOPIC

from .kinds import KINDS

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
