"""Topics, a topic with its queues and readers, the messages of a queue, and the columns of both lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

from django.db.models import TextChoices
from django.utils.http import urlencode
from django.utils.safestring import SafeString
from django.utils.translation import get_language, gettext, ngettext
from django.utils.translation import gettext_lazy as _

from console.site.broker import MessageRow
from console.site.evidence import Evidence
from console.site.mirrored import History
from console.templatetags.escapement import figure
from console.ui.charts import sparks
from console.ui.ordering import Sorting
from console.ui.table import (
    AGO,
    BROKER,
    CHIP,
    FIGURE,
    LABEL,
    NAME,
    RATE,
    SIZE,
    TIME,
    VALUE,
    Cell,
    Column,
    Table,
    file_columns,
)
from console.ui.verdicts import Verdict, not_known, of_group, said


@cache
def _line(_language: str | None) -> Callable[[History], SafeString]:
    """Return the function that draws the last minutes of a topic, with its words in this language."""
    return sparks(gettext("Written"))


#: nothing is said in figures of a topic that was never used
_HELD = Cell(
    "topics/cells/held.html", is_figure=True, text=lambda value, place: "" if place.row.never_used else figure(value)
)
_SENDS = Cell(
    "ui/cells/text.html", text=lambda value, place: "" if place.row.never_used else _line(get_language())(value)
)
_QUEUES = Cell("topics/cells/queues.html", is_figure=True, by=("read_queues", "write_queues"))

TOPICS = Table(
    "topics",
    (
        Column("name", _("Topic"), NAME, page="topic", sort="name"),
        Column("kind", _("Kind"), LABEL, sort="kind"),
        Column("messages", _("Messages"), _HELD, sort="messages"),
        Column("stored_total", _("Total written"), FIGURE, sort="total"),
        Column("sends", _("Last 5 min"), _SENDS, in_file=False),
        Column("sends_per_s", _("Written"), RATE, unit="/s", sort="rate"),
        Column("last_ms", _("Last message"), AGO, sort="last"),
        Column("read_queues", _("Queues"), _QUEUES, sort="queues"),
        Column("write_queues"),
        Column("groups", _("Groups"), FIGURE),
        Column("permission", _("Permission"), Cell("topics/cells/permission.html", by=(VALUE, "differs"))),
        BROKER,
    ),
    row_id="topic",
    file_order="name kind messages stored_total sends_per_s last_ms read_queues write_queues permission groups",
)

QUEUE = Table(
    "queue",
    (
        Column("offset", _("Offset"), Cell("topics/cells/offset.html", is_figure=True)),
        Column("store_ms", _("Stored"), TIME),
        Column("keys", _("Key"), Cell("topics/cells/keys.html")),
        Column("tag", _("Tag"), CHIP, length=30),
        Column("preview", _("Body"), Cell("topics/cells/preview.html")),
        Column("size_bytes", _("Size"), SIZE),
        Column("reconsume_times", _("Failed deliveries"), FIGURE),
        Column("position", _("Position"), Cell("topics/cells/position.html", is_figure=True)),
        *file_columns("broker"),
    ),
    file_order=(
        "offset position store_ms born_ms unique_key offset_message_id keys tag size_bytes reconsume_times preview"
    ),
)


class TopicKind(TextChoices):
    """The purpose of a topic, from its name and RocketMQ's conventions."""

    NORMAL = "normal", _("normal")
    RETRY = "retry", _("retry")
    DEAD_LETTER = "dead-letter", _("dead letter")
    SYSTEM = "system", _("system")


#: bits of a topic's permission (PermName)
_READ, _WRITE = 4, 2


@dataclass(frozen=True, slots=True)
class TopicRow:
    """A topic as a row of the list, in total over the brokers that have it."""

    name: str
    kind: TopicKind
    read_queues: int
    write_queues: int
    #: 4 read, 2 write, 6 both (RocketMQ's perm); what all brokers permit
    permission: int
    #: messages its queues hold now (sum of max - min)
    messages: int | None
    #: messages ever stored (sum of max)
    stored_total: int | None
    #: epoch ms of the newest message
    last_ms: int | None
    sends_per_s: float | None
    sends: History
    #: consumer groups with an offset on it
    groups: int
    #: the brokers that have it
    brokers: tuple[str, ...] = ()
    #: its brokers permit different things
    differs: bool = False

    @property
    def broker(self) -> str:
        """The brokers that have it, in one text."""
        return " ".join(self.brokers)

    @property
    def never_used(self) -> bool:
        """Tell whether nothing was ever stored (known, not unknown)."""
        return self.stored_total == 0


@dataclass(frozen=True, slots=True)
class Topics:
    """A page of the list, filtered and ordered."""

    table: ClassVar[Table] = TOPICS

    evidence: Evidence
    now_ms: int
    rows: tuple[TopicRow, ...]
    #: rows that match, and of all kinds how many there are
    total: int
    counts: Mapping[str, int]
    offset: int
    count: int
    search: str
    kind: str
    order: str
    has_several: bool = False

    @property
    def sorting(self) -> Sorting:
        """The order of the list, and the rest of its address."""
        return Sorting(self.order, "&" + urlencode({"kind": self.kind, "search": self.search}))


@dataclass(frozen=True, slots=True)
class QueueRow:
    """A queue of a topic at one broker. Offsets are indices; None is unknown."""

    broker: str
    queue_id: int
    min_offset: int | None
    max_offset: int | None
    last_ms: int | None

    @property
    def messages(self) -> int | None:
        """The number of messages that the queue holds now."""
        return None if self.max_offset is None or self.min_offset is None else self.max_offset - self.min_offset


@dataclass(frozen=True, slots=True)
class TopicReader:
    """A consumer group that has offsets on the topic."""

    group: str
    #: messages behind the queues' ends; None when a queue's end is unknown
    lag: int | None
    queues: int


@dataclass(frozen=True, slots=True)
class TopicPart:
    """A topic at one of several brokers."""

    broker: str
    read_queues: int
    write_queues: int
    permission: int
    order: bool
    message_type: str
    messages: int | None
    last_ms: int | None
    sends_per_s: float | None


@dataclass(frozen=True, slots=True)
class TopicPage:
    """The page of a topic. `topic` None: not known to the mirror."""

    evidence: Evidence
    now_ms: int
    name: str
    topic: TopicRow | None
    order: bool
    filter_type: str
    attributes: Mapping[str, str]
    queues: tuple[QueueRow, ...]
    readers: tuple[TopicReader, ...]
    has_several: bool = False
    #: the topic at each of several brokers that has it
    parts: tuple[TopicPart, ...] = ()
    #: the brokers that do not have it
    missing_at: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict | None:
        """What is with the topic, by the group that is furthest behind."""
        if self.topic is None:
            return None
        return not_known() if self.evidence.stale else verdict_of(self.topic, self.readers)

    @property
    def differing(self) -> tuple[str, ...]:
        """The names of settings that differ from broker to broker."""
        names = ("read_queues", "write_queues", "permission", "message_type", "order")
        return tuple(name for name in names if len({getattr(part, name) for part in self.parts}) > 1)


def verdict_of(topic: TopicRow, readers: Sequence[TopicReader]) -> Verdict:
    """Return what is with a topic that these groups read."""
    if topic.kind != TopicKind.NORMAL:
        return Verdict("idle", said(gettext("The broker itself writes it.")))
    if not topic.permission & _WRITE:
        return Verdict(
            "look", said(gettext("It accepts no messages.")), gettext("Its permission in the settings below says so.")
        )
    if not topic.permission & _READ:
        words = said(gettext("It accepts messages, and no group can consume them."))
        return Verdict("look", words, gettext("Its permission in the settings below says so."))
    if topic.never_used:
        return Verdict("idle", said(gettext("It never had a message.")))
    if not readers:
        return Verdict("idle", said(gettext("It has messages, and no group that you can see consumes from it.")))
    unknown = next((each for each in readers if each.lag is None), None)
    worst = max(readers, key=lambda each: each.lag or 0)
    if worst.lag:
        words = said(
            ngettext(
                "{group} is furthest behind: {lag} message.", "{group} is furthest behind: {lag} messages.", worst.lag
            ),
            group=worst.group,
            lag=figure(worst.lag),
        )
        return of_group("wait", words, worst.group)
    if unknown is not None:
        return of_group(
            "look", said(gettext("How far {group} is behind is not known."), group=unknown.group), unknown.group
        )
    return Verdict("ok", said(gettext("Every group that consumes from it is caught up.")))


@dataclass(frozen=True, slots=True)
class QueueMessages:
    """A page of one queue, read from the broker."""

    table: ClassVar[Table] = QUEUE

    evidence: Evidence
    now_ms: int
    topic: str
    queue_id: int
    offset: int
    count: int
    min_offset: int | None
    max_offset: int | None
    messages: tuple[MessageRow, ...]
    previous_offset: int | None
    next_offset: int | None
    has_several: bool = False
    broker: str = ""


@dataclass(frozen=True, slots=True)
class TailRow:
    """A message of a tail, and where it stands."""

    broker: str
    queue_id: int
    message: MessageRow


@dataclass(frozen=True, slots=True)
class Tail:
    """The newest messages first; `stored` is how many the topic ever held, None when unknown."""

    evidence: Evidence
    now_ms: int
    name: str
    rows: tuple[TailRow, ...]
    stored: int | None
    #: rows at most
    shown: int
    has_several: bool = False
