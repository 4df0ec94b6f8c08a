"""Mirror rows: what the broker has, repeated in PostgreSQL for pages and SQL.

Anybody reads them, only the mirror writes them.

Offsets and positions are RocketMQ's (64 bits); times are epoch ms. NULL is unknown, never 0. Every table can be dropped
and is rebuilt by `manage.py mirror rebuild`; only the short rate histories start again from nothing.

Of transactions there are half messages and the op records that decide them. They are few: the oldest that are open or
parked, and those decided within the last hour (broker/mirror/halves.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, NoReturn, Self, TypeVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.utils.translation import gettext_lazy as _

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
    "Replica",
    "ScheduleLevel",
    "Topic",
]

Row = TypeVar("Row", bound=models.Model)


class MirrorReadOnlyError(TypeError):
    """Mirror rows repeat what the broker has: only the mirror writes them. Change the broker (client, REST, console)
    and the mirror follows; if the rows are wrong, run `manage.py mirror rebuild`.
    """  # fmt: skip

    def __init__(self, table: str) -> None:
        super().__init__(f"{table}: {' '.join((self.__doc__ or '').split())}")


class ReadOnlyQuerySet(models.QuerySet[Row]):
    """A query set that reads everything and writes nothing."""

    def _refuse(self) -> NoReturn:
        raise MirrorReadOnlyError(self.model._meta.label)

    def create(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse: only the mirror writes."""
        self._refuse()

    def get_or_create(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse: only the mirror writes."""
        self._refuse()

    def update_or_create(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse: only the mirror writes."""
        self._refuse()

    def bulk_create(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse: only the mirror writes."""
        self._refuse()

    def bulk_update(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse: only the mirror writes."""
        self._refuse()

    def update(self, **kwargs: Any) -> NoReturn:
        """Refuse: only the mirror writes."""
        self._refuse()

    def delete(self) -> NoReturn:
        """Refuse: only the mirror writes."""
        self._refuse()


class MirrorRow(models.Model):
    """The base of all mirror tables: reads through `objects`, writes only through `mirror_writer`."""

    #: used by broker.mirror alone
    mirror_writer = models.Manager()
    objects = ReadOnlyQuerySet.as_manager()

    class Meta:
        abstract = True
        default_manager_name = "objects"
        default_permissions = ("view",)

    def save(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse: only the mirror writes."""
        raise MirrorReadOnlyError(self._meta.label)

    def delete(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse: only the mirror writes."""
        raise MirrorReadOnlyError(self._meta.label)

    @classmethod
    def upsert(cls, rows: Iterable[Self], key: Collection[str]) -> int:
        """Insert rows or replace those with the same key, in one statement per 2,000; how many. The mirror's alone."""
        listed = list(rows)
        columns = [field.name for field in cls._meta.concrete_fields if field.name not in key and field.name != "id"]
        cls.mirror_writer.bulk_create(
            listed, batch_size=2_000, update_conflicts=True, unique_fields=list(key), update_fields=columns
        )
        return len(listed)


class OpMessage(MirrorRow):
    """A record of RMQ_SYS_TRANS_OP_HALF_TOPIC: it decides some halves."""

    broker = models.ForeignKey("broker.Broker", models.CASCADE, related_name="ops")
    #: index in queue 0
    offset = models.BigIntegerField(_("offset"))
    position = models.BigIntegerField(_("position"))
    store_ms = models.BigIntegerField(_("stored"))
    half_offsets = ArrayField(models.BigIntegerField(), verbose_name=_("decides"))
    commits = models.IntegerField(_("commits"))
    rollbacks = models.IntegerField(_("rollbacks"))

    class Meta(MirrorRow.Meta):
        verbose_name = _("op message")
        verbose_name_plural = _("op messages")
        constraints = [models.UniqueConstraint(fields=["broker", "offset"], name="op_once")]

    def __str__(self) -> str:
        return f"op {self.offset}"


class HalfMessage(MirrorRow):
    """A record of RMQ_SYS_TRANS_HALF_TOPIC: a message that its producer group decides."""

    class State(models.TextChoices):
        """The states of a half; the values are the broker's."""

        OPEN = "open", _("undecided")
        DUE = "due", _("check due")
        ENDING = "ending", _("being decided")
        PARKED = "parked", _("parked")
        COMMITTED = "committed", _("committed")
        ROLLED_BACK = "rolled back", _("rolled back")
        DECIDED = "decided", _("decided")

    broker = models.ForeignKey("broker.Broker", models.CASCADE, related_name="halves")
    #: index in queue 0
    offset = models.BigIntegerField(_("offset"))
    #: NULL where the record is gone and only its decision is known
    position = models.BigIntegerField(_("position"), null=True)
    state = models.CharField(_("state"), max_length=16, choices=State.choices)
    group = models.CharField(_("producer group"), max_length=255, blank=True)
    topic = models.CharField(_("real topic"), max_length=255, blank=True)
    queue_id = models.IntegerField(null=True)
    transaction_id = models.CharField(_("transaction id"), max_length=255, blank=True)
    keys = ArrayField(models.TextField(), default=list, verbose_name=_("keys"))
    tag = models.TextField(_("tag"), blank=True)
    store_ms = models.BigIntegerField(_("stored"), null=True)
    #: how often a producer was asked
    checks = models.IntegerField(_("checks"), null=True)
    next_check_ms = models.BigIntegerField(_("next check"), null=True)
    parked_ms = models.BigIntegerField(null=True)
    decided_ms = models.BigIntegerField(_("decided"), null=True)
    decided_by = models.TextField(_("decided by"), blank=True)
    reason = models.TextField(_("reason"), blank=True)
    #: the record that decided it; NULL while undecided, or where it is not mirrored any more
    op = models.ForeignKey(OpMessage, models.SET_NULL, null=True, related_name="halves", verbose_name=_("op message"))
    #: the message as its consumers find it; NULL until it is in its topic
    delivered_queue_id = models.IntegerField(null=True)
    delivered_offset = models.BigIntegerField(_("delivered as"), null=True)
    delivered_position = models.BigIntegerField(null=True)

    class Meta(MirrorRow.Meta):
        verbose_name = _("half message")
        verbose_name_plural = _("half messages")
        constraints = [models.UniqueConstraint(fields=["broker", "offset"], name="half_once")]
        indexes = [models.Index(fields=["broker", "state"], name="half_by_state")]

    def __str__(self) -> str:
        return self.keys[0] if self.keys else self.transaction_id or f"half {self.offset}"

    @property
    def is_undecided(self) -> bool:
        """Tell whether somebody may still decide it."""
        return self.state in (self.State.OPEN, self.State.DUE, self.State.PARKED)


#: length of one slot of a rate history, and slots kept: the last five minutes
SLOT_MS = 5_000
SLOTS = 60


#: between a further cluster's entry and a broker's name, in the primary key; no broker's name has it
ENTRY_MARK = "/"


def row_name(entry: str, broker: str) -> str:
    """Return the primary key of a broker's rows."""
    return f"{entry}{ENTRY_MARK}{broker}" if entry else broker


class Broker(MirrorRow):
    """A broker as it last described itself."""

    #: of the first cluster its own name; of a further one `entry/name`, as names are unique in one cluster only
    name = models.CharField(max_length=255, primary_key=True)
    #: the entry of the list of clusters (ESCAPEMENT_CLUSTERS) that it belongs to; "" is ESCAPEMENT_NAMESRV
    entry = models.CharField(max_length=64, blank=True, default="")
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

    @property
    def own_name(self) -> str:
        """The name by which its cluster, its clients and its messages know it."""
        return self.name.removeprefix(row_name(self.entry, ""))


class Replica(MirrorRow):
    """One process of a broker: its master or a slave, as the name service lists it and as it last answered.

    Who does not answer has an error and keeps what it said last; one that is listed no more stays, too, until its
    broker is forgotten.
    """

    class Role(models.TextChoices):
        """The roles of a process; the values are RocketMQ's words."""

        MASTER = "master", _("master")
        SLAVE = "slave", _("slave")

    broker = models.ForeignKey(Broker, models.CASCADE, related_name="replicas")
    #: RocketMQ's brokerId: 0 the master, others slaves (`broker_id` is Django's word for the key of `broker`)
    number = models.BigIntegerField()
    role = models.CharField(_("role"), max_length=8, choices=Role.choices)
    #: which term of its role; NULL where the broker does not tell
    epoch = models.BigIntegerField(null=True)
    address = models.CharField(max_length=255, blank=True)
    version = models.CharField(max_length=64, blank=True)
    log_end_position = models.BigIntegerField(null=True)
    #: when it answered last
    as_of_ms = models.BigIntegerField(null=True)
    #: why it does not answer; blank while it does
    error = models.TextField(blank=True)

    class Meta(MirrorRow.Meta):
        constraints = [models.UniqueConstraint(fields=["broker", "number"], name="replica_once")]

    def __str__(self) -> str:
        return f"{self.broker_id} {self.number}"


class MirrorState(MirrorRow):
    """The mirror's progress in reading one broker; written in the same transaction as the rows it speaks of."""

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
    #: the replica that is read while the master is away; NULL: the master is
    slave_number = models.BigIntegerField(null=True)
    #: rows that are not as the broker has them, or left out: [{"kind", "name", "why"}, ...] (broker/mirror/writer.py)
    flaws = models.JSONField(default=list)

    def __str__(self) -> str:
        return f"{self.broker_id} at {self.sequence}"


class Topic(MirrorRow):
    """The configuration of a topic."""

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
    """A queue of a topic: offsets from min_offset up to, not including, max_offset."""

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
    """The configuration of a consumer group."""

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
    """The progress of a group in a queue: the next offset it wants."""

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
    """A lane of SCHEDULE_TOPIC_XXXX: queue `level - 1`."""

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
    #: where due times are known: offset, due_ms, offset, due_ms ... (broker/mirror/watch.py)
    marks = ArrayField(models.BigIntegerField(), default=list)

    class Meta(MirrorRow.Meta):
        constraints = [models.UniqueConstraint(fields=["broker", "level"], name="level_once")]

    def __str__(self) -> str:
        return f"level {self.level}"


class RateHistory(MirrorRow):
    """Counts of the last SLOTS slots of SLOT_MS: one row a topic, group, level, and three for the whole broker."""

    class Kind(models.TextChoices):
        """The kinds of things whose counts a history keeps."""

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
