"""Dead letters once more: to the group that gave them up, or as new messages for all groups.

    {"group": "billing", "targets": [{"queueId": 0, "offset": 12}, ...]}
    {"group": "billing", "filter": {"topic": "orders", "key": "", "from_ms": None, "to_ms": None}, "is_all": False}

A filter leaves out what was sent again before; who names one means it. An empty filter must be asked for by `is_all`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from broker.client import Admin, BrokerRefused, ClientError, InvalidArgument, Message
from broker.client.names import check_group
from broker.mirror.models import ConsumerOffset, Queue
from broker.rocketmq.topics import RETRY_PREFIX
from console.features.dead_letters.read import Found, find_matching, find_named, letter_of, message_at
from console.features.dead_letters.shapes import DeadLetter, DeadLetterFilter
from console.operations.actor import RESEND_DEAD_LETTERS
from console.operations.catch_up import Behind, behind_after, group_behind_after
from console.operations.copies import NotReadable, send_copy
from console.operations.errors import InvalidParameter, TooMany
from console.operations.kind import LIMIT, ItemResult, Kind, Target
from console.operations.preview import Preview
from console.site import broker as site_broker
from console.site.clock import now_ms
from console.site.mirrored import mirrored

EXAMPLES = 5
TOPICS = 10
#: named at once, as for timers
MOST_TARGETS = 1_000
#: a preview counts for so long at most; the run counts to the end
PREVIEW_PATIENCE_S = 3.0
#: the shortest delay level: the broker parks what is sent back, as after any failed attempt
LEVEL = 1
_TEXT_LENGTH = 255
NEVER_ARRIVES = (
    "This group pops, and on Apache RocketMQ only consumers that pull receive what is sent back: it would not arrive. "
    "Send it as a new message."
)


class SendAgain(Kind):
    """What both have in common."""

    permission = RESEND_DEAD_LETTERS
    page = "dead_letters"
    is_final = True

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """The group, and which ones in one form."""
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

    def preview(self, parameters: Mapping[str, Any]) -> Preview:
        """Count, examples, topics; of named ones, how many were sent again before."""
        admin, begun_ms, missing = site_broker.admin(), now_ms(), []
        if "filter" in parameters:
            found = self._matching(admin, parameters, PREVIEW_PATIENCE_S)
            rows, count = list(found.rows), len(found.rows)
            missing = [] if found.is_whole else ["count"]
        else:
            rows = [row for row in self._named(admin, parameters) if row is not None]
            count = len(parameters["targets"])
        if count > LIMIT:
            raise TooMany(LIMIT)
        behind = self.behind(admin, parameters["group"], rows, count)
        return Preview(
            at_ms=begun_ms,
            count=count,
            examples=[label_of(row) for row in rows[:EXAMPLES]],
            topics=[[topic, number] for topic, number in Counter(row.topic for row in rows).most_common(TOPICS)],
            met_count=sum(bool(row.sent_again) for row in rows),
            missing=missing,
            **(behind.as_fields() if behind else {}),
        )

    def targets(self, parameters: Mapping[str, Any], preview: Preview) -> Sequence[Target]:
        """What matches now and was dead when it was previewed; a named one stays, whatever became of it."""
        admin = site_broker.admin()
        if "filter" in parameters:
            rows = [row for row in self._matching(admin, parameters, None).rows if row.died_ms <= preview.at_ms]
            if len(rows) > LIMIT:
                raise TooMany(LIMIT)
            return [Target({"queueId": row.queue_id, "offset": row.offset}, label_of(row)) for row in rows]
        named = zip(parameters["targets"], self._named(admin, parameters), strict=True)
        return [
            Target(target, label_of(row) if row is not None else {"name": f"{target['offset']:,}"})
            for target, row in named
        ]

    def act(self, parameters: Mapping[str, Any], reason: str, targets: Sequence[Mapping[str, Any]]) -> list[ItemResult]:
        """One after the other: each is there as long as its record is."""
        admin, group = site_broker.admin(), parameters["group"]
        return [self._act_on(admin, group, target["queueId"], target["offset"]) for target in targets]

    @abstractmethod
    def behind(self, admin: Admin, group: str, rows: Sequence[DeadLetter], count: int) -> Behind | None:
        """How far those who get them would be behind; None: not known."""

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
        return find_matching(
            admin, parameters["group"], wanted, most=LIMIT + 1, patience_s=patience_s
        )  # fmt: skip

    def _named(self, admin: Admin, parameters: Mapping[str, Any]) -> list[DeadLetter | None]:
        places = [(target["queueId"], target["offset"]) for target in parameters["targets"]]
        return find_named(admin, parameters["group"], places)


class SendBack(SendAgain):
    """The group that gave them up gets each once more; if it fails again, it is a dead letter again."""

    name = "dead_letters.send_back"

    def behind(self, admin: Admin, group: str, rows: Sequence[DeadLetter], count: int) -> Behind | None:
        """That group alone."""
        return group_behind_after(admin, group, count)

    def send(self, admin: Admin, group: str, message: Message) -> ItemResult:
        """To the group alone, of the topic that it was of before it was given up."""
        return send_back(admin, group, message, letter_of(message).topic)


class SendAsNew(SendAgain):
    """Each becomes a new message of its topic: every group that reads the topic gets it."""

    name = "dead_letters.send_as_new"

    def behind(self, admin: Admin, group: str, rows: Sequence[DeadLetter], count: int) -> Behind | None:
        """Every group of their topics."""
        return behind_after(admin, Counter(row.topic for row in rows))

    def send(self, admin: Admin, group: str, message: Message) -> ItemResult:
        """A copy with body, tag, keys and the user's properties, and where it came from."""
        topic = letter_of(message).topic
        if not topic:
            return ItemResult("refused", {"error": "the record does not say which topic it was of"})
        sent = send_copy(message, topic)
        return ItemResult("sent_as_new", {"topic": topic, "message_id": sent.offset_message_id})


def send_back(admin: Admin, group: str, message: Message, topic: str) -> ItemResult:
    """The broker's own request for another attempt (36): it copies the record, nothing passes through here.

    `topic` is the one that the group reads. Refused where the group would not get it; raises ClientError.
    """
    if never_arrives(admin, group, topic):
        return ItemResult("refused", {"error": NEVER_ARRIVES})
    admin.send_back(group, message, delay_level=LEVEL, max_reconsume_times=message.reconsume_times + 1)
    return ItemResult("sent_back", {"topic": topic})


def never_arrives(admin: Admin, group: str, topic: str) -> bool:
    """True on Apache RocketMQ for a group that pops a topic and does not pull: there nobody reads what is sent back."""
    here = mirrored()
    if not here.polling:
        return False
    # KeyBuilder's two forms of the topic from which a group pops once more; the broker does not list it at once
    popped = [f"{RETRY_PREFIX}{group}_{topic}", f"{RETRY_PREFIX}{group}+{topic}"]
    own = f"{RETRY_PREFIX}{group}"
    read = ConsumerOffset.objects.filter(broker=here.name, group=group)
    pops = read.filter(topic__in=popped).exists() or Queue.objects.filter(broker=here.name, topic__in=popped).exists()
    if not pops or read.filter(topic=own).exists():
        return False
    try:
        return own not in admin.connections(group).subscriptions
    except BrokerRefused:
        return True


def filter_of(given: Mapping[str, Any]) -> DeadLetterFilter:
    """The filter of the parameters; raises InvalidParameter."""
    texts = {name: given.get(name) or "" for name in ("topic", "key")}
    for name, text in texts.items():
        if not isinstance(text, str) or len(text) > _TEXT_LENGTH:
            raise InvalidParameter(name, f"{name} is a text of at most {_TEXT_LENGTH} characters.")
    bounds = {name: given.get(name) for name in ("from_ms", "to_ms")}
    for name, bound in bounds.items():
        if bound is not None and not _is_whole(bound):
            raise InvalidParameter(name, f"{name} is a moment in epoch milliseconds.")
    return DeadLetterFilter(texts["topic"], texts["key"], bounds["from_ms"], bounds["to_ms"])


def label_of(row: DeadLetter) -> dict[str, Any]:
    """What people see of a dead letter."""
    return {
        "topic": row.topic, "name": row.name[:200], "message_id": row.offset_message_id, "died_ms": row.died_ms,
        "attempts": row.attempts, "sent_again": row.sent_again,
    }  # fmt: skip


def _targets(given: Any) -> list[dict[str, int]]:
    if not isinstance(given, list) or not 0 < len(given) <= MOST_TARGETS:
        raise InvalidParameter("targets", f"Name 1 to {MOST_TARGETS:,} dead letters; for more, use a filter.")
    for target in given:
        if (
            not isinstance(target, Mapping)
            or set(target) != {"queueId", "offset"}
            or not all(map(_is_whole, target.values()))
        ):
            raise InvalidParameter("targets", "A dead letter is named by its queueId and its offset.")
    unique = {(target["queueId"], target["offset"]): dict(target) for target in given}
    return list(unique.values())


def _is_whole(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and 0 <= number < 2**63
