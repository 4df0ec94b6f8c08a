"""Dead letters once more: to the group that gave them up, or as new messages for all groups.

    {"group": "billing", "targets": [{"queueId": 0, "offset": 12}, ...]}      (of several brokers: and "broker")
    {"group": "billing", "filter": {"topic": "orders", "key": "", "from_ms": None, "to_ms": None}, "is_all": False}

A filter leaves out what was sent again before; who names one means it. An empty filter must be asked for by `is_all`.
Each is sent again by the broker at which it lies; of several those that do not answer are named, and left out.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar
from urllib.parse import quote

from django.http import QueryDict
from django.urls import reverse
from django.utils.translation import gettext, ngettext, ngettext_lazy
from django.utils.translation import gettext_lazy as _

from broker.client import Admin, BrokerRefused, ClientError, InvalidArgument, Message
from broker.client.names import check_group
from broker.rocketmq.topics import DLQ_PREFIX
from console.features.dead_letters.models import Marks, marks_of
from console.features.dead_letters.pages import (
    STEP,
    bounds_of,
    letter_of,
    matches,
    newest_first,
    one_name,
    with_state,
)
from console.features.dead_letters.resent import Done, marked, question_of
from console.features.dead_letters.shapes import PAGE, SENT_AS_NEW, SENT_BACK, STATES, DeadLetter, DeadLetterFilter
from console.operations.actor import RESEND_DEAD_LETTERS, Scope
from console.operations.catch_up import Behind, behind_after, group_behind_after, in_words, lag_of_group, lag_of_topics
from console.operations.copies import NotReadable, SentAgainPreview, send_back, send_copy
from console.operations.errors import InvalidName, InvalidParameter, TooMany
from console.operations.fates import dead_letter_ends, fates_of
from console.operations.kind import LIMIT, REASON, Call, Command, ItemNow, ItemResult, Kind, Outcome, Target
from console.operations.models import Operation, OperationItem
from console.operations.registry import register
from console.operations.selection import (
    EXAMPLES,
    MOST_TARGETS,
    PREVIEW_PATIENCE_S,
    checked_filter,
    chosen_body,
    count_of,
    is_whole,
    topics_of,
    window_words,
)
from console.security.topic_scope import current_scope
from console.site import broker as site_broker
from console.site.broker import address_at, asked_of, at, if_several, tell_each
from console.site.chosen import chosen
from console.site.clock import now_ms
from console.site.mirrored import Cluster, cluster
from console.site.parsing import whole_number

#: names of a filter's fields here and in REST
_FILTER = {
    "topic": "topic",
    "key": "key",
    "from_ms": "died_from",
    "to_ms": "died_before",
    "error": "error",
    "state": "state",
}
_TEXT_LENGTH = 1_000


#: fields of a filter that are texts
_TEXTS = ("topic", "key", "error", "state")
OPEN_WORDS = "those not handled"


@dataclass(frozen=True, slots=True)
class Found:
    """The dead letters that an operation is about, the newest first."""

    rows: Sequence[DeadLetter]
    #: all that match were found
    is_whole: bool = True
    #: the brokers that did not answer
    away: Sequence[str] = ()


def message_at(admin: Admin, group: str, queue_id: int, offset: int) -> Message | None:
    """Return the record itself; None if it is not there any more."""
    found = [each for each in admin.pull(DLQ_PREFIX + group, queue_id, offset, 1) if each.queue_offset == offset]
    return found[0] if found else None


def find_matching(
    group: str, wanted: DeadLetterFilter, *, most: int, patience_s: float | None, with_resent: bool = False
) -> Found:
    """Find the dead letters that match, at most `most`, those sent again before only if asked for; raise ClientError.

    Hidden ones, and handled ones that the filter does not ask for, are not among them.
    """
    here = cluster()
    end_s = None if patience_s is None else time.monotonic() + patience_s
    told = tell_each(lambda admin: bounds_of(admin, group), asked_of(here))
    marks = marks_of(group, here.names)
    found: list[DeadLetter] = []
    is_whole = True
    for each in told:
        if each.answer is None:
            continue
        with at(each.broker):
            letters = newest_first(site_broker.admin(), group, each.answer, None)
            part = (_placed(row, each.broker or one_name(here), here, marks) for row in letters)
            search = _Search(group, wanted, most, end_s, with_resent)
            rows, is_part_whole = search.through(part)
        found += rows
        is_whole = is_whole and is_part_whole
    if here.has_several:
        found.sort(key=lambda row: -row.died_ms)
    return Found(found[:most], is_whole and len(found) <= most, [each.broker for each in told if each.error])


@dataclass(frozen=True, slots=True)
class _Search:
    """A search for what matches at one broker."""

    group: str
    wanted: DeadLetterFilter
    most: int
    end_s: float | None
    with_resent: bool

    def through(self, letters: Iterable[DeadLetter]) -> tuple[list[DeadLetter], bool]:
        """Return what matches, and whether that is all of it."""
        rows: list[DeadLetter] = []
        part: list[DeadLetter] = []
        for row in letters:
            if matches(row, self.wanted):
                part.append(row)
            if len(part) == STEP:
                rows, part = rows + self._taken(part), []
            if len(rows) >= self.most or (self.end_s is not None and time.monotonic() > self.end_s):
                return rows + self._taken(part), False
        return rows + self._taken(part), True

    def _taken(self, rows: list[DeadLetter]) -> list[DeadLetter]:
        return [row for row in marked(self.group, rows) if self.with_resent or not row.sent_again]


def find_named(group: str, targets: Sequence[Mapping[str, Any]]) -> tuple[list[DeadLetter | None], list[str]]:
    """Find those of these targets, None for one that is not there or whose broker is away; and the brokers that are.

    Raises ClientError.
    """
    here, of = cluster(), {target.get("broker", "") for target in targets}

    def find(admin: Admin) -> list[DeadLetter]:
        own = [target for target in targets if target.get("broker", "") in ("", chosen().name)]
        found = (message_at(admin, group, target["queueId"], target["offset"]) for target in own)
        return [letter_of(message) for message in found if message is not None]

    told = tell_each(find, sorted(of))
    marks = marks_of(group, here.names)
    rows = [_placed(row, each.broker or one_name(here), here, marks) for each in told for row in each.answer or ()]
    by_place = {(row.broker, row.queue_id, row.offset): row for row in marked(group, rows)}
    places = ((target.get("broker") or one_name(here), target["queueId"], target["offset"]) for target in targets)
    return [by_place.get(place) for place in places], [each.broker for each in told if each.error]


def _placed(row: DeadLetter, broker: str, here: Cluster, marks: Marks) -> DeadLetter:
    return replace(with_state(row, broker, marks), broker=broker, of_several=here.has_several)


class OfLetters(Kind[SentAgainPreview]):
    """An operation on dead letters of one group: chosen ones, or all that match."""

    permission = RESEND_DEAD_LETTERS
    page = PAGE
    leave_words = _("Open dead letters")
    names_messages = True
    preview_type = SentAgainPreview
    preview_template = "dead_letters/operation_preview.html"
    #: whether what matches a filter is touched although it was sent again before
    with_resent: ClassVar[bool] = False
    #: whether somebody gets messages of it
    sends: ClassVar[bool] = False

    def from_form(self, given: QueryDict) -> dict[str, Any]:
        """Return the rows that were selected, or the filter that they were found by; raises InvalidParameter."""
        group = given.get("group", "")
        if given.get("scope") == "matching":
            texts = {name: given.get(name, "") for name in _TEXTS}
            bounds = {name: whole_number(given.get(name)) for name in ("from_ms", "to_ms")}
            return {"group": group, "filter": {**texts, **bounds}, "is_all": given.get("is_all") == "1"}
        return {"group": group, "targets": [_place(text) for text in given.getlist("letter")]}

    def scope(self, parameters: Mapping[str, Any], preview: Mapping[str, Any] | None) -> Scope:
        """Return the topics of the letters, and their group: as a whole where nothing bounds the topics."""
        topics = frozenset(str(topic) for topic, _count in (preview or {}).get("topics", ()))
        group, bounds = frozenset({str(parameters.get("group", ""))}), self.topics_touched(parameters, preview or {})
        if bounds is None and (preview is not None or "targets" not in parameters):
            return Scope(topics, group)
        return Scope(topics | (bounds or frozenset()), readers=group)

    def topics_touched(self, parameters: Mapping[str, Any], preview: Mapping[str, Any]) -> frozenset[str] | None:
        """Return the topic of the filter, or those of the chosen ones if all of them are known."""
        if "filter" in parameters:
            wanted = parameters["filter"].get("topic")
            return frozenset({wanted}) if wanted else None
        counted = preview.get("topics", ())
        is_whole = sum(count for _topic, count in counted) == len(parameters["targets"])
        return frozenset(str(topic) for topic, _count in counted) if is_whole else None

    def selection(self, parameters: Mapping[str, Any]) -> str:
        """Return of which group how many were chosen, or by which filter."""
        group: str = parameters["group"]
        if "targets" in parameters:
            count = len(parameters["targets"])
            words = ngettext(
                "%(count)s selected dead letter of %(group)s", "%(count)s selected dead letters of %(group)s", count
            )
            return words % {"count": f"{count:,}", "group": group}
        wanted: dict[str, Any] = parameters["filter"]
        parts = [wanted[name] for name in _TEXTS if wanted.get(name)]
        if window := window_words(wanted["from_ms"], wanted["to_ms"]):
            parts.append(window)
        if parts:
            said = {"group": group, "filter": ", ".join(parts)}
            return gettext("all of %(group)s matching: %(filter)s") % said
        if not self.sends:
            return gettext("all dead letters of %(group)s") % {"group": group}
        return gettext("all dead letters of %(group)s not resent yet") % {"group": group}

    def leave_address(self, parameters: Mapping[str, Any]) -> str:
        """Return the address of the group's dead letters."""
        return reverse("dead_letters_of", args=[parameters["group"]])

    def rest_call(self, parameters: Mapping[str, Any]) -> Call:
        """Return the call on the group's dead letters."""
        act = self.name.partition(".")[2].replace("_", "-")
        of = f"?broker={quote(chosen().name, safe='')}" if chosen().broker else ""
        path = f"groups/{quote(parameters['group'], safe='')}/dead-letters:{act}{of}"
        return "POST", path, {**chosen_body("letters", parameters, _FILTER), **REASON}

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the group, and which ones, in one form."""
        group = parameters.get("group")
        try:
            check_group(group if isinstance(group, str) else "")
        except InvalidArgument as error:
            raise InvalidName("group", error) from None
        if "targets" in parameters:
            return {"group": group, "targets": _targets(parameters["targets"])}
        given = parameters.get("filter")
        if not isinstance(given, Mapping):
            raise InvalidParameter("filter", "Name dead letters (targets), or give a filter.")
        wanted = filter_of(given)
        if wanted.is_empty and not parameters.get("is_all"):
            raise InvalidParameter("filter", "An empty filter matches all: use all.")
        fields = {name: getattr(wanted, name) for name in (*_TEXTS, "from_ms", "to_ms")}
        return {"group": group, "filter": fields, "is_all": bool(parameters.get("is_all"))}

    def preview(self, parameters: Mapping[str, Any]) -> SentAgainPreview:
        """Count them, with examples and topics; of named ones, how many were sent again before."""
        admin, begun_ms, missing = site_broker.admin(), now_ms(), []
        _check_brokers(parameters)
        if "filter" in parameters:
            found = self._matching(parameters, PREVIEW_PATIENCE_S)
            rows, away = list(found.rows), list(found.away)
            missing = [] if found.is_whole and not away else ["count"]
        else:
            named, away = find_named(parameters["group"], parameters["targets"])
            rows = [row for row in named if row is not None]
        count = count_of(parameters, rows)
        behind = self.behind(admin, parameters["group"], rows, count)
        return SentAgainPreview(
            at_ms=begun_ms,
            count=count,
            examples=[label_of(row) for row in rows[:EXAMPLES]],
            topics=topics_of([row.topic for row in rows]),
            met_count=sum(bool(row.sent_again) for row in rows),
            missing=missing,
            away=away,
            **(behind.as_fields() if behind else {}),
        )

    def targets(self, parameters: Mapping[str, Any], preview: SentAgainPreview) -> Sequence[Target]:
        """Return what matches now and was dead when it was previewed; a named one stays, whatever became of it."""
        if "filter" in parameters:
            found = self._matching(parameters, None).rows
            rows = [row for row in found if row.died_ms <= preview.at_ms and row.broker not in preview.away]
            if len(rows) > LIMIT:
                raise TooMany(LIMIT)
            has_several = cluster().has_several
            return [Target(_target_of(row, has_several=has_several), label_of(row)) for row in rows]
        _check_brokers(parameters)
        named, _away = find_named(parameters["group"], parameters["targets"])
        return [
            Target(target, label_of(row) if row is not None else {"name": f"{target['offset']:,}"})
            for target, row in zip(parameters["targets"], named, strict=True)
        ]

    def behind(self, admin: Admin, group: str, rows: Sequence[DeadLetter], count: int) -> Behind | None:
        """Return how far those who get them would be behind; None: nobody gets any, or it is not known."""
        return None

    def _matching(self, parameters: Mapping[str, Any], patience_s: float | None) -> Found:
        wanted = filter_of(parameters["filter"])
        return find_matching(
            parameters["group"], wanted, most=LIMIT + 1, patience_s=patience_s, with_resent=self.with_resent
        )


class SendAgain(OfLetters):
    """An operation that sends the letters once more."""

    is_final = True
    sends = True

    def act(self, parameters: Mapping[str, Any], reason: str, targets: Sequence[Mapping[str, Any]]) -> list[ItemResult]:
        """Send one after the other; each can be sent as long as its record is there."""
        results = []
        ends: dict[str, Mapping[int, int]] = {}
        for target in targets:
            broker, queue_id = target.get("broker", ""), target["queueId"]
            with at(broker):
                admin = site_broker.admin()
                if broker not in ends:
                    ends[broker] = dead_letter_ends(admin, parameters["group"])
                result = self._act_on(admin, parameters["group"], queue_id, target["offset"])
            end = ends[broker].get(queue_id)
            is_told = result.outcome == SENT_BACK and end is not None
            results.append(replace(result, result={**result.result, "letters_end": end}) if is_told else result)
        return results

    def became(self, row: Operation, items: Sequence[OperationItem]) -> Mapping[int, ItemNow]:
        """Return what became of those that were sent."""
        group = row.parameters["group"]
        letters = {each.target.get("broker", ""): _Letters(group) for each in items}
        asked = [
            question_of(
                item.number, group, broker, Done(item.outcome, item.result, (str(row.pk), item.number)),
                letters[broker].asked(item.target),
            )
            for item in items for broker in [item.target.get("broker", "")]
        ]  # fmt: skip
        found = fates_of([each for each in asked if each is not None])
        return {number: became.now for number, became in found.items()}

    @abstractmethod
    def send(self, admin: Admin, group: str, message: Message) -> ItemResult:
        """Send this one again; raises ClientError, NotReadable."""

    def _act_on(self, admin: Admin, group: str, queue_id: int, offset: int) -> ItemResult:
        try:
            message = message_at(admin, group, queue_id, offset)
            if message is None:
                return ItemResult("gone")
            return self.send(admin, group, message)
        except (BrokerRefused, InvalidArgument, NotReadable) as error:
            return ItemResult("refused", {"error": str(error)})
        except ClientError as error:
            # it is not known whether the broker has it: said as it is, so that nobody sends it twice unknowingly
            return ItemResult("unknown", {"error": str(error)})


@register
class SendBack(SendAgain):
    """The operation that gives letters to their group once more; one that fails again is a dead letter again."""

    name = "dead_letters.send_back"
    title, verb = (
        _("Resend dead letters to their group"),
        ngettext_lazy("Resend dead letter", "Resend dead letters", "count"),
    )
    effect = _("Only their group gets each of them again; one that fails again becomes a dead letter again.")
    outcomes = {"sent_back": Outcome(_("resent to its group"))}
    begun_on = PAGE
    verbs = ("resend", "重发")

    def commands(self, verb: str, rest: str) -> Iterator[Command]:
        """Yield one for `GROUP` or `COUNT GROUP`, if the reader sees the group; the count confirms that many."""
        words = rest.split()
        count = words[0] if words[0].isascii() and words[0].isdigit() and len(words) > 1 else ""
        group, reason = words[bool(count)], " ".join(words[bool(count) + 1 :])
        if current_scope().group(group):
            wanted = {"group": group, "filter": {}, "is_all": True}
            label = gettext("Resend the dead letters of %(group)s") % {"group": group}
            text = " ".join((verb, *words))
            yield Command(text, label, self.name, self.permission, lambda: wanted, reason, count)

    def behind(self, admin: Admin, group: str, rows: Sequence[DeadLetter], count: int) -> Behind | None:
        """Return how far that group alone would be behind."""
        return group_behind_after(admin, group, count)

    def lag_now(self, parameters: Mapping[str, Any], preview: SentAgainPreview) -> int | None:
        """Return how far the group is behind."""
        return lag_of_group(parameters["group"])

    def lag_of(self, parameters: Mapping[str, Any], preview: SentAgainPreview) -> str:
        """Return the group, as others get no copy."""
        return str(parameters["group"])

    def send(self, admin: Admin, group: str, message: Message) -> ItemResult:
        """Send it to the group alone, of the topic that it was of before it was given up."""
        return send_back(admin, group, message, letter_of(message).topic)


@register
class SendAsNew(SendAgain):
    """The operation that makes each letter a new message of its topic, for every group that reads it."""

    name = "dead_letters.send_as_new"
    title, verb = (
        _("Resend dead letters as new messages"),
        ngettext_lazy("Resend as new message", "Resend as new messages", "count"),
    )
    effect = _("Every group that subscribes to their topics gets a copy. This cannot be undone.")
    outcomes = {"sent_as_new": Outcome(_("resent as a new message"))}

    def behind(self, admin: Admin, group: str, rows: Sequence[DeadLetter], count: int) -> Behind | None:
        """Return how far every group of their topics would be behind."""
        return behind_after(admin, Counter(row.topic for row in rows))

    def lag_now(self, parameters: Mapping[str, Any], preview: SentAgainPreview) -> int | None:
        """Return how far every group of their topics is behind."""
        return lag_of_topics(topic for topic, _count in preview.topics)

    def lag_of(self, parameters: Mapping[str, Any], preview: SentAgainPreview) -> str:
        """Return that it is of every group of their topics."""
        return in_words(topic for topic, _count in preview.topics)

    def send(self, admin: Admin, group: str, message: Message) -> ItemResult:
        """Send a copy with body, tag, keys and the user's properties, which says where it came from."""
        topic = letter_of(message).topic
        if not topic:
            return ItemResult("refused", {"error": "the record does not name its topic"})
        sent = send_copy(message, topic)
        told = {"topic": topic, "message_id": sent.offset_message_id, "unique_key": sent.message_id}
        return ItemResult(SENT_AS_NEW, {**told, "broker": sent.broker})

    def item_now(self, item: OperationItem) -> ItemNow | None:
        """Return the way to the new message."""
        result = item.result
        if item.outcome != SENT_AS_NEW or not result.get("message_id"):
            return super().item_now(item)
        address = address_at(if_several(result.get("broker", "")), "message", result["message_id"])
        return ItemNow(text=gettext("Open message"), address=address)


class _Letters:
    """Letters of a group at one broker: all that are asked about are read together when the first one is wanted."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._places: set[tuple[int, int]] = set()
        self._found: dict[tuple[int, int], DeadLetter] = {}

    def asked(self, target: Mapping[str, Any]) -> Callable[[Admin], DeadLetter | None]:
        """Return what gives this letter; None: it is not there any more."""
        place = target["queueId"], target["offset"]
        self._places.add(place)

        def find(admin: Admin) -> DeadLetter | None:
            self._read(admin)
            return self._found.get(place)

        return find

    def _read(self, admin: Admin) -> None:
        left, self._places = sorted(self._places), set()
        while left:
            queue_id, offset = left[0]
            part = admin.pull(DLQ_PREFIX + self._group, queue_id, offset, STEP)
            self._found |= {(queue_id, each.queue_offset): letter_of(each) for each in part}
            end = max((each.queue_offset for each in part), default=offset)
            left = [place for place in left if place > (queue_id, max(end, offset))]


def filter_of(given: Mapping[str, Any]) -> DeadLetterFilter:
    """Return the filter of the parameters; raises InvalidParameter."""
    wanted = DeadLetterFilter(**checked_filter(given, _TEXTS, ("from_ms", "to_ms"), _TEXT_LENGTH))
    if wanted.state not in STATES:
        raise InvalidParameter(
            "state", f"state is one of: {', '.join(filter(None, STATES))}; without it: {OPEN_WORDS}."
        )
    return wanted


def label_of(row: DeadLetter) -> dict[str, Any]:
    """Return what people see of a dead letter."""
    return {
        "topic": row.topic,
        "name": row.name[:200],
        "message_id": row.offset_message_id,
        "died_ms": row.died_ms,
        "attempts": row.attempts,
        "sent_again": row.sent_again,
        **({"broker": row.broker} if row.of_several else {}),
    }


def _target_of(row: DeadLetter, *, has_several: bool) -> dict[str, Any]:
    return {"queueId": row.queue_id, "offset": row.offset, **({"broker": row.broker} if has_several else {})}


def _check_brokers(parameters: Mapping[str, Any]) -> None:
    """Raise InvalidParameter where a target does not say which broker's it is, or names one that is not asked."""
    here = cluster()
    for target in parameters.get("targets", ()):
        broker = target.get("broker", "")
        if not broker and here.has_several:
            raise InvalidParameter("targets", f"Give the broker of each: {', '.join(here.names)}.")
        if broker and here.brokers and broker not in here.names:
            raise InvalidParameter("targets", f"There is no broker {broker[:60]}; there are: {', '.join(here.names)}.")


def _targets(given: Any) -> list[dict[str, Any]]:
    if not isinstance(given, list) or not 0 < len(given) <= MOST_TARGETS:
        raise InvalidParameter("targets", f"Name 1 to {MOST_TARGETS:,} dead letters; for more, use a filter.")
    for target in given:
        if (
            not isinstance(target, Mapping)
            or set(target) - {"broker"} != {"queueId", "offset"}
            or not all(is_whole(target[name]) for name in ("queueId", "offset"))
            or not isinstance(target.get("broker", ""), str)
        ):
            raise InvalidParameter("targets", "A dead letter is named by its queueId and its offset.")
    unique = {(target.get("broker"), target["queueId"], target["offset"]): dict(target) for target in given}
    return list(unique.values())


def _place(text: str) -> dict[str, Any]:
    """Return the target that a row of the list names as `queue-offset` or `queue-offset-broker`.

    Raises InvalidParameter.
    """
    first, second, broker = (*text.split("-", 2), "", "")[:3]
    queue_id, offset = whole_number(first), whole_number(second)
    if queue_id is None or offset is None:
        raise InvalidParameter("targets", gettext("This dead letter is unknown; reload the page."))
    return {"queueId": queue_id, "offset": offset, **({"broker": broker} if broker else {})}
