"""Mirror rows: what the broker has, repeated in PostgreSQL for pages and SQL. Only the mirror writes them.

Offsets and positions are RocketMQ's (64 bits); times are epoch ms. NULL is unknown, never 0. Every table can be dropped
and is rebuilt by `manage.py mirror rebuild`; only the short rate histories start again from nothing.
"""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models

from .models_base import MirrorReadOnlyError, MirrorRow
from .models_transactions import HalfMessage, OpMessage

__all__ = [
    "SLOTS",
    "SLOT_MS",
    "Broker",
    "ConsumerGroup",
    "ConsumerOffset",
    "HalfMessage",
    "MirrorReadOnlyError",
    "MirrorRow",
    "MirrorState",
    "OpMessage",
    "Queue",
    "RateHistory",
    "ScheduleLevel",
    "Topic",
]

#: length of one slot of a rate history, and slots kept: the last five minutes
SLOT_MS = 5_000
SLOTS = 60


class Broker(MirrorRow):
    """A broker as it last described itself."""

    name = models.CharField(max_length=255, primary_key=True)
    cluster = models.CharField(max_length=255, blank=True)
    address = models.CharField(max_length=255, blank=True)
    version = models.CharField(max_length=64, blank=True)
    #: OK, DEGRADED, FAILED, READONLY; UNKNOWN where the broker does not tell
    state = models.CharField(max_length=16, default="UNKNOWN")
    reasons = models.JSONField(default=list)
    #: ranges of positions that cannot be read: [[from, to], ...]
    damaged = models.JSONField(default=list)
    started_ms = models.BigIntegerField(null=True)
    log_min_position = models.BigIntegerField(null=True)
    log_end_position = models.BigIntegerField(null=True)
    disk_used_ratio = models.FloatField(null=True)
    rss_bytes = models.BigIntegerField(null=True)
    as_of_ms = models.BigIntegerField(null=True)

    def __str__(self) -> str:
        return self.name


class MirrorState(MirrorRow):
    """How far the mirror has read one broker; written in the same transaction as the rows it speaks of."""

    broker = models.OneToOneField(Broker, models.CASCADE, primary_key=True, related_name="mirror")
    #: request 14000's position; empty where the broker is polled
    token = models.TextField(blank=True)
    #: one more with each transaction
    sequence = models.BigIntegerField(default=0)
    #: True where the broker has no request 14000 (Apache RocketMQ)
    polling = models.BooleanField(default=False)
    #: the moment the rows show (the broker's answer)
    as_of_ms = models.BigIntegerField(null=True)
    #: since when there is no gap: rate histories know nothing of the slots before, unless they hold them
    following_since_ms = models.BigIntegerField(null=True)
    #: when everything was read last
    full_ms = models.BigIntegerField(null=True)
    #: from asking to the last row written
    took_ms = models.FloatField(null=True)
    error = models.TextField(blank=True)
    #: rows that are not as the broker has them, or left out: [{"kind", "name", "why"}, ...] (broker/mirror/flaws.py)
    flaws = models.JSONField(default=list)

    def __str__(self) -> str:
        return f"{self.broker_id} at {self.sequence}"


class Topic(MirrorRow):
    """A topic's configuration."""

    broker = models.ForeignKey(Broker, models.CASCADE, related_name="topics")
    name = models.CharField(max_length=255)
    read_queues = models.IntegerField()
    write_queues = models.IntegerField()
    #: 4 read, 2 write, 6 both
    permission = models.IntegerField()
    filter_type = models.CharField(max_length=32, default="SINGLE_TAG")
    system_flag = models.IntegerField(default=0)
    order = models.BooleanField(default=False)
    attributes = models.JSONField(default=dict)
    is_system = models.BooleanField(default=False)

    class Meta(MirrorRow.Meta):
        constraints = [models.UniqueConstraint(fields=["broker", "name"], name="topic_once")]

    def __str__(self) -> str:
        return self.name


class Queue(MirrorRow):
    """One queue of a topic: offsets from min_offset up to, not including, max_offset."""

    broker = models.ForeignKey(Broker, models.CASCADE, related_name="queues")
    topic = models.CharField(max_length=255)
    queue_id = models.IntegerField()
    min_offset = models.BigIntegerField(null=True)
    max_offset = models.BigIntegerField(null=True)
    #: store time of the newest message
    last_ms = models.BigIntegerField(null=True)

    class Meta(MirrorRow.Meta):
        constraints = [models.UniqueConstraint(fields=["broker", "topic", "queue_id"], name="queue_once")]

    def __str__(self) -> str:
        return f"{self.topic}/{self.queue_id}"


class ConsumerGroup(MirrorRow):
    """A consumer group's configuration."""

    broker = models.ForeignKey(Broker, models.CASCADE, related_name="groups")
    name = models.CharField(max_length=255)
    retry_max_times = models.IntegerField(default=16)
    retry_queues = models.IntegerField(default=1)
    consume_enable = models.BooleanField(default=True)
    consume_broadcast_enable = models.BooleanField(default=True)
    consume_message_orderly = models.BooleanField(default=False)
    #: consumers connected; NULL where the broker does not tell
    members = models.IntegerField(null=True)
    is_system = models.BooleanField(default=False)

    class Meta(MirrorRow.Meta):
        constraints = [models.UniqueConstraint(fields=["broker", "name"], name="group_once")]

    def __str__(self) -> str:
        return self.name


class ConsumerOffset(MirrorRow):
    """How far a group has consumed a queue: the next offset it wants."""

    broker = models.ForeignKey(Broker, models.CASCADE, related_name="offsets")
    group = models.CharField(max_length=255)
    topic = models.CharField(max_length=255)
    queue_id = models.IntegerField()
    offset = models.BigIntegerField()

    class Meta(MirrorRow.Meta):
        constraints = [models.UniqueConstraint(fields=["broker", "group", "topic", "queue_id"], name="offset_once")]
        indexes = [models.Index(fields=["broker", "topic"], name="offset_by_topic")]

    def __str__(self) -> str:
        return f"{self.group} {self.topic}/{self.queue_id} at {self.offset}"


class ScheduleLevel(MirrorRow):
    """One lane of SCHEDULE_TOPIC_XXXX: queue `level - 1`."""

    broker = models.ForeignKey(Broker, models.CASCADE, related_name="levels")
    level = models.IntegerField()
    delay_ms = models.BigIntegerField()
    min_offset = models.BigIntegerField(null=True)
    #: RocketMQ's delayOffset: the next one to release
    delay_offset = models.BigIntegerField(null=True)
    max_offset = models.BigIntegerField(null=True)
    persisted_offset = models.BigIntegerField(null=True)
    persisted_ms = models.BigIntegerField(null=True)
    next_due_ms = models.BigIntegerField(null=True)
    oldest_store_ms = models.BigIntegerField(null=True)
    released_total = models.BigIntegerField(null=True)
    #: mean of 10 s
    released_per_s = models.FloatField(null=True)
    lateness_p50_ms = models.FloatField(null=True)
    lateness_p99_ms = models.FloatField(null=True)
    early_total = models.BigIntegerField(null=True)
    #: where due times are known: offset, due_ms, offset, due_ms ... (broker/mirror/due_samples.py)
    marks = ArrayField(models.BigIntegerField(), default=list)

    class Meta(MirrorRow.Meta):
        constraints = [models.UniqueConstraint(fields=["broker", "level"], name="level_once")]

    def __str__(self) -> str:
        return f"level {self.level}"


class RateHistory(MirrorRow):
    """Counts of the last SLOTS slots of SLOT_MS: one row a topic, group, level, and three for the whole broker."""

    class Kind(models.TextChoices):
        """What is counted."""

        TOPIC = "topic"
        GROUP = "group"
        LEVEL = "level"
        FLOW = "flow"

    broker = models.ForeignKey(Broker, models.CASCADE, related_name="histories")
    kind = models.CharField(max_length=8, choices=Kind.choices)
    #: topic, group, level number; of a flow: accepted, released, consumed
    name = models.CharField(max_length=255)
    #: number (epoch ms // SLOT_MS) of the last slot in `counts`
    slot = models.BigIntegerField()
    #: oldest first, at most SLOTS; NULL is a gap
    counts = ArrayField(models.BigIntegerField(null=True))

    class Meta(MirrorRow.Meta):
        constraints = [models.UniqueConstraint(fields=["broker", "kind", "name"], name="history_once")]
        verbose_name_plural = "rate histories"

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"
