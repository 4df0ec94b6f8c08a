"""All that has one key or id, on one page: timers that wait, halves, delayed messages, messages, dead letters, and what
operations did to things of this name.

A message stands once, with what became of it in the words of its own page: what waits on a lane, a try or a dead
letter is the same message, and so is what a timer or a decided half became. Where just one thing has the key, that one
is shown instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from django.db.models import TextChoices
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from broker.rocketmq.topics import DLQ_PREFIX, RETRY_PREFIX
from console.features.messages import read as messages_read
from console.features.messages.across import is_offset_id
from console.features.messages.shapes import Became, Found
from console.features.timers import read as timers_read
from console.features.timers.shapes import TimerFilter, TimerRow
from console.features.transactions.operations import halves_named
from console.features.transactions.shapes import UNDECIDED, TransactionRow
from console.operations.models import OperationItem
from console.operations.reading import touched
from console.site.broker import address_at, at, if_several
from console.site.clock import epoch_ms
from console.site.mirrored import Here, cluster
from console.templatetags.escapement import is_late
from console.templatetags.operations import kind_title, outcome_words
from console.ui.table import BROKER, LABEL, LEFT, MOMENT, Cell, Column, Table
from console.ui.verdicts import Tone

#: of each kind; the lists that the page leads to have the others
SHOWN = 16
TEXT_LENGTH = 300

THINGS = Table(
    "things",
    (
        Column("kind", _("Kind"), LABEL),
        Column("name", _("Key"), Cell("messages/cells/waiting.html")),
        Column("state", _("State"), Cell("messages/cells/became.html")),
        Column("topic", _("Topic"), Cell("messages/cells/topic.html", by=("topic",))),
        Column("store_ms", _("Stored"), MOMENT),
        Column("due_ms", _("Due"), MOMENT),
        Column("left", _("Due in"), LEFT, field="due_ms"),
        BROKER,
    ),
)


class ThingKind(TextChoices):
    """What has a key; the order is that of the page."""

    TIMER = "timer", _("timer")
    HALF = "half", _("half message")
    DELAYED = "delayed", _("delayed message")
    DEAD = "dead", _("dead letter")
    MESSAGE = "message", _("message")
    OPERATION = "operation", _("operation")


_SEVERAL = {
    ThingKind.TIMER: _("Timers"),
    ThingKind.HALF: _("Half messages"),
    ThingKind.DELAYED: _("Delayed messages"),
    ThingKind.DEAD: _("Dead letters"),
    ThingKind.MESSAGE: _("Messages"),
    ThingKind.OPERATION: _("Operations"),
}
#: of which kinds it is asked first what became of them
_LOOKED = (ThingKind.MESSAGE, ThingKind.DEAD, ThingKind.DELAYED)


@dataclass(frozen=True, slots=True)
class Thing:
    """One thing with the key, by the name that people know it by."""

    kind: ThingKind
    name: str
    state: str
    topic: str
    #: None: it is not due at any moment, or nobody knows when
    due_ms: int | None
    address: str
    broker: str = ""
    #: when its record, or the first of its records, was stored
    store_ms: int | None = None
    tone: Tone = "wait"
    #: of a message for several groups, by how many it was received
    received: str = ""
    #: of a message the record by which it is asked what became of it
    message_id: str = ""


@dataclass(frozen=True, slots=True)
class Things:
    """Everything that was found under a key."""

    table: ClassVar[Table] = THINGS

    now_ms: int
    rows: tuple[Thing, ...]
    has_several: bool
    #: of which kinds there are more than are shown
    cut: frozenset[ThingKind] = frozenset()

    @property
    def counts(self) -> list[tuple[str, int, bool]]:
        """How many of each kind there are: what it is called, the number, and whether there are more."""
        found = Counter(row.kind for row in self.rows)
        return [(str(_SEVERAL[kind]), found[kind], kind in self.cut) for kind in ThingKind if found[kind]]

    @property
    def only(self) -> Thing | None:
        """The one thing that has the key, whose page tells what was done to it; where it is no longer there, the one
        operation that touched it. None: there is none, or there are several."""
        things = [row for row in self.rows if row.kind is not ThingKind.OPERATION] or self.rows
        return things[0] if len(things) == 1 and not self.cut - {ThingKind.OPERATION} else None


def timers_under(key: str, topic: str = "") -> tuple[tuple[TimerRow, ...], bool]:
    """Return the timers that wait with this key or message id, of one topic or ("") of all that are seen, and whether
    there are more."""
    found = timers_read.timer_list(TimerFilter(topic=topic, key=key), count=SHOWN)
    return tuple(found.rows[:SHOWN]), bool(found.cursor) or len(found.rows) > SHOWN


def halves_under(key: str, topic: str = "", *, is_decided_too: bool = False) -> list[TransactionRow]:
    """Return the halves with this key or message id, the newest first: those that wait for a decision, or all."""
    return [
        row for row in halves_named(key)
        if row.position is not None and (is_decided_too or row.state in UNDECIDED) and topic in ("", row.topic)
    ]  # fmt: skip


@require_safe
def open_key(request: HttpRequest) -> HttpResponse:
    """See the one thing with the key, id or offset id `q`, or all that there are: a timer that waits is not passed over
    for a message of another topic. `of=timers` and `of=transactions` look there only."""
    text = request.GET.get("q", "").strip()[:TEXT_LENGTH]
    if is_offset_id(text):
        return redirect("message", text)
    of = request.GET.get("of", "")
    if text and of in _ALONE:
        found = _ALONE[of](text)
        return redirect(found or f"{reverse('messages')}?{urlencode({'q': text})}")
    things = things_under(text) if text else None
    if things is None or not things.rows:
        return redirect(f"{reverse('messages')}?{urlencode({'q': text})}")
    if things.only is not None:
        return redirect(things.only.address)
    context = {
        "data": things, "text": text, "has_more_timers": ThingKind.TIMER in things.cut,
        "query": urlencode({"key": text}), "search": urlencode({"q": text}),
    }  # fmt: skip
    return render(request, "jumping/under_key.html", context)


def things_under(key: str) -> Things:
    """Return everything with this key or id that is seen, at most SHOWN of a kind."""
    of = cluster()
    hits = messages_read.messages_everywhere(key).hits
    known = frozenset(hit.unique_key for hit in hits)
    timers, is_cut = timers_under(key)
    waiting = [row for row in timers if row.unique_key not in known]
    found = [*(thing_of_timer(row, of) for row in waiting), *_messages(hits, of)]
    # what a decided half became is a message
    halves = halves_under(key, is_decided_too=not found)
    found += [thing_of_half(row, of) for row in halves]
    # a timer that was cancelled is nowhere else
    found += [_thing_of_operation(item) for item in touched(key, SHOWN + 1)]
    counts, rows = Counter(row.kind for row in found), list[Thing]()
    for kind in ThingKind:
        rows += [row for row in found if row.kind is kind][:SHOWN]
    cut = {kind for kind in counts if counts[kind] > SHOWN} | ({ThingKind.TIMER} if is_cut else set())
    things = Things(of.now_ms, tuple(rows), of.has_several, frozenset(cut))
    # where one is opened itself, its own page says what became of it
    return things if things.only is not None else replace(things, rows=tuple(_judged(rows, of)))


def thing_of_timer(row: TimerRow, of: Here) -> Thing:
    """Return a timer that waits, with its page."""
    address = address_at(if_several(row.broker, of), "timer", row.position)
    tone: Tone = "look" if is_late(row.due_ms, of.now_ms) else "wait"
    return Thing(
        ThingKind.TIMER, row.name, gettext("pending"), row.topic, row.due_ms, address, row.broker, row.store_ms, tone
    )


def thing_of_half(row: TransactionRow, of: Here) -> Thing:
    """Return a half, with its page."""
    address = address_at(if_several(row.broker, of), "transaction", row.position)
    tone: Tone = "wait" if row.state in UNDECIDED else "idle"
    return Thing(
        ThingKind.HALF, row.name, str(row.state.label), row.topic, None, address, row.broker, row.store_ms, tone
    )


def _thing_of_operation(item: OperationItem) -> Thing:
    """Return what somebody did to a thing, with the page of the operation."""
    row = item.operation
    words = gettext("%(result)s by %(who)s") % {"result": outcome_words(item.outcome), "who": row.actor}
    address = reverse("operation", args=[row.pk])
    return Thing(
        ThingKind.OPERATION, kind_title(row.kind), words, item.topic, item.due_ms, address, row.broker,
        epoch_ms(row.created_at), "idle",
    )  # fmt: skip


def _judged(rows: Sequence[Thing], of: Here) -> list[Thing]:
    """Return the rows with what became of messages, those first that wait for nothing: at most SHOWN are looked at."""
    looked = sorted((row for row in rows if row.message_id), key=lambda row: _LOOKED.index(row.kind))[:SHOWN]
    became: dict[str, Became] = {}
    for broker in dict.fromkeys(row.broker for row in looked):
        with at(if_several(broker, of)):
            became |= messages_read.what_became([row.message_id for row in looked if row.broker == broker])
    return [_with_verdict(row, became.get(row.message_id)) for row in rows]


def _with_verdict(row: Thing, became: Became | None) -> Thing:
    if became is None:
        return row
    return replace(row, state=became.verdict.words, tone=became.verdict.tone, received=became.received)


def _messages(hits: Sequence[Found], of: Here) -> list[Thing]:
    """Return each message once, the newest first; `hits` are its records, the newest first."""
    records: dict[str, list[Found]] = {}
    for hit in hits:
        records.setdefault(hit.unique_key or hit.offset_message_id, []).append(hit)
    return [_message(several, of) for several in records.values()]


def _message(records: Sequence[Found], of: Here) -> Thing:
    """Return a message by its first record, whose page has the others; the newest one says what is known of it before
    anybody asks what became of it."""
    newest, first = records[0], records[-1]
    name = next(iter(first.keys), None) or first.unique_key or first.offset_message_id
    address = address_at(if_several(first.broker, of), "message", first.offset_message_id)
    kind, state = ThingKind.MESSAGE, gettext("stored")
    tone: Tone = "idle"
    if newest.topic.startswith(DLQ_PREFIX):
        kind, tone = ThingKind.DEAD, "broken"
        state = gettext("dead letter of %(group)s") % {"group": newest.topic.removeprefix(DLQ_PREFIX)}
    elif newest.topic.startswith(RETRY_PREFIX):
        words = gettext("waiting for retry by %(group)s") if newest.pending else gettext("given again to %(group)s")
        state, tone = words % {"group": newest.topic.removeprefix(RETRY_PREFIX)}, "wait"
    elif newest.pending:
        kind, state, tone = ThingKind.DELAYED, gettext("waiting for delivery"), "wait"
    due_ms = newest.due_ms if newest.pending else None
    return Thing(
        kind, name, state, first.topic, due_ms, address, first.broker, first.store_ms, tone,
        # a dead letter names its group, which need not have an offset in the topic
        message_id=(newest if kind is ThingKind.DEAD else first).offset_message_id,
    )  # fmt: skip


def _of_timers(text: str) -> str | None:
    """Return the page of the one timer, or the list of those with the key."""
    rows, is_cut = timers_under(text)
    if len(rows) == 1 and not is_cut:
        return thing_of_timer(rows[0], cluster()).address
    return f"{reverse('timer_list')}?{urlencode({'key': text})}" if rows else None


def _of_transactions(text: str) -> str | None:
    """Return the page of the newest transaction: who sends a half with a key again means the last one."""
    rows = halves_under(text, is_decided_too=True)
    return thing_of_half(rows[0], cluster()).address if rows else None


#: where only one kind of thing is looked for
_ALONE = {"timers": _of_timers, "transactions": _of_transactions}
