"""The Protobuf descriptor of a topic: set, replaced or removed.

    {"topic": "orders", "set": "<a FileDescriptorSet in base64>", "type": "shop.Order"}     set it
    {"topic": "orders", "set": "", "expected": "<digest>"}                  remove it, only if it is this one: undo

The set may be compressed by gzip, and is kept so with the operation. `type` may be left out where there is only one to
choose. A set that cannot be used is refused before anything is written.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from django.http import QueryDict
from django.urls import reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from broker.client import Admin, InvalidArgument, Message
from broker.client.names import check_writable_topic
from broker.mirror.models import Topic
from broker.rocketmq.codes import Request
from console.features.messages.bodies import fits_type
from console.features.messages.decoders import BodyType
from console.features.messages.models import TopicDescriptor, descriptor_of, digest_of
from console.operations.actor import CHANGE_SETTINGS, Scope, named
from console.operations.errors import InvalidName, InvalidParameter, NotPossible, OperationError
from console.operations.kind import (
    REASON,
    AtOnce,
    Call,
    ChangesPreview,
    Form,
    ItemNow,
    ItemResult,
    Outcome,
    Preview,
    Target,
    Undo,
)
from console.operations.models import Operation, OperationItem
from console.operations.registry import register
from console.security.masking import BODY, masks
from console.site.broker import ask_each, pull_all
from console.site.chosen import chosen
from console.site.clock import now_ms
from console.site.mirrored import cluster

#: descriptors of a cluster
MOST_DESCRIPTORS = 500
#: types and fields that a preview shows
SHOWN_TYPES, SHOWN_FIELDS = 300, 60
#: newest messages of a topic that are read by a type before it is set
TRIED = 10
_TRYING_REQUESTS = (Request.GET_TOPIC_STATS_INFO, Request.PULL_MESSAGE)
#: of a set in calls that are shown
_SHOWN_CHARACTERS = 24
#: characters of a digest that are shown
_SHORT = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class DescriptorPreview(Preview):
    """What the set holds, and what is there now. The set is among the parameters: a second person approves that."""

    #: [name, value now, value afterwards]; "": none, or nobody chose yet
    changes: list[list[Any]] = field(default_factory=list)
    bytes: int = 0
    files: list[str] = field(default_factory=list)
    #: of the set, as many as are shown, and how many there are
    types: list[str] = field(default_factory=list)
    types_count: int = 0
    #: of the type that was chosen: number, name, type
    fields: list[list[Any]] = field(default_factory=list)
    fields_count: int = 0
    #: nobody chose a type yet
    is_open: bool = False
    #: the newest messages that were read by the type, and those of them that are of it; 0: none was tried
    tried: int = 0
    fitting: int = 0


@register
class ChangeDescriptor(AtOnce[DescriptorPreview]):
    """Set the descriptor of a topic, or remove it."""

    name = "descriptors.change"
    permission = CHANGE_SETTINGS
    title, verb = _("Change the Protobuf descriptor"), _("Apply")
    effect = _("Only how the console shows the bodies of the topic changes. No message and no client is touched.")
    outcomes = {
        "described": Outcome(_("descriptor applied")),
        "descriptor_removed": Outcome(_("descriptor removed")),
        "already": Outcome(_("already so"), "idle"),
    }
    page = "topics"
    leave_words = _("Open descriptor")
    is_repeatable = True
    preview_type = DescriptorPreview
    preview_template = "messages/descriptor_preview.html"
    has_figures = False
    choice_template = "messages/descriptor_choice.html"
    choices = ("type",)
    undone_by = "descriptors.change"

    def checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return topic, set and type, and what is expected to be there."""
        made = {name: parameters.get(name) or "" for name in ("topic", "set", "type")}
        for name, value in made.items():
            if not isinstance(value, str):
                raise InvalidParameter(name, f"{name} is a text.")
        try:
            check_writable_topic(made["topic"])
        except InvalidArgument as error:
            raise InvalidName("topic", error) from None
        expected = parameters.get("expected")
        if expected is not None and (not isinstance(expected, str) or len(expected) > 64):
            raise InvalidParameter("expected", "expected is the digest of the descriptor that is there, or empty.")
        made |= {} if expected is None else {"expected": expected}
        return {**made, **_checked_set(made["set"], made["type"].strip())}

    def from_form(self, given: QueryDict) -> dict[str, Any]:
        """Return the topic alone: to remove what it has. A set comes by a form of its own, which has a file."""
        return {"topic": given.get("topic", "").strip()}

    def form_again(self, given: QueryDict, faults: Mapping[str, str]) -> Form:
        """Return the form with the type that was named; a browser gives a file once."""
        return Form(
            "messages/descriptor_form.html", {"topic": given.get("topic", ""), "type_name": given.get("type", "")}
        )

    # what is touched

    def scope(self, parameters: Mapping[str, Any], preview: Mapping[str, Any] | None) -> Scope:
        """Return the one topic that it is about."""
        return Scope(named(parameters.get("topic")))

    def preview(self, parameters: Mapping[str, Any]) -> DescriptorPreview:
        """Compare what is there with what will be; raises NotPossible."""
        topic, held = parameters["topic"], descriptor_of(parameters["topic"])
        _expect(parameters, held)
        before = {"protobuf_type": "", "descriptor_set": ""}
        if held is not None:
            before = {"protobuf_type": held.type_name, "descriptor_set": held.digest[:_SHORT]}
        if not parameters["set"]:
            if held is None:
                raise NotPossible(gettext("The topic has no descriptor."))
            after = dict.fromkeys(before, "")
            return DescriptorPreview(at_ms=now_ms(), count=1, changes=ChangesPreview.between(before, after))
        if held is None:
            _check_room(topic)
        return _preview_of(parameters, before)

    def undecided(self, parameters: Mapping[str, Any], preview: DescriptorPreview) -> OperationError | None:
        """Return that a type has to be chosen."""
        if parameters["set"] and not parameters["type"]:
            return InvalidParameter("type", gettext("Choose the message type."))
        return None

    def targets(self, parameters: Mapping[str, Any], preview: DescriptorPreview) -> Sequence[Target]:
        """Return the topic as the one target."""
        topic = parameters["topic"]
        return [Target({"topic": topic}, {"topic": topic, "name": parameters["type"] or topic})]

    # what it does

    def done(self, who: str, parameters: Mapping[str, Any], reason: str) -> ItemResult:
        """Write or delete the row, once more only if what is expected is there; what was there stays with the item."""
        from console.features.messages.descriptor_sets import packed, unpacked_set

        entry, topic, type_name = chosen().entry, parameters["topic"], parameters["type"]
        held = TopicDescriptor.objects.select_for_update().filter(cluster=entry, topic=topic).first()
        _expect(parameters, held)
        before = {"set": "", "type": ""}
        if held is not None:
            before = {"set": packed(bytes(held.files)), "type": held.type_name}
        if not parameters["set"]:
            if held is None:
                return ItemResult("gone")
            held.delete()
            return ItemResult("descriptor_removed", {"before": before, "digest": ""})
        content = unpacked_set(parameters["set"])
        digest = digest_of(type_name, content)
        if held is not None and held.digest == digest:
            return ItemResult("already")
        told = {"type_name": type_name, "files": content, "digest": digest, "actor": who[:150], "reason": reason}
        TopicDescriptor.objects.update_or_create(cluster=entry, topic=topic, defaults=told)
        return ItemResult("described", {"before": before, "digest": digest})

    # how it is shown

    def selection(self, parameters: Mapping[str, Any]) -> str:
        """Return the name of the topic."""
        return str(parameters["topic"])

    def leave_address(self, parameters: Mapping[str, Any]) -> str:
        """Return the address of the topic's descriptor."""
        return reverse("topic_descriptor", args=[parameters["topic"]])

    def shown_parameters(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters with the beginning of the set."""
        return {**parameters, "set": _beginning(str(parameters.get("set", "")))}

    def item_now(self, item: OperationItem) -> ItemNow | None:
        """Return the way to the topic's descriptor."""
        if item.outcome != "described":
            return super().item_now(item)
        address = reverse("topic_descriptor", args=[item.target["topic"]])
        return ItemNow(text=gettext("Open descriptor"), address=address)

    def rest_call(self, parameters: Mapping[str, Any]) -> Call:
        """Return the call that sets or removes it."""
        path = f"topics/{quote(parameters['topic'], safe='')}/descriptor"
        if not parameters["set"]:
            return "DELETE", f"{path}?reason=...", None
        more = {name: parameters[name] for name in ("type", "expected") if parameters.get(name)}
        return "PUT", path, {"descriptor_set": _beginning(parameters["set"]), **more, **REASON}

    # how it is taken back

    def undo_of(self, row: Operation) -> Undo | None:
        """Return that what was there can be put back, if it changed something."""
        return Undo(row.is_over and _changed(row) is not None)

    def undo_parameters(self, row: Operation, given: QueryDict) -> dict[str, Any]:
        """Return what was there before, if nobody changed it since; raises NotPossible."""
        item = _changed(row)
        if item is None:
            raise NotPossible("It changed nothing.")
        return {"topic": row.parameters["topic"], **item.result["before"], "expected": item.result["digest"]}


def described_types(row: TopicDescriptor) -> tuple[int, list[list[Any]]]:
    """Return how many types the set of a topic has, and the fields of the one that was chosen."""
    from console.features.messages.descriptor_sets import SetRefused, fields_of, read_set

    try:
        found = read_set(bytes(row.files))
        return len(found.types), fields_of(found.kind(row.type_name))
    except SetRefused:
        return 0, []


def _checked_set(text: str, type_name: str) -> dict[str, str]:
    """Return a set in its one form with its type, which may still be open; raises InvalidParameter."""
    if not text:
        return {"set": "", "type": ""}
    # the library of Protobuf is loaded by who needs it
    from console.features.messages.descriptor_sets import SetRefused, packed, read_set, unpacked_set

    try:
        content = unpacked_set(text)
        found = read_set(content)
        if not type_name and len(found.types) == 1:
            type_name = found.types[0]
        if type_name:
            found.kind(type_name)
    except SetRefused as error:
        raise InvalidParameter("type" if error.is_type else "set", str(error)) from None
    return {"set": packed(content), "type": type_name}


def _preview_of(parameters: Mapping[str, Any], before: Mapping[str, str]) -> DescriptorPreview:
    from console.features.messages.descriptor_sets import fields_of, read_set, unpacked_set

    content, type_name = unpacked_set(parameters["set"]), parameters["type"]
    found = read_set(content)
    fields = fields_of(found.kind(type_name)) if type_name else []
    if type_name:
        after = {"protobuf_type": type_name, "descriptor_set": digest_of(type_name, content)[:_SHORT]}
        changes = ChangesPreview.between(before, after)
    else:
        changes = [["protobuf_type", before["protobuf_type"], ""]]
    tried, fitting = _tried(BodyType(parameters["topic"], type_name, content)) if type_name else (0, 0)
    return DescriptorPreview(
        at_ms=now_ms(),
        count=1 if changes else 0,
        changes=changes,
        bytes=len(content),
        files=[*found.files][:SHOWN_FIELDS],
        types=[*found.types][:SHOWN_TYPES],
        types_count=len(found.types),
        fields=fields[:SHOWN_FIELDS],
        fields_count=len(fields),
        is_open=not type_name,
        tried=tried,
        fitting=fitting,
    )


def _tried(body_type: BodyType) -> tuple[int, int]:
    """Return how many of the newest bodies of a topic were read, and how many are of the type; none where a rule masks
    them: who may ask what is in them has read them soon."""
    if BODY in masks().of(body_type.topic):
        return 0, 0
    found, _evidence = ask_each(lambda admin: _newest(admin, body_type.topic), cluster(), requests=_TRYING_REQUESTS)
    newest = sorted((each for _broker, part in found for each in part), key=lambda each: each.store_ms)[-TRIED:]
    fits = [fits_type(each.body, each.sys_flag, each.properties, body_type) for each in newest]
    return len(fits), sum(fits)


def _newest(admin: Admin, topic: str) -> list[Message]:
    queues = sorted(admin.topic_stats(topic).queues, key=lambda each: each.last_update_ms, reverse=True)
    found: list[Message] = []
    for each in queues[:TRIED]:
        first = max(each.min_offset, each.max_offset - TRIED)
        found += pull_all(admin, topic, each.queue.queue_id, first, each.max_offset - first)
    return found


def _check_room(topic: str) -> None:
    """Raise NotPossible where there is no such topic, or no room for one more descriptor."""
    if not Topic.objects.filter(broker__in=cluster().names, name=topic).exists():
        raise NotPossible(f"The broker has no {topic}.")
    if TopicDescriptor.objects.filter(cluster=chosen().entry).count() >= MOST_DESCRIPTORS:
        raise NotPossible(
            gettext("%(most)s topics have a descriptor already; remove one first.") % {"most": MOST_DESCRIPTORS}
        )


def _expect(parameters: Mapping[str, Any], held: TopicDescriptor | None) -> None:
    if parameters.get("expected") not in (None, held.digest if held is not None else ""):
        raise NotPossible(gettext("The descriptor was changed since."))


def _changed(row: Operation) -> OperationItem | None:
    return row.items.filter(outcome__in=("described", "descriptor_removed")).first()


def _beginning(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


def set_of_file(content: bytes) -> str:
    """Return the bytes of a file as the parameter `set`."""
    return base64.b64encode(content).decode("ascii")
