"""The content of the pages of messages: every physical record, its properties and body, and its events in time.

Lists have the columns of messages that were found. On the life line dots are records, squares are what clients told.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from django.db.models import TextChoices
from django.urls import reverse
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from console.features.messages.decoders import TypedBody
from console.operations.copies import COPY_OF
from console.site.clock import local_time
from console.site.evidence import Evidence
from console.templatetags.escapement import UNKNOWN, due_in, figure, is_late, span, until
from console.templatetags.visible import truncatechars
from console.ui.charts import FOLD_MS, Stop, drawn_of, left_out, life_svg
from console.ui.table import BROKER, CHIP, LABEL, LEFT, MOMENT, SIZE, Cell, Column, Place, Table, file_columns
from console.ui.verdicts import Verdict, of_group, said

#: characters of keys and of a body that are shown in a list
_KEYS_LENGTH, _PREVIEW_LENGTH = 60, 120


def _keys(keys: tuple[str, ...], _place: Place) -> str:
    return truncatechars(" ".join(keys), _KEYS_LENGTH)


def _preview(text: str | None, _place: Place) -> str:
    return "" if text is None else truncatechars(text, _PREVIEW_LENGTH) or UNKNOWN


#: in all topics: what people know a message by comes first, the id that the broker gave it last
MESSAGES = Table(
    "messages",
    (
        Column(
            "keys",
            _("Key"),
            Cell("messages/cells/keys.html", text=_keys),
            page="message",
            page_field="offset_message_id",
        ),
        Column("topic", _("Topic"), Cell("messages/cells/topic.html", by=("topic",))),
        *file_columns("unique_key offset_message_id"),
        Column("tag", _("Tag"), CHIP, length=30),
        Column("preview", _("Body"), Cell("messages/cells/preview.html", text=_preview), in_file=False),
        Column("store_ms", _("Stored"), MOMENT),
        Column("pending", _("State"), Cell("messages/cells/state.html", by=("pending",))),
        Column("size_bytes", _("Size"), SIZE),
        Column("message", _("Message"), Cell("messages/cells/message.html"), "offset_message_id", in_file=False),
        BROKER,
    ),
    file_order="topic unique_key offset_message_id keys tag store_ms size_bytes pending due_ms",
)


def _without(*names: str) -> Table:
    return replace(MESSAGES, columns=tuple(each for each in MESSAGES.columns if each.name not in names))


#: by whether the page names the topic above the list, and whether all are stored, so that none has to say so
_MESSAGES_SHOWN = {
    (False, False): MESSAGES, (False, True): _without("pending"),
    (True, False): _without("topic"), (True, True): _without("topic", "pending"),
}  # fmt: skip


#: with a key, and not a message yet
WAITING = Table(
    "waiting",
    (
        Column("kind", _("Waiting"), LABEL),
        Column("name", _("Key"), Cell("messages/cells/waiting.html")),
        Column("topic", _("Topic"), Cell("messages/cells/topic.html", by=("topic",))),
        Column("due_ms", _("Due"), MOMENT),
        Column("left", _("Due in"), LEFT, field="due_ms"),
        BROKER,
    ),
)


#: an offset message id: address, port and position in hexadecimal, of IPv4 or IPv6
OFFSET_ID = re.compile(r"[0-9A-Fa-f]{32}|[0-9A-Fa-f]{56}")


class HopKind(TextChoices):
    """The part that a physical record plays in the message's life."""

    STORED = "stored", _("stored")
    PARKED = "parked", _("parked on a delay level")
    TIMER = "timer", _("parked as a timer")
    RELEASED = "released", _("released")
    RETRY = "retry", _("sent back for retry")
    DEAD_LETTER = "dead-letter", _("dead letter")


class TookOver(TextChoices):
    """The way in which a timer came into the place of an earlier record."""

    MOVED = "moved", _("moved; parked before at")
    REPLACED = "replaced", _("replaced the timer that was parked at")
    AGAIN = "again", _("in place of the cancelled timer that was parked at")


@dataclass(frozen=True, slots=True)
class Earlier:
    """The record whose place a timer took, how, and when that was stored."""

    how: TookOver
    position: int
    store_ms: int


@dataclass(frozen=True, slots=True)
class Hop:
    """A physical record of a message; `MessagePage.hops` has the oldest first."""

    kind: HopKind
    topic: str
    queue_id: int
    queue_offset: int
    #: byte address in the commit log
    position: int
    size_bytes: int
    store_ms: int
    #: since the hop before; None for the first
    after_ms: int | None
    offset_message_id: str
    #: parked records: the level and the moment of release
    delay_level: int | None
    due_ms: int | None
    #: released records: store time minus due (negative would be early)
    late_ms: int | None
    #: the record this page was opened on
    current: bool
    #: tries before this record was given out (reconsumeTimes)
    tries: int = 0
    #: where consumers see it, or will: the real topic of what is parked
    real_topic: str = ""
    #: of a try or a dead letter the topic that the message was sent to first
    sent_to: str = ""
    #: whose another try, or dead letter, it is
    group: str | None = None
    #: parked, and not released yet
    waits: bool = False
    #: whose log has it, where the message has records at several brokers
    broker: str = ""
    #: of a timer: in whose place it is; None: in nobody's
    earlier: Earlier | None = None


class BodyForm(TextChoices):
    """The forms in which a body is shown."""

    EMPTY = "empty", _("empty")
    JSON = "json", _("JSON, shown as text")
    TEXT = "text", _("text")
    HEX = "hex", _("bytes")
    UNREADABLE = "unreadable", _("cannot be decompressed here")
    MASKED = "masked", _("masked")


@dataclass(frozen=True, slots=True)
class Body:
    """The body, decoded within stated limits. `text` is untrusted: escape it."""

    form: BodyForm
    text: str
    #: the first bytes as hex, 16 a row with offset and ASCII
    hex: str
    #: bytes as stored, and after decompression (None when that was not possible or stopped at the limit)
    stored_bytes: int
    full_bytes: int | None
    #: bytes of the (decompressed) body that are shown
    shown_bytes: int
    truncated: bool
    #: "zlib", "lz4", "zstd" or None: by RocketMQ's flags
    compression: str | None
    #: what opened it beside that, by name, and what was asked for ("": what its bytes and properties say)
    decoders: tuple[str, ...] = ()
    asked: str = ""
    #: it is not what was asked for
    has_failed: bool = False
    #: by the descriptor of its topic; None: that has none, or it was not asked for
    typed: TypedBody | None = None


class ReaderState(TextChoices):
    """The state of a message for one group that reads its topic."""

    HAD = "had", _("received")
    OUT = "out", _("delivered, not acknowledged")
    AGAIN = "again", _("waiting for retry")
    SENT_BACK = "sent-back", _("sent back, waiting")
    DEAD = "dead", _("dead-lettered")
    NOT_YET = "not-yet", _("not received yet")
    UNKNOWN = "unknown", _("cannot be determined")


@dataclass(frozen=True, slots=True)
class Reader:
    """A group that reads the queue of a message."""

    group: str
    state: ReaderState
    #: messages that the group gets first
    before: int
    #: consumers that are connected; None: not told
    members: int | None
    is_enabled: bool
    #: times that it was given out to this group, and refused or not acknowledged in time
    refused: int = 0
    #: when the next try leaves its lane or timer; None: it waits for none
    next_ms: int | None = None
    #: its client told so in a trace; the offsets do not (yet)
    is_told: bool = False

    @property
    def waits(self) -> bool:
        """Tell whether it stands in a queue that the group is to read."""
        return self.next_ms is None and self.state in (ReaderState.NOT_YET, ReaderState.AGAIN, ReaderState.SENT_BACK)


@dataclass(frozen=True, slots=True)
class AsTimer:
    """A message that is kept, or was, as a timer, by its broker's word for its `state`."""

    state: str
    due_ms: int
    position: int
    #: where what took its place is, when its cancel was undone; None: nothing did
    again: int | None = None


@dataclass(frozen=True, slots=True)
class MessagePage:
    """A message. `found` False: evidence tells whether it is absent or the broker did not answer."""

    evidence: Evidence
    now_ms: int
    message_id: str
    broker: str
    found: bool
    #: the real topic (REAL_TOPIC of a parked record)
    topic: str | None
    queue_id: int | None
    unique_key: str | None
    tag: str | None
    keys: tuple[str, ...]
    born_ms: int | None
    born_host: str | None
    store_host: str | None
    reconsume_times: int | None
    flag: int | None
    sys_flag: int | None
    #: when it is or was due; None when it was not delayed
    due_ms: int | None
    #: True while it waits on a lane
    pending: bool
    delay_level: int | None
    hops: tuple[Hop, ...]
    #: name and value, sorted by name; values are untrusted text
    properties: tuple[tuple[str, str], ...]
    properties_bytes: int
    body: Body | None
    #: records and what clients told, in order of time
    steps: tuple[LifeStep, ...] = ()
    #: things that clients with tracing told, the first TOLD_LIMIT are among the steps; None: could not be asked
    told: int | None = None
    #: a rule masks its body or some of its properties
    is_masked: bool = False
    #: groups that read its queue
    readers: tuple[Reader, ...] = ()
    #: the topic that it was sent to has the Protobuf type of its bodies
    has_descriptor: bool = False
    #: None: its record is no timer's, or the broker does not tell
    timer: AsTimer | None = None
    #: the topic that it was sent to first
    sent_to: str = ""

    @property
    def copied_from(self) -> str:
        """The offset id of the record that it says it is a copy of; "": it says none."""
        said = dict(self.properties).get(COPY_OF, "")
        return said if OFFSET_ID.fullmatch(said) else ""

    @property
    def overdue_ms(self) -> int | None:
        """The time in ms since it should have left its lane; None: it is in time, or gone."""
        if not self.pending or self.due_ms is None or not is_late(self.due_ms, self.now_ms):
            return None
        return self.now_ms - self.due_ms

    @property
    def verdict(self) -> Verdict | None:
        """What is with it, by the group for which it is worst."""
        if not self.found:
            return None
        if self.pending:
            return self._of_lane
        if self.timer is not None and (found := _of_timer(self.timer, self.now_ms)) is not None:
            return found
        if not self.readers:
            last = self.hops[-1] if self.hops else None
            if last is not None and last.kind is HopKind.DEAD_LETTER and last.group:
                return _of_dead(last.group)
            return Verdict("idle", said(gettext("Stored; no group that you can see consumes from its queue.")))
        worst = min(self.readers, key=lambda reader: _WORST.index(reader.state))
        stuck = next((each for each in self.readers if each.waits and (not each.is_enabled or each.members == 0)), None)
        if stuck is not None and worst.state is not ReaderState.DEAD:
            worst = stuck
        if worst.state is ReaderState.HAD:
            return _of_received([reader.group for reader in self.readers])
        found = _of_reader(worst, self.now_ms)
        return replace(found, advice=self.received) if self.received else found

    @property
    def received(self) -> SafeString | str:
        """How many of its groups have received it; empty where there are not several, or all have."""
        had = sum(each.state is ReaderState.HAD for each in self.readers)
        if had == len(self.readers) or len(self.readers) == 1:
            return ""
        return said(
            gettext("{had} of {count} groups have received it."), had=figure(had), count=figure(len(self.readers))
        )

    @property
    def _of_lane(self) -> Verdict:
        label, address = (
            gettext("Open delay level"),
            reverse("lane", args=[self.delay_level]) if self.delay_level else "",
        )
        if self.overdue_ms:
            words = said(
                gettext("Waiting on level {level}, and overdue by {late}: the level is behind."),
                level=self.delay_level, late=span(self.overdue_ms),
            )  # fmt: skip
            return Verdict("look", words, "", label, address)
        words = said(
            gettext("Waiting on level {level}; released {when}."),
            level=self.delay_level, when=due_in(self.due_ms, self.now_ms),
        )  # fmt: skip
        return Verdict("wait", words, gettext("A delay level cannot be cancelled or changed."), label, address)


def _of_timer(timer: AsTimer, now_ms: int) -> Verdict | None:
    """Return what is with a message that is kept as a timer; None: it is not any more."""
    label, address = gettext("Open timer"), reverse("timer", args=[timer.position])
    if timer.state == "pending":
        words = said(gettext("Pending as a timer: it fires {when}."), when=due_in(timer.due_ms, now_ms))
        return Verdict("look" if is_late(timer.due_ms, now_ms) else "wait", words, "", label, address)
    if timer.state == "rescheduled":
        return Verdict("idle", said(gettext("Rescheduled: another record replaces this one.")), "", label, address)
    if timer.state != "cancelled":
        return None
    words = said(gettext("Cancelled before it was due: it was not delivered."))
    if timer.again is None:
        return Verdict("idle", words, "", label, address)
    undone, other = gettext("That was undone: another message took its place."), reverse("timer", args=[timer.again])
    return Verdict("idle", words, undone, gettext("Open that timer"), other)


#: the worst first
_WORST = (
    ReaderState.DEAD,
    ReaderState.AGAIN,
    ReaderState.SENT_BACK,
    ReaderState.NOT_YET,
    ReaderState.OUT,
    ReaderState.UNKNOWN,
    ReaderState.HAD,
)


def _of_reader(reader: Reader, now_ms: int) -> Verdict:
    """Return what is with a message for one group that has not received it."""
    group = reader.group
    if reader.state is ReaderState.DEAD:
        return _of_dead(group)
    if reader.waits and not reader.is_enabled:
        words = said(gettext("Not received by {group}: consumption is disabled for the group."), group=group)
        return of_group("look", words, group, gettext("Enable it in the settings of the group."))
    if reader.waits and reader.members == 0:
        words = said(gettext("Not received by {group}: no consumer of it is connected."), group=group)
        return of_group("look", words, group, gettext("It is delivered when one connects."))
    if reader.next_ms is not None:
        when = due_in(reader.next_ms, now_ms)
        words = said(gettext("Rejected by {group}; the next retry is {when}."), group=group, when=when)
        return of_group("wait", words, group)
    if reader.state is ReaderState.OUT:
        words = said(gettext("Delivered to {group}, which has not acknowledged it yet."), group=group)
        return of_group("wait", words, group, gettext("Unacknowledged, it is delivered again."))
    if reader.waits:
        ahead = figure(reader.before)
        words = said(
            ngettext(
                "Not received by {group} yet: {ahead} message is ahead of it.",
                "Not received by {group} yet: {ahead} messages are ahead of it.",
                reader.before,
            ),
            group=group,
            ahead=ahead,
        )
        return of_group("wait", words, group)
    words = said(gettext("Whether {group} has received it cannot be determined."), group=group)
    return of_group("look", words, group)


def _of_dead(group: str) -> Verdict:
    words = said(gettext("A dead letter of {group}: it is not retried any more."), group=group)
    address = reverse("dead_letters_of", args=[group])
    return Verdict("broken", words, gettext("It can be resent."), gettext("Open dead letters"), address)


def _of_received(groups: Sequence[str]) -> Verdict:
    """Return what is with a message that each of these has: one group is named, several are counted."""
    if len(groups) == 1:
        words = said(gettext("Received by {group}."), group=groups[0])
    else:
        words = said(gettext("Received by all {count} groups that you can see."), count=figure(len(groups)))
    return Verdict("ok", words, gettext("What a filter or an offset reset skipped counts as received."))


@dataclass(frozen=True, slots=True)
class Became:
    """What became of a message, for a line of a list; `received`: by how many of several groups."""

    verdict: Verdict
    received: SafeString | str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """A hit of a search for messages."""

    topic: str
    unique_key: str | None
    offset_message_id: str
    keys: tuple[str, ...]
    tag: str | None
    store_ms: int
    size_bytes: int
    pending: bool
    due_ms: int | None
    broker: str = ""
    #: the first characters of the body when it is text
    preview: str | None = None


class WaitingFor(TextChoices):
    """What keeps something from being a message of its topic."""

    TIMER = "timer", _("timer")
    DECISION = "half", _("undecided half message")


@dataclass(frozen=True, slots=True)
class WaitingRow:
    """A timer or a half that waits, by the name that people know it by, with the address of its page."""

    kind: WaitingFor
    name: str
    topic: str
    #: None: nobody knows when
    due_ms: int | None
    address: str
    broker: str = ""


@dataclass(frozen=True, slots=True)
class WaitingUnder:
    """What waits with a key; `more_address`: the list that has the rest of the timers."""

    rows: tuple[WaitingRow, ...] = ()
    more_address: str = ""


@dataclass(frozen=True, slots=True)
class MessageFilter:
    """The choice among a topic's messages; `to_ms` is not included, a property without a value has to be there."""

    from_ms: int | None = None
    to_ms: int | None = None
    tag: str = ""
    name: str = ""
    value: str = ""
    #: what the body holds, opened as a page opens it, in UTF-8
    text: str = ""


@dataclass(frozen=True, slots=True)
class MessageSearch:
    """Messages of a topic that carry a key, newest first (request 12), also those still parked on a delay level."""

    #: of what else waits with that key
    waiting_table: ClassVar[Table] = WAITING

    evidence: Evidence
    now_ms: int
    topic: str
    key: str
    hits: tuple[Found, ...]
    #: the most that was asked for: as many hits may mean that there are more
    limit: int
    #: topics that were asked; 1 with a topic
    topics: int = 1
    #: records that were looked at, and those of the range that were not; None: found by an index
    read: int | None = None
    left: int = 0
    #: several brokers were asked
    has_several: bool = False
    #: records of the whole range; where the next page goes on, None: nothing of it is left
    total: int = 0
    cursor: str | None = None

    @property
    def looked(self) -> int:
        """The records that were looked at, with those of the pages before."""
        return self.total - self.left

    @property
    def table(self) -> Table:
        """The columns: the topic where several were looked through, the state where a message still waits."""
        return _MESSAGES_SHOWN[bool(self.topic), not any(hit.pending for hit in self.hits)]


@dataclass(frozen=True, slots=True)
class TopicToChoose:
    """A topic, with the messages that are in it and when it was written to last; None: not known, or never."""

    name: str
    held: int | None
    last_ms: int | None


@dataclass(frozen=True, slots=True)
class Beginning:
    """What is shown before anything is sought: topics, of `total` that are seen, and the newest messages."""

    topics: tuple[TopicToChoose, ...]
    total: int
    newest: MessageSearch

    @property
    def left(self) -> int:
        """The topics that are not among those shown."""
        return self.total - len(self.topics)


_GROUP = re.compile(r"[%|A-Za-z0-9_-]{1,255}")


class StepKind(TextChoices):
    """The kinds of event in a message's life; those of records have the same names as in HopKind."""

    BORN = "born", _("born")
    STORED = "stored", _("stored")
    PARKED = "parked", _("parked on a delay level")
    TIMER = "timer", _("parked as a timer")
    RELEASED = "released", _("released")
    RETRY = "retry", _("sent back for retry")
    DEAD_LETTER = "dead-letter", _("dead letter")
    SENT = "sent", _("sent")
    CONSUMED = "consumed", _("consumed")
    ENDED = "ended", _("transaction ended")
    RECALLED = "recalled", _("recalled")


@dataclass(frozen=True, slots=True)
class LifeStep:
    """A step of a message's life. `is_told`: by a client and its clock, its texts untrusted. None: not said."""

    kind: StepKind
    ms: int | None
    #: since the step before; None for the first, and where a moment is missing
    after_ms: int | None
    #: the physical record of it, or that it is about; None: there is none any more, or it cannot be said which
    hop: Hop | None
    is_told: bool = False
    group: str | None = None
    client: str | None = None
    took_ms: int | None = None
    succeeded: bool | None = None
    retries: int | None = None
    state: str | None = None

    @property
    def group_named(self) -> str | None:
        """The group, if a group can be called so."""
        return self.group if self.group and _GROUP.fullmatch(self.group) else None


_KINDS = {StepKind.RETRY: "moved", StepKind.DEAD_LETTER: "failed"}
#: steps drawn; the table has all
_MOST = 12
#: a name under the line: what is longer is in the table
_NAME_LENGTH = 14


def life_of(data: MessagePage) -> SafeString | None:
    """Draw the life of a message; return None when there is nothing to draw."""
    if not data.hops:
        return None
    stops: list[Stop] = []
    shown, omitted = drawn_of([step for step in data.steps if step.ms is not None], _MOST)
    for number, step in enumerate(shown):
        stop = _stop(step, stops[-1].ms if stops else None)
        stops.append(replace(stop, gap=left_out(omitted)) if omitted and number == 1 else stop)
    if data.pending and data.due_ms is not None:
        left = until(data.due_ms, data.now_ms)
        late = is_late(data.due_ms, data.now_ms)
        stops.append(Stop(data.due_ms, escape(gettext("due")), _time(data.due_ms), "ahead", left, is_late=late))
    label = escape(gettext("Lifecycle of the message: %(count)s steps") % {"count": len(data.steps)})
    return mark_safe(life_svg(stops, label=label))  # noqa: S308 - every text is escaped # nosec B308 B703


def _stop(step: LifeStep, before_ms: int | None) -> Stop:
    ms = step.ms or 0
    apart = ms - before_ms if before_ms is not None else 0
    gap = escape(span(apart)) if apart > FOLD_MS else ""
    kind = "failed" if step.succeeded is False else _KINDS.get(step.kind, "done")
    return Stop(ms, escape(_title(step)), _time(ms), kind, gap, is_told=step.is_told)


def _title(step: LifeStep) -> str:
    if step.kind is StepKind.CONSUMED:
        name = step.group or gettext("a consumer")
        return name if len(name) <= _NAME_LENGTH else name[: _NAME_LENGTH - 1] + "…"
    if step.succeeded is False:
        return gettext("not sent") if step.kind is StepKind.SENT else gettext("failed")
    return {
        StepKind.RETRY: gettext("retried"), StepKind.PARKED: gettext("parked"), StepKind.ENDED: gettext("decided"),
    }.get(step.kind, str(step.kind.label))  # fmt: skip


def _time(ms: int) -> str:
    return f"{local_time(ms):%H:%M:%S}.{ms % 1000:03d}"
