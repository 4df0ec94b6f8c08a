"""The sending again of a stored message: as a new one of its topic, or to one group that gets it as another try.

    {"message_id": "7F0000010000...", "topic": "orders", "group": ""}          a new message, for every group
    {"message_id": "7F0000010000...", "topic": "orders", "group": "billing"}   back to that group alone

`message_id` is the record's offset id. Only what stands in the topic itself is sent again: what waits, and halves, are
decided on otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from django.http import QueryDict
from django.urls import reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from broker.client import Admin, BrokerRefused, ClientError, InvalidArgument, Message
from broker.client.errors import Answer
from broker.client.names import check_group, check_writable_topic
from console.features.messages.across import broker_of
from console.features.messages.sent_now import message_now
from console.operations.actor import RESEND_DEAD_LETTERS, Scope, named
from console.operations.catch_up import behind_after, group_behind_after, in_words, lag_of_group, lag_of_topics
from console.operations.copies import NotReadable, SentAgainPreview, send_back, send_copy
from console.operations.errors import InvalidName, InvalidParameter, NotPossible
from console.operations.fates import Question, Resent, dead_letter_ends, fates_of
from console.operations.kind import REASON, Act, Call, ItemNow, ItemResult, Kind, Outcome, Target
from console.operations.models import Operation, OperationItem
from console.operations.registry import register
from console.site import broker as site_broker
from console.site.broker import address_at, at, if_several
from console.site.clock import now_ms
from console.site.mirrored import cluster

SENT_AGAIN = ("sent_back", "sent_as_new")
#: codes with which brokers say that nothing begins at a position (ours; Apache RocketMQ answers SYSTEM_ERROR)
_NOT_THERE = (Answer.QUERY_NOT_FOUND, Answer.SYSTEM_ERROR)


@register
class Unmask(Act):
    """The act of looking at what a rule masks; the audit keeps why."""

    name = "messages.unmask"
    title = _("View masked content")

    def audited(self, result: Mapping[str, Any]) -> str:
        """Return the topic and the message that were looked at."""
        return " · ".join(filter(None, [result.get("topic", ""), result.get("message", "")]))


@register
class ResendMessage(Kind[SentAgainPreview]):
    """Send one message again, to every group of its topic or to one group alone."""

    name = "messages.resend"
    permission = RESEND_DEAD_LETTERS
    title, verb = _("Resend a message"), _("Resend message")
    effect = _("Its consumers get it again. This cannot be undone.")
    outcomes = {"sent_back": Outcome(_("resent to its group")), "sent_as_new": Outcome(_("resent as a new message"))}
    page = "messages"
    leave_words = _("Open original message")
    is_final = True
    names_messages = True
    preview_type = SentAgainPreview
    preview_template = "messages/operation_preview.html"

    def from_form(self, given: QueryDict) -> dict[str, Any]:
        """Return the record, its topic, and the group if one is meant."""
        return {name: given.get(name, "") for name in ("message_id", "topic", "group")}

    def scope(self, parameters: Mapping[str, Any], preview: Mapping[str, Any] | None) -> Scope:
        """Return the topic, and the group if one is meant."""
        return Scope(named(parameters.get("topic")), readers=named(parameters.get("group")))

    def selection(self, parameters: Mapping[str, Any]) -> str:
        """Return the topic, and the group if one is meant."""
        to_group = gettext("%(topic)s, to the group %(group)s alone") if parameters["group"] else "%(topic)s"
        return to_group % {name: parameters[name] for name in ("topic", "group")}

    def leave_address(self, parameters: Mapping[str, Any]) -> str:
        """Return the address of the message."""
        return reverse("message", args=[parameters["message_id"]])

    def rest_call(self, parameters: Mapping[str, Any]) -> Call:
        """Return the call on the message."""
        group = {"group": parameters["group"]} if parameters["group"] else {}
        return "POST", f"messages/{parameters['message_id']}:resend", {**group, **REASON}

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the record, its topic, and the group if one is meant."""
        given = {name: parameters.get(name) or "" for name in ("message_id", "topic", "group")}
        for name, text in given.items():
            if not isinstance(text, str):
                raise InvalidParameter(name, f"{name} is a text.")
        if not given["message_id"]:
            raise InvalidParameter("message_id", "Name the message by its offset id.")
        try:
            check_writable_topic(given["topic"])
            if given["topic"].startswith("%"):
                raise InvalidArgument(f"Topic {given['topic']} belongs to the broker.", field="topic")
            if given["group"]:
                check_group(given["group"])
        except InvalidArgument as error:
            raise InvalidName(error.field or "topic", error) from None
        return given

    def preview(self, parameters: Mapping[str, Any]) -> SentAgainPreview:
        """Look at the message: how often it was sent again before, and how far those who get it would be behind."""
        with _at_its_broker(parameters):
            return self._preview(site_broker.admin(), parameters)

    def _preview(self, admin: Admin, parameters: Mapping[str, Any]) -> SentAgainPreview:
        begun_ms, topic = now_ms(), parameters["topic"]
        message = _record(admin, parameters)
        if message is None:
            raise NotPossible("The message no longer exists.")
        group = parameters["group"]
        behind = group_behind_after(admin, group, 1) if group else behind_after(admin, {topic: 1})
        return SentAgainPreview(
            at_ms=begun_ms,
            count=1,
            examples=[_label(message, topic)],
            topics=[[topic, 1]],
            met_count=_sent_before(parameters["message_id"]),
            **(behind.as_fields() if behind else {}),
        )

    def lag_now(self, parameters: Mapping[str, Any], preview: SentAgainPreview) -> int | None:
        """Return how far the group, or all groups of the topic, are behind."""
        group = parameters["group"]
        return lag_of_group(group) if group else lag_of_topics([parameters["topic"]])

    def lag_of(self, parameters: Mapping[str, Any], preview: SentAgainPreview) -> str:
        """Return the group, or that it is of every group of the topic."""
        return str(parameters["group"]) or in_words([parameters["topic"]])

    def page_of(self, item: OperationItem) -> tuple[str, str] | None:
        """Return the page of the new message; what a group got back has that of the old one."""
        if item.outcome != "sent_as_new":
            return None
        broker = if_several(item.result["broker"])
        return gettext("Open message"), address_at(broker, "message", item.result["message_id"])

    def targets(self, parameters: Mapping[str, Any], preview: SentAgainPreview) -> Sequence[Target]:
        """Return the one, whatever became of it."""
        label = preview.examples[0] if preview.examples else {"topic": parameters["topic"]}
        return [Target({"message_id": parameters["message_id"]}, label)]

    def act(self, parameters: Mapping[str, Any], reason: str, targets: Sequence[Mapping[str, Any]]) -> list[ItemResult]:
        """Send it once, also when no answer comes."""
        with _at_its_broker(parameters):
            admin = site_broker.admin()
            return [self._act(admin, parameters) for _target in targets]

    def _act(self, admin: Admin, parameters: Mapping[str, Any]) -> ItemResult:
        topic, group = parameters["topic"], parameters["group"]
        try:
            message = _record(admin, parameters)
            if message is None:
                return ItemResult("gone")
            if group:
                end = dead_letter_ends(admin, group).get(0, 0)
                sent_back = send_back(admin, group, message, topic)
                return replace(sent_back, result={**sent_back.result, "letters_end": end})
            sent = send_copy(message, topic)
        except (BrokerRefused, InvalidArgument, NotReadable, NotPossible) as error:
            return ItemResult("refused", {"error": str(error)})
        except ClientError as error:
            # it is not known whether the broker has it: said as it is, so that nobody sends it twice unknowingly
            return ItemResult("unknown", {"error": str(error)})
        result = {"topic": topic, "message_id": sent.offset_message_id, "unique_key": sent.message_id}
        return ItemResult("sent_as_new", {**result, "broker": sent.broker})

    def became(self, row: Operation, items: Sequence[OperationItem]) -> Mapping[int, ItemNow]:
        """Return what became of it in the group that was given it again; of a new message, where it is."""
        parameters, has_several = row.parameters, cluster().has_several
        found: dict[int, ItemNow] = {}
        asked: list[Question[int]] = []
        for item in items:
            result = item.result
            if item.outcome == "sent_as_new" and result.get("message_id"):
                found[item.number] = message_now({"broker": "", **result})
            elif item.outcome == "sent_back":
                home = broker_of(cluster(), parameters["message_id"]) if has_several else None
                asked.append(_question(item, home.name if home is not None else "", parameters))
        return found | {number: each.now for number, each in fates_of(asked).items()}


def _question(item: OperationItem, broker: str, parameters: Mapping[str, Any]) -> Question[int]:
    group, topic, result = parameters["group"], parameters["topic"], item.result

    def find(admin: Admin) -> Resent | None:
        try:
            record = _record(admin, parameters)
        except NotPossible:
            return None
        if record is None or not record.unique_key:
            return None
        tries, since = record.reconsume_times + 1, int(result.get("letters_end", 0))
        return Resent(group, topic, record.unique_key, record.position, tries, since)

    return Question(item.number, broker, group, topic, find, (str(item.operation_id), item.number))


def _at_its_broker(parameters: Mapping[str, Any]) -> AbstractContextManager[None]:
    """Ask the broker that has the record: a group gets it back there."""
    here = cluster()
    home = broker_of(here, parameters["message_id"]) if here.has_several else None
    return at(home.name if home is not None else "")


def _record(admin: Admin, parameters: Mapping[str, Any]) -> Message | None:
    """Return the record; None: it is not there any more. Raises NotPossible where it is none of the topic's own."""
    try:
        found = admin.message_by_offset_id(parameters["message_id"])
    except BrokerRefused as error:
        if error.code in _NOT_THERE:
            return None
        raise
    if found.topic != parameters["topic"]:
        raise NotPossible(f"The record is none that stands in {parameters['topic']} itself.")
    return found


def _label(message: Message, topic: str) -> dict[str, Any]:
    name = next(iter(message.keys), None) or message.unique_key or message.offset_message_id
    return {
        "topic": topic,
        "name": name[:200],
        "message_id": message.offset_message_id,
        "stored_ms": message.store_ms,
        "attempts": message.reconsume_times,
    }


def _sent_before(message_id: str) -> int:
    """Return how often it was sent again by this console."""
    return OperationItem.objects.filter(
        operation__kind=ResendMessage.name, target__message_id=message_id, outcome__in=SENT_AGAIN
    ).count()
