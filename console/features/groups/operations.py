"""A group set back or forward in a topic, or in all that it reads: to a moment, to the first message, to the end, or to
offsets it had before.

    {"group": "billing", "topic": "orders", "to": "time", "at_ms": 1795247527000}
    {"group": "billing", "topic": "orders", "to": "first" | "last"}
    {"group": "billing", "topic": "orders", "to": "offsets", "offsets": [[0, 120], [1, 118]]}
    {"group": "billing", "topic": "*", "to": "time", "at_ms": 1795247527000}

One item is one queue; each keeps where the group was, so that it can be put back. Where no broker is chosen, the group
is moved at all of them, and offsets say whose queue they are of: `[0, 120, "broker-a"]`. With `"topic": "*"` it is
moved in each topic that it has offsets in when it is previewed, but its own tries and dead letters; offsets say the
topic at their end: `[0, 120, "", "orders"]`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Any, ClassVar
from urllib.parse import quote

from django.http import QueryDict
from django.urls import reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from broker.client import Admin, BrokerRefused, ClientError, InvalidArgument, RouteNotFound
from broker.client.names import check_group, check_topic
from broker.mirror.models import ConsumerOffset
from broker.rocketmq.codes import Answer
from broker.rocketmq.topics import GROUP_PREFIXES
from console.features.groups import read
from console.operations.actor import RESET_OFFSETS, Scope, named
from console.operations.catch_up import behind_at, in_words, lag_of_topics, pace
from console.operations.errors import InvalidName, InvalidParameter, NotPossible, TooMany
from console.operations.kind import (
    REASON,
    Call,
    Command,
    Form,
    ItemResult,
    Kind,
    LagPreview,
    Outcome,
    Target,
    Undo,
    renamed,
)
from console.operations.marks import moment_at
from console.operations.models import Operation, OperationItem
from console.operations.registry import register
from console.operations.typed_moments import time_ms
from console.security.topic_scope import current_scope
from console.site import broker as site_broker
from console.site.broker import asked_of, at, tell_each
from console.site.chosen import choice_of, chosen
from console.site.clock import epoch_ms, now_ms, shown_ms
from console.site.mirrored import Cluster, cluster

#: topics of one group for which the palette has a command each
_TOPICS = 8
WAYS = ("time", "first", "last", "offsets")
MOST_QUEUES = 1_000
#: stands for all topics of the group: no topic can be called so
ALL_TOPICS = "*"


@dataclass(frozen=True, slots=True)
class QueueMove:
    """A queue: where the group is (None: it has no offset there) and where it is to go on."""

    #: "": the one there is, or that is chosen
    broker: str
    queue_id: int
    low: int
    high: int
    before: int | None
    after: int
    topic: str = ""

    @property
    def lag_before(self) -> int | None:
        """The number of messages that the group is behind in this queue now; None: not known."""
        return None if self.before is None else max(0, self.high - self.before)

    @property
    def lag_after(self) -> int:
        """The number of messages that it would be behind afterwards."""
        return max(0, self.high - self.after)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsPreview(LagPreview):
    """The offsets at which a group would go on, queue by queue (`examples` has every queue that changes)."""

    weights: ClassVar[tuple[str, ...]] = ("replayed", "skipped")

    #: messages that are given out again, and that are never given out
    replayed: int | None = None
    skipped: int | None = None
    #: brokers that did not answer: the group stays where it is there
    away: list[str] = field(default_factory=list)


@register
class ResetOffsets(Kind[OffsetsPreview]):
    """The operation that moves a group's offsets: it gets messages again, or never gets those that are skipped."""

    name = "groups.reset_offsets"
    destroys = True
    permission = RESET_OFFSETS
    title, verb = _("Reset offsets of a group"), _("Reset offsets")
    begun_on = "groups"
    effect = _("Consumers continue from the new offsets immediately. This can be undone.")
    outcomes = {"offset_moved": Outcome(_("offset reset"))}
    page = "groups"
    preview_type = OffsetsPreview
    preview_template = "groups/operation_preview.html"
    verbs = ("reset", "重置", "move", "移动")
    undone_by, undo_verb = name, _("Restore offsets…")
    leave_words = _("Open group")

    def from_form(self, given: QueryDict) -> dict[str, Any]:
        """Return group, topic and where to; raises InvalidParameter for a moment that is none."""
        parameters: dict[str, Any] = {name: given.get(name, "") for name in ("group", "topic", "to")}
        if parameters["to"] == "time":
            text = given.get("moment", "").strip()
            parameters["at_ms"] = time_ms(text, unsigned="back")
        return parameters

    def commands(self, verb: str, rest: str) -> Iterator[Command]:
        """Yield one for `GROUP TOPIC WHERE`, or for `GROUP WHERE` one for each topic that the group reads."""
        words = rest.split()
        group = words[0]
        found = ConsumerOffset.objects.filter(broker__in=cluster().names, group=group).values_list("topic", flat=True)
        topics = [name for name in found.distinct().order_by("topic") if not name.startswith(GROUP_PREFIXES)]
        seen = current_scope()
        topics, is_whole = [name for name in topics if seen.topic(name)], seen.whole_group(group)
        if len(words) > 1 and words[1] in (*topics, ALL_TOPICS):
            topics, words = [words[1]], [group, *words[2:]]
        if len(words) < 2 or not seen.group(group) or (topics == [ALL_TOPICS] and not is_whole):
            return
        to, reason = words[1], " ".join(words[2:])
        for topic in [*topics[:_TOPICS], *([ALL_TOPICS] if len(topics) > 1 and is_whole else [])]:
            if topic == ALL_TOPICS:
                words_of = gettext("Reset offsets of %(group)s on all its topics to %(to)s")
            else:
                words_of = gettext("Reset offsets of %(group)s on %(topic)s to %(to)s")
            label = words_of % {"group": group, "topic": topic, "to": to}
            text = " ".join(word for word in (verb, group, topic, to, reason) if word)
            parameters = partial(_place, {"group": group, "topic": topic}, to)
            yield Command(text, label, self.name, self.permission, parameters, reason)

    def form_again(self, given: QueryDict, faults: Mapping[str, str]) -> Form | None:
        """Return the form of the group's page."""
        return Form("groups/move.html", {"data": read.group(given.get("group", ""))})

    def scope(self, parameters: Mapping[str, Any], preview: Mapping[str, Any] | None) -> Scope:
        """Return the topic and the group; of all topics those that were counted."""
        if parameters.get("topic") == ALL_TOPICS:
            counted = frozenset(str(topic) for topic, _count in (preview or {}).get("topics", ()))
            return Scope(counted, named(parameters.get("group")))
        return Scope(named(parameters.get("topic")), readers=named(parameters.get("group")))

    def topics_touched(self, parameters: Mapping[str, Any], preview: Mapping[str, Any]) -> frozenset[str] | None:
        """Return the topics that change."""
        return self.scope(parameters, preview).topics

    def selection(self, parameters: Mapping[str, Any]) -> str:
        """Return the group and the topic."""
        if parameters["topic"] == ALL_TOPICS:
            return gettext("%(group)s in all its topics") % {"group": parameters["group"]}
        return gettext("%(group)s in %(topic)s") % {name: parameters[name] for name in ("group", "topic")}

    def lag_now(self, parameters: Mapping[str, Any], preview: OffsetsPreview) -> int | None:
        """Return how far the group is behind in the topics in which it was moved."""
        return lag_of_topics((topic for topic, _count in preview.topics), parameters["group"])

    def lag_of(self, parameters: Mapping[str, Any], preview: OffsetsPreview) -> str:
        """Return the group and its topics."""
        return in_words((topic for topic, _count in preview.topics), parameters["group"])

    def marked(self, preview: OffsetsPreview) -> str:
        """Return how many it got again, and how many it never gets."""
        said = [
            (preview.replayed, gettext("%(count)s consumed again")), (preview.skipped, gettext("%(count)s skipped")),
        ]  # fmt: skip
        return ", ".join(words % {"count": f"{count:,}"} for count, words in said if count)

    def leave_address(self, parameters: Mapping[str, Any]) -> str:
        """Return the address of the group."""
        return reverse("group", args=[parameters["group"]])

    def rest_call(self, parameters: Mapping[str, Any]) -> Call | None:
        """Return the call on the group in the topic, or in all its topics."""
        topic, group = (quote(parameters[name], safe="") for name in ("topic", "group"))
        body = renamed(parameters, {"to": "to", "at_ms": "at", "offsets": "offsets"})
        of = f"?broker={quote(chosen().name, safe='')}" if chosen().broker else ""
        if parameters["topic"] == ALL_TOPICS:
            # no call puts single queues of several topics back
            return None if "offsets" in body else ("POST", f"groups/{group}:reset-offsets{of}", {**body, **REASON})
        return "POST", f"topics/{topic}/groups/{group}:reset-offsets{of}", {**body, **REASON}

    def undo_of(self, row: Operation) -> Undo | None:
        """Return that the group can be put back, once something was done and nothing runs."""
        return Undo(bool(row.done) and not row.is_under_way)

    def undo_parameters(self, row: Operation, given: QueryDict) -> dict[str, Any]:
        """Return the offsets at which the group was before; raises NotPossible."""
        labels = row.items.exclude(outcome="").values_list("label", flat=True)
        return undo_parameters(row.parameters, list(labels))

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return group, topic and one way to say where."""
        group, topic, way = (parameters.get(name) for name in ("group", "topic", "to"))
        try:
            check_group(group if isinstance(group, str) else "")
            if topic != ALL_TOPICS:
                check_topic(topic if isinstance(topic, str) else "")
        except InvalidArgument as error:
            raise InvalidName(error.field or "topic", error) from None
        if way not in WAYS:
            raise InvalidParameter("to", f"to is one of {', '.join(WAYS)}.")
        checked: dict[str, Any] = {"group": group, "topic": topic, "to": way}
        if way == "time":
            if not _is_whole(parameters.get("at_ms")):
                raise InvalidParameter("at_ms", "at_ms must be a time in epoch milliseconds.")
            checked["at_ms"] = parameters["at_ms"]
        if way == "offsets":
            checked["offsets"] = _offsets(parameters.get("offsets"), of_all=topic == ALL_TOPICS)
        return checked

    def preview(self, parameters: Mapping[str, Any]) -> OffsetsPreview:
        """Look at each queue: where the group is and would be; the lag of them all before and after."""
        moves, away = _moves(parameters)
        behind = sum(move.lag_after for move in moves)
        known = [move.lag_before for move in moves if move.lag_before is not None]
        before = sum(known) if len(known) == len(moves) else None
        then = behind_at(pace(site_broker.admin(), parameters["group"]), before or 0, behind)
        return OffsetsPreview(
            at_ms=now_ms(),
            count=len(moves),
            examples=[
                {
                    **({"broker": move.broker} if move.broker else {}),
                    **({"topic": move.topic} if parameters["topic"] == ALL_TOPICS else {}),
                    "queue_id": move.queue_id,
                    "before": move.before,
                    "after": move.after,
                    "high": move.high,
                }
                for move in moves
            ],
            topics=[[topic, count] for topic, count in Counter(move.topic for move in moves).most_common()],
            **then.as_fields() | {"lag_before": before},
            replayed=sum(max(0, move.before - move.after) for move in moves if move.before is not None),
            skipped=sum(max(0, move.after - move.before) for move in moves if move.before is not None),
            away=away,
        )

    def targets(self, parameters: Mapping[str, Any], preview: OffsetsPreview) -> Sequence[Target]:
        """Return every queue that changes, looked for again now."""
        moves, _away = _moves(parameters)
        is_all = parameters["topic"] == ALL_TOPICS
        # of all topics those that were shown, and that whoever asks was found to be allowed
        shown = {topic for topic, _count in preview.topics} if is_all else {parameters["topic"]}
        there = (move for move in moves if move.topic in shown and move.broker not in preview.away)
        return [_target(move, is_all=is_all) for move in there]

    def act(self, parameters: Mapping[str, Any], reason: str, targets: Sequence[Mapping[str, Any]]) -> list[ItemResult]:
        """Send one request for each queue; the broker tells consumers that are at work."""
        results = []
        for target in targets:
            with at(target.get("broker", "")):
                results.append(_moved(site_broker.admin(), parameters, target))
        return results


def _target(move: QueueMove, *, is_all: bool) -> Target:
    of = {"broker": move.broker} if move.broker else {}
    name = f"{move.queue_id}: {'-' if move.before is None else f'{move.before:,}'} → {move.after:,}"
    label = {"topic": move.topic, "queue_id": move.queue_id, "before": move.before, "name": name, **of}
    in_topic = {"topic": move.topic} if is_all else {}
    return Target({"queueId": move.queue_id, "offset": move.after, **in_topic, **of}, label)


def _place(place: Mapping[str, str], to: str) -> dict[str, Any]:
    """Return the parameters for an end, a span or a moment; raises InvalidParameter."""
    if to in ("first", "last"):
        return {**place, "to": to}
    return {**place, "to": "time", "at_ms": time_ms(to, unsigned="back")}


def moved_back(group: str, start_ms: int, end_ms: int) -> list[tuple[str, int, int]]:
    """Return what was done to the group's offsets in this time, with the broker ("": the first) and the moment:
    by how many messages they were set back, less than 0 where forward."""
    moment = OperationItem.objects.filter(
        operation__kind=ResetOffsets.name, operation__parameters__group=group, outcome="offset_moved",
        operation__started_at__range=(moment_at(start_ms), moment_at(end_ms)),
        # the index knows when it was made
        operation__created_at__gte=moment_at(start_ms) - timedelta(days=2),
    )  # fmt: skip
    found = moment.values_list("operation__started_at", "operation__broker", "label", "target")
    return [
        (
            str(label.get("broker") or (of if choice_of(of).broker else "")),
            shown_ms(epoch_ms(at) or 0),
            label["before"] - target["offset"],
        )
        for at, of, label, target in found
        if label.get("before") is not None
    ]


def undo_parameters(parameters: Mapping[str, Any], labels: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what puts a group back where it was before an operation with these items; raises NotPossible."""
    is_all = parameters["topic"] == ALL_TOPICS
    offsets = [
        [label["queue_id"], label["before"], *_whose(label, is_all=is_all)]
        for label in labels
        if label.get("before") is not None
    ]
    if not offsets:
        raise NotPossible("The group had no offsets before: there is nothing to go back to.")
    return {"group": parameters["group"], "topic": parameters["topic"], "to": "offsets", "offsets": offsets}


def _whose(label: Mapping[str, Any], *, is_all: bool) -> list[str]:
    """Return whose queue an item is of: its broker where there are several, and its topic where it is not the only."""
    broker = label.get("broker") or ""
    return [broker, label["topic"]] if is_all else [broker] if broker else []


def _moved(admin: Admin, parameters: Mapping[str, Any], target: Mapping[str, Any]) -> ItemResult:
    topic, offset = target.get("topic", parameters["topic"]), target["offset"]
    try:
        admin.move_group(parameters["group"], topic, target["queueId"], offset)
    except BrokerRefused as error:
        return ItemResult("refused", {"error": str(error)})
    except ClientError as error:
        return ItemResult("unknown", {"error": str(error)})
    return ItemResult("offset_moved", {"topic": topic, "offset": offset})


def _moves(parameters: Mapping[str, Any]) -> tuple[list[QueueMove], list[str]]:
    """Return the queues that change, and the brokers that are away; raises ClientError, InvalidParameter, TooMany."""
    here = cluster()
    given = _by_queue(parameters, here)
    told = tell_each(lambda admin: _moves_at(admin, parameters, given), asked_of(here))
    moves = [replace(move, broker=each.broker) for each in told for move in each.answer or ()]
    if parameters["topic"] == ALL_TOPICS and len(moves) > MOST_QUEUES:
        raise TooMany(MOST_QUEUES)
    return moves, [each.broker for each in told if each.error is not None and not _is_absent(each.error)]


def _is_absent(error: ClientError) -> bool:
    """Tell whether the broker answered that it has no such topic."""
    return isinstance(error, BrokerRefused) and error.code == Answer.TOPIC_NOT_EXIST


#: offsets that were given, by broker ("": the one there is), topic and queue
_Given = Mapping[tuple[str, str, int], int]


def _by_queue(parameters: Mapping[str, Any], here: Cluster) -> _Given:
    """Return the offsets that were given; raises InvalidParameter."""
    given = {}
    for queue_id, offset, *whose in parameters.get("offsets", []):
        name, topic = (*whose, "", "")[0], whose[1] if len(whose) > 1 else parameters["topic"]
        if here.has_several and name not in here.names:
            raise InvalidParameter("offsets", f"Give the broker of each queue: {', '.join(here.names)}.")
        given[name if here.has_several else "", topic, queue_id] = offset
    return given


def _moves_at(admin: Admin, parameters: Mapping[str, Any], given: _Given) -> list[QueueMove]:
    """Return the queues that change at one broker, none where it has no such topic; raises ClientError."""
    name = chosen().name
    progress = _progress(admin, parameters["group"])
    own = {(topic, queue_id): offset for (broker, topic, queue_id), offset in given.items() if broker in ("", name)}
    if parameters["topic"] != ALL_TOPICS:
        return _moves_in(admin, parameters["topic"], parameters, progress, own)
    topics = sorted({each.queue.topic for each in progress if not each.queue.topic.startswith(GROUP_PREFIXES)})
    moves = []
    for topic in topics:
        try:
            moves += _moves_in(admin, topic, parameters, progress, own)
        except (BrokerRefused, RouteNotFound) as error:
            # deleted while the group still has offsets in it
            if isinstance(error, BrokerRefused) and not _is_absent(error):
                raise
    return moves


def _moves_in(
    admin: Admin,
    topic: str,
    parameters: Mapping[str, Any],
    progress: Sequence[Any],
    given: Mapping[tuple[str, int], int],
) -> list[QueueMove]:
    """Return the queues of a topic that change; raises ClientError."""
    committed = {
        each.queue.queue_id: each.consumer_offset
        for each in progress
        if each.queue.topic == topic and each.consumer_offset >= 0
    }
    moves = []
    for part in admin.topic_stats(topic).queues:
        queue_id, low, high = part.queue.queue_id, part.min_offset, part.max_offset
        if parameters["to"] == "offsets":
            if (topic, queue_id) not in given:
                continue
            after = min(max(given[topic, queue_id], low), high)
        elif parameters["to"] == "time":
            after = min(max(admin.offset_at(topic, queue_id, parameters["at_ms"]), low), high)
        else:
            after = low if parameters["to"] == "first" else high
        if committed.get(queue_id) != after:
            moves.append(QueueMove("", queue_id, low, high, committed.get(queue_id), after, topic))
    return moves


def _progress(admin: Admin, group: str) -> Sequence[Any]:
    """Return where the group is; nothing for one that has never consumed."""
    try:
        return admin.consume_stats(group).queues
    except BrokerRefused:
        return ()


def _offsets(given: Any, *, of_all: bool) -> list[list[Any]]:
    if not isinstance(given, list) or not 0 < len(given) <= MOST_QUEUES:
        raise InvalidParameter("offsets", f"offsets are 1 to {MOST_QUEUES:,} pairs of queue and offset.")
    sizes = (4,) if of_all else (2, 3)
    for pair in given:
        is_pair = isinstance(pair, list | tuple) and len(pair) in sizes and all(map(_is_whole, pair[:2]))
        if not is_pair or not all(isinstance(name, str) for name in pair[2:]):
            raise InvalidParameter("offsets", "offsets are pairs of queue and offset, both whole numbers.")
    return [list(pair) for pair in given]


def _is_whole(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and 0 <= number < 2**63
