"""Dead letters once more: to the group that gave them up, or as new messages for all groups.

    {"group": "billing", "targets": [{"queueId": 0, "offset": 12}, ...]}
    {"group": "billing", "filter": {"topic": "orders", "key": "", "from_ms": None, "to_ms": None}, "is_all": False}

A filter leaves out what was sent again before; who names one means it. An empty filter must be asked for by `is_all`.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from django.http import QueryDict
from django.urls import reverse
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from broker.client import Admin, BrokerRefused, ClientError, InvalidArgument, Message
from broker.client.names import check_group
from broker.rocketmq.topics import DLQ_PREFIX
from console.features.dead_letters.pages import (
    PAGE,
    STEP,
    DeadLetter,
    DeadLetterFilter,
    bounds_of,
    letter_of,
    marked,
    matches,
    newest_first,
)
from console.operations.actor import RESEND_DEAD_LETTERS, Scope
from console.operations.catch_up import Behind, behind_after, group_behind_after
from console.operations.copies import NotReadable, SentAgainPreview, send_back, send_copy
from console.operations.errors import InvalidParameter, TooMany
from console.operations.kind import LIMIT, REASON, Call, Command, ItemResult, Kind, Outcome, Target
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
)
from console.security.topic_scope import current_scope
from console.site import broker as site_broker
from console.site.clock import now_ms
from console.site.parsing import whole_number

#: names of a filter's fields here and in REST
_FILTER = {"topic": "topic", "key": "key", "from_ms": "died_from", "to_ms": "died_before"}
_TEXT_LENGTH = 255


@dataclass(frozen=True, slots=True)
class Found:
    """The dead letters that an operation is about, the newest first."""

    now_ms: int
    rows: Sequence[DeadLetter]
    #: all that match were found
    is_whole: bool = True


def message_at(admin: Admin, group: str, queue_id: int, offset: int) -> Message | None:
    """Return the record itself; None if it is not there any more."""
    found = [each for each in admin.pull(DLQ_PREFIX + group, queue_id, offset, 1) if each.queue_offset == offset]
    return found[0] if found else None


def find_matching(admin: Admin, group: str, wanted: DeadLetterFilter, *, most: int, patience_s: float | None) -> Found:
    """Find the dead letters that match and were not sent again yet, at most `most`; raise ClientError."""
    begun_ms = now_ms()
    end_s = None if patience_s is None else time.monotonic() + patience_s
    rows: list[DeadLetter] = []
    part: list[DeadLetter] = []
    is_whole = True
    for row in newest_first(admin, group, bounds_of(admin, group), None):
        if matches(row, wanted):
            part.append(row)
        if len(part) == STEP:
            rows, part = rows + _untouched(group, part), []
        if len(rows) >= most or (end_s is not None and time.monotonic() > end_s):
            is_whole = False
            break
    rows += _untouched(group, part)
    return Found(begun_ms, rows[:most], is_whole)


def find_named(admin: Admin, group: str, targets: Sequence[tuple[int, int]]) -> list[DeadLetter | None]:
    """Find those at these queues and offsets, None for one that is not there; raise ClientError."""
    rows = [letter_of(message) if (message := message_at(admin, group, *each)) else None for each in targets]
    known = marked(group, [row for row in rows if row is not None])
    by_place = {(row.queue_id, row.offset): row for row in known}
    return [by_place.get(place) for place in targets]


def _untouched(group: str, rows: list[DeadLetter]) -> list[DeadLetter]:
    return [row for row in marked(group, rows) if not row.sent_again]


class SendAgain(Kind[SentAgainPreview]):
    """The operation that sends dead letters of one group again: chosen ones, or all that match."""

    permission = RESEND_DEAD_LETTERS
    page = PAGE
    is_final = True
    names_messages = True
    preview_type = SentAgainPreview
    preview_template = "dead_letters/operation_preview.html"

    def from_form(self, given: QueryDict) -> dict[str, Any]:
        """Return the rows that were selected, or the filter that they were found by; raises InvalidParameter."""
        group = given.get("group", "")
        if given.get("scope") == "matching":
            texts = {name: given.get(name, "") for name in ("topic", "key")}
            bounds = {name: whole_number(given.get(name)) for name in ("from_ms", "to_ms")}
            return {"group": group, "filter": {**texts, **bounds}, "is_all": given.get("is_all") == "1"}
        return {"group": group, "targets": [_place(text) for text in given.getlist("letter")]}

    def scope(self, parameters: Mapping[str, Any], preview: Mapping[str, Any] | None) -> Scope:
        """Return the group, and the topics that were counted."""
        topics = frozenset(str(topic) for topic, _count in (preview or {}).get("topics", ()))
        return Scope(topics, groups=frozenset({str(parameters.get("group", ""))}))

    def topics_touched(self, parameters: Mapping[str, Any], preview: Mapping[str, Any]) -> frozenset[str] | None:
        """Return the topic of the filter, or those of the chosen ones if all of them are known."""
        if "filter" in parameters:
            wanted = parameters["filter"]["topic"]
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
                "%(count)s chosen dead letter of %(group)s", "%(count)s chosen dead letters of %(group)s", count
            )
            return words % {"count": f"{count:,}", "group": group}
        wanted: dict[str, Any] = parameters["filter"]
        parts = [wanted[name] for name in ("topic", "key") if wanted[name]]
        if wanted["from_ms"] is not None or wanted["to_ms"] is not None:
            parts.append(gettext("a range of time"))
        if parts:
            said = {"group": group, "filter": ", ".join(parts)}
            return gettext("all of %(group)s that match: %(filter)s") % said
        return gettext("every dead letter of %(group)s that was not sent again yet") % {"group": group}

    def leave_address(self, parameters: Mapping[str, Any]) -> str:
        """Return the address of the group's dead letters."""
        return reverse("dead_letters_of", args=[parameters["group"]])

    def rest_call(self, parameters: Mapping[str, Any]) -> Call:
        """Return the call on the group's dead letters."""
        act = self.name.partition(".")[2].replace("_", "-")
        path = f"groups/{quote(parameters['group'], safe='')}/dead-letters:{act}"
        return "POST", path, {**chosen_body("letters", parameters, _FILTER), **REASON}

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the group, and which ones, in one form."""
        group = parameters.get("group")
        try:
            check_group(group if isinstance(group, str) else "")
        except InvalidArgument as error:
            raise InvalidParameter("group", str(error)) from None
        if "targets" in parameters:
            return {"group": group, "targets": _targets(parameters["targets"])}
        given = parameters.get("filter")
        if not isinstance(given, Mapping):
            raise InvalidParameter("filter", "Name dead letters (targets), or give a filter.")
        wanted = filter_of(given)
        if wanted.is_empty and not parameters.get("is_all"):
            raise InvalidParameter("filter", "An empty filter is every one; say so with all.")
        fields = {name: getattr(wanted, name) for name in ("topic", "key", "from_ms", "to_ms")}
        return {"group": group, "filter": fields, "is_all": bool(parameters.get("is_all"))}

    def preview(self, parameters: Mapping[str, Any]) -> SentAgainPreview:
        """Count them, with examples and topics; of named ones, how many were sent again before."""
        admin, begun_ms, missing = site_broker.admin(), now_ms(), []
        if "filter" in parameters:
            found = self._matching(admin, parameters, PREVIEW_PATIENCE_S)
            rows = list(found.rows)
            missing = [] if found.is_whole else ["count"]
        else:
            rows = [row for row in self._named(admin, parameters) if row is not None]
        count = count_of(parameters, rows)
        behind = self.behind(admin, parameters["group"], rows, count)
        return SentAgainPreview(
            at_ms=begun_ms,
            count=count,
            examples=[label_of(row) for row in rows[:EXAMPLES]],
            topics=topics_of([row.topic for row in rows]),
            met_count=sum(bool(row.sent_again) for row in rows),
            missing=missing,
            **(behind.as_fields() if behind else {}),
        )

    def targets(self, parameters: Mapping[str, Any], preview: SentAgainPreview) -> Sequence[Target]:
        """Return what matches now and was dead when it was previewed; a named one stays, whatever became of it."""
        admin = site_broker.admin()
        if "filter" in parameters:
            rows = [row for row in self._matching(admin, parameters, None).rows if row.died_ms <= preview.at_ms]
            if len(rows) > LIMIT:
                raise TooMany(LIMIT)
            return [Target({"queueId": row.queue_id, "offset": row.offset}, label_of(row)) for row in rows]
        return [
            Target(target, label_of(row) if row is not None else {"name": f"{target['offset']:,}"})
            for target, row in zip(parameters["targets"], self._named(admin, parameters), strict=True)
        ]

    def act(self, parameters: Mapping[str, Any], reason: str, targets: Sequence[Mapping[str, Any]]) -> list[ItemResult]:
        """Send one after the other; each can be sent as long as its record is there."""
        admin, group = site_broker.admin(), parameters["group"]
        return [self._act_on(admin, group, target["queueId"], target["offset"]) for target in targets]

    @abstractmethod
    def behind(self, admin: Admin, group: str, rows: Sequence[DeadLetter], count: int) -> Behind | None:
        """Return how far those who get them would be behind; None: not known."""

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

    def _matching(self, admin: Admin, parameters: Mapping[str, Any], patience_s: float | None) -> Found:
        wanted = filter_of(parameters["filter"])
        return find_matching(admin, parameters["group"], wanted, most=LIMIT + 1, patience_s=patience_s)

    def _named(self, admin: Admin, parameters: Mapping[str, Any]) -> list[DeadLetter | None]:
        places = [(target["queueId"], target["offset"]) for target in parameters["targets"]]
        return find_named(admin, parameters["group"], places)


@register
class SendBack(SendAgain):
    """The operation that gives letters to their group once more; one that fails again is a dead letter again."""

    name = "dead_letters.send_back"
    title, verb = _("Send dead letters back to their group"), _("Send them back")
    effect = _("Their group alone gets each of them once more; what fails again is a dead letter again.")
    outcomes = {"sent_back": Outcome(_("sent back to its group"))}
    verbs = ("resend", "重发")

    def commands(self, verb: str, rest: str) -> Iterator[Command]:
        """Yield one for `GROUP` or `COUNT GROUP`, if the reader sees the group; the count confirms that many."""
        words = rest.split()
        count = words[0] if words[0].isascii() and words[0].isdigit() and len(words) > 1 else ""
        group, reason = words[bool(count)], " ".join(words[bool(count) + 1 :])
        if current_scope().group(group):
            wanted = {"group": group, "filter": {}, "is_all": True}
            label = gettext("Send the dead letters of %(group)s back to it") % {"group": group}
            text = " ".join((verb, *words))
            yield Command(text, label, self.name, self.permission, lambda: wanted, reason, count)

    def behind(self, admin: Admin, group: str, rows: Sequence[DeadLetter], count: int) -> Behind | None:
        """Return how far that group alone would be behind."""
        return group_behind_after(admin, group, count)

    def send(self, admin: Admin, group: str, message: Message) -> ItemResult:
        """Send it to the group alone, of the topic that it was of before it was given up."""
        return send_back(admin, group, message, letter_of(message).topic)


@register
class SendAsNew(SendAgain):
    """The operation that makes each letter a new message of its topic, for every group that reads it."""

    name = "dead_letters.send_as_new"
    title, verb = _("Send dead letters as new messages"), _("Send them as new")
    effect = _("Every group that reads their topics gets a copy. This cannot be taken back.")
    outcomes = {"sent_as_new": Outcome(_("sent as a new message"))}

    def behind(self, admin: Admin, group: str, rows: Sequence[DeadLetter], count: int) -> Behind | None:
        """Return how far every group of their topics would be behind."""
        return behind_after(admin, Counter(row.topic for row in rows))

    def send(self, admin: Admin, group: str, message: Message) -> ItemResult:
        """Send a copy with body, tag, keys and the user's properties, which says where it came from."""
        topic = letter_of(message).topic
        if not topic:
            return ItemResult("refused", {"error": "the record does not say which topic it was of"})
        sent = send_copy(message, topic)
        return ItemResult("sent_as_new", {"topic": topic, "message_id": sent.offset_message_id})


def filter_of(given: Mapping[str, Any]) -> DeadLetterFilter:
    """Return the filter of the parameters; raises InvalidParameter."""
    return DeadLetterFilter(**checked_filter(given, ("topic", "key"), ("from_ms", "to_ms"), _TEXT_LENGTH))


def label_of(row: DeadLetter) -> dict[str, Any]:
    """Return what people see of a dead letter."""
    return {
        "topic": row.topic,
        "name": row.name[:200],
        "message_id": row.offset_message_id,
        "died_ms": row.died_ms,
        "attempts": row.attempts,
        "sent_again": row.sent_again,
    }


def _targets(given: Any) -> list[dict[str, int]]:
    if not isinstance(given, list) or not 0 < len(given) <= MOST_TARGETS:
        raise InvalidParameter("targets", f"Name 1 to {MOST_TARGETS:,} dead letters; for more, use a filter.")
    for target in given:
        if (
            not isinstance(target, Mapping)
            or set(target) != {"queueId", "offset"}
            or not all(map(is_whole, target.values()))
        ):
            raise InvalidParameter("targets", "A dead letter is named by its queueId and its offset.")
    unique = {(target["queueId"], target["offset"]): dict(target) for target in given}
    return list(unique.values())


def _place(text: str) -> dict[str, int]:
    """Return the target that a row of the list names as `queue-offset`; raises InvalidParameter."""
    queue_id, offset = (whole_number(part) for part in (text.split("-", 1) if "-" in text else ("", "")))
    if queue_id is None or offset is None:
        raise InvalidParameter("targets", gettext("This names no dead letter; load the page again."))
    return {"queueId": queue_id, "offset": offset}
