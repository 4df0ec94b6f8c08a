"""The sending of one message from the console: previewed as it would be stored, sent once, also when no answer comes.

Its parameters are those of `console.features.messages.written`. The body is kept with the operation as long as that is;
the audit and the calls that are shown have its beginning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from django.http import QueryDict
from django.urls import reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from broker.client import BrokerRefused, ClientError, Decision, InvalidArgument, RouteNotFound, SendResult
from broker.mirror.models import Topic
from broker.rocketmq.message import parse_offset_message_id
from console.features.messages.sending import (
    SendPreview,
    check_half,
    due_of,
    levels,
    queues_of,
    readers_of_topic,
    waiting_under,
)
from console.features.messages.sent_now import half_now, message_now, timer_now
from console.features.messages.written import (
    WRITTEN,
    checked_message,
    from_fields,
    most_of,
    outgoing,
    rest_body,
)
from console.operations.actor import SEND_MESSAGES, Scope, named
from console.operations.copies import producer
from console.operations.errors import InvalidParameter, OperationError
from console.operations.kind import Call, Command, Form, ItemNow, ItemResult, Kind, Outcome, Target
from console.operations.models import OperationItem
from console.operations.registry import register
from console.security.topic_scope import current_scope
from console.site.broker import admin
from console.site.chosen import Choice, chosen
from console.site.clock import now_ms
from console.site.mirrored import cluster

#: of the body in calls that are shown, and in the audit
SHOWN_CHARACTERS = 200
#: topics that the palette offers for a few letters of their names
_OFFERED = 5


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the form: what was written into it, and what is wrong with it."""

    value: str
    fault: str | None = None
    #: it is where one goes on: the first that is wrong, else the body
    is_first: bool = False


@register
class SendMessage(Kind[SendPreview]):
    """Send one message: at once, after a delay, at a moment, or as a half that waits for a decision."""

    name = "messages.send"
    permission = SEND_MESSAGES
    title, verb = _("Send a message"), _("Send message")
    effect = _("It is stored once, for every group that subscribes to the topic.")
    outcomes = {
        "sent": Outcome(_("sent")),
        "waits": Outcome(_("scheduled")),
        "replaced": Outcome(_("scheduled, replaced the previous one")),
        "kept": Outcome(_("not sent: the pending one was kept"), "idle"),
        "half_sent": Outcome(_("sent as a half message")),
    }
    page = "topics"
    leave_words = _("Open topic")
    is_final = True
    names_messages = True
    preview_type = SendPreview
    preview_template = "messages/send_preview.html"
    again_template = "messages/send_another.html"
    verbs = ("send", "发送")

    # from a form, a call or the palette

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the message in its one form."""
        return checked_message(parameters)

    def from_form(self, given: QueryDict) -> dict[str, Any]:
        """Return the message as it was written."""
        return from_fields({name: str(given[name]) for name in given})

    def form_again(self, given: QueryDict, faults: Mapping[str, str]) -> Form:
        """Return the form with all that was written."""
        return Form("messages/send_form.html", form_context({name: str(given[name]) for name in given}, faults))

    def commands(self, verb: str, rest: str) -> Iterator[Command]:
        """Yield one for each topic that begins so, the one of that name first: it leads to the form."""
        seen, wanted = current_scope(), rest.partition(" ")[0]
        rows = Topic.objects.filter(broker__in=cluster().names, is_system=False, name__istartswith=wanted)
        names = sorted({name for name in rows.values_list("name", flat=True) if seen.topic(name)})
        for name in sorted(names, key=lambda each: each != wanted)[:_OFFERED]:
            label = gettext("Send a message to %(topic)s") % {"topic": name}
            yield Command(
                f"{verb} {name}", label, self.name, self.permission, dict, address=reverse("send", args=[name])
            )

    def offered(self) -> Iterator[Command]:
        """Yield the first topics: each has its form."""
        yield from self.commands(self.verbs[0], "")

    # what is touched

    def scope(self, parameters: Mapping[str, Any], preview: Mapping[str, Any] | None) -> Scope:
        """Return the topic that it goes to."""
        return Scope(named(parameters.get("topic")))

    def preview(self, parameters: Mapping[str, Any]) -> SendPreview:
        """Look at what it would meet; raises InvalidParameter for what the brokers would refuse."""
        topic, key, at_ms = parameters["topic"], parameters.get("schedule_key", ""), now_ms()
        here = cluster()
        queues = queues_of(here, topic)
        check_half(here, parameters)
        due_ms, delay_ms = due_of(parameters, at_ms)
        waiting = waiting_under(here, topic, key) if key else {}
        if waiting and "on_conflict" not in parameters:
            raise InvalidParameter(
                "on_conflict", gettext("A message is pending under this key: choose whether to replace or keep it.")
            )
        message = outgoing(parameters)
        return SendPreview(
            at_ms=at_ms,
            count=1,
            examples=[_label(parameters, due_ms)],
            topics=[[topic, 1]],
            body_bytes=len(message.body),
            properties_bytes=len(message.properties.encode()),
            due_ms=due_ms,
            delay_ms=delay_ms,
            queues=queues,
            readers=readers_of_topic(here, topic),
            waiting=waiting,
        )

    def targets(self, parameters: Mapping[str, Any], preview: SendPreview) -> Sequence[Target]:
        """Return the message as the one target."""
        return [Target({"topic": parameters["topic"]}, _label(parameters, preview.due_ms))]

    def act(self, parameters: Mapping[str, Any], reason: str, targets: Sequence[Mapping[str, Any]]) -> list[ItemResult]:
        """Send it once, also when no answer comes."""
        return [_sent(parameters) for _target in targets]

    # how it is shown

    def selection(self, parameters: Mapping[str, Any]) -> str:
        """Return the name of the topic."""
        return str(parameters["topic"])

    def leave_address(self, parameters: Mapping[str, Any]) -> str:
        """Return the address of the topic."""
        return reverse("topic", args=[parameters["topic"]])

    def shown_parameters(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters with the beginning of the body."""
        return {**parameters, "body": most_of(str(parameters.get("body", "")), SHOWN_CHARACTERS)}

    def item_now(self, item: OperationItem) -> ItemNow | None:
        """Return what has become of it, with the way to the message, the timer, or the half."""
        result = item.result
        if item.outcome not in self.outcomes or not result.get("message_id"):
            return super().item_now(item)
        if item.outcome == "half_sent":
            return half_now(result)
        # on a lane messages have pages as stored ones have
        return timer_now(result) if result.get("is_timer") else message_now(result)

    def rest_call(self, parameters: Mapping[str, Any]) -> Call:
        """Return the call that sends it, or begins the transaction."""
        message, topic, group = rest_body(parameters), parameters["topic"], parameters.get("producer_group")
        if group:
            return "POST", "transactions", {"topic": topic, "producer_group": group, "message": message}
        return "POST", f"topics/{topic}/messages", message


def form_context(sent: Mapping[str, str], faults: Mapping[str, str]) -> dict[str, Any]:
    """Return what the form needs: each field with what was written into it and what is wrong with it."""
    first = next((name for name in WRITTEN if faults.get(name)), "body")
    fields = {name: Field(sent.get(name, ""), faults.get(name), name == first) for name in WRITTEN}
    forms = (("text", gettext("Text")), ("json", gettext("JSON (checked)")), ("base64", "Base64"))
    more = (fields[name] for name in ("properties", "sharding_key", "half"))
    is_more = any(each.value or each.fault for each in more)
    return {"f": fields, "body_forms": forms, "is_more": is_more, "levels": levels()}


def _label(parameters: Mapping[str, Any], due_ms: int | None) -> dict[str, Any]:
    name = parameters.get("schedule_key") or next(iter(parameters.get("keys", ())), "")
    return {"topic": parameters["topic"], "name": name[:200], "due_ms": due_ms}


def _sent(parameters: Mapping[str, Any]) -> ItemResult:
    try:
        (answer,) = producer().send_each(parameters["topic"], [outgoing(parameters)])
        if isinstance(answer, ClientError):
            raise answer
    except (BrokerRefused, InvalidArgument, RouteNotFound, OperationError) as error:
        return ItemResult("refused", {"error": str(error)})
    except ClientError as error:
        # it is not known whether the broker has it: said as it is, so that nobody sends it twice unknowingly
        return ItemResult("unknown", {"error": str(error)})
    group = parameters.get("producer_group")
    if group and answer.status != "SEND_OK":
        return _taken_back(answer, group)
    # what was due when it came is delivered at once
    waits = answer.due_ms is not None or answer.recall_handle is not None
    is_timer = waits and bool({"delay_ms", "deliver_at_ms"} & parameters.keys())
    is_waiting = is_timer or "delay_level" in parameters
    outcome = "half_sent" if group else answer.conflict or ("waits" if is_waiting else "sent")
    return ItemResult(
        outcome,
        {
            "topic": answer.topic,
            "message_id": answer.offset_message_id,
            "unique_key": answer.message_id,
            "broker": Choice(chosen().entry, answer.broker).text,
            "queue_id": answer.queue_id,
            "position": parse_offset_message_id(answer.offset_message_id)[2],
            "is_timer": is_timer,
            **({"due_ms": answer.due_ms} if answer.due_ms is not None else {}),
        },
    )


def _taken_back(half: SendResult, group: str) -> ItemResult:
    """Roll back a half that is stored less safely than asked for, as RocketMQ's own client does."""
    position = parse_offset_message_id(half.offset_message_id)[2]
    with suppress(ClientError):
        admin().end_transaction(
            Decision.ROLLBACK,
            group=group,
            offset=half.queue_offset,
            position=position,
            transaction_id=half.message_id,
            address=admin().address_of(half.broker),
        )
    return ItemResult(
        "refused", {"error": f"The broker stored the half with less safety than asked for ({half.status})."}
    )
