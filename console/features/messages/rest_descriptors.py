"""The Protobuf descriptor of a topic by REST: read, set and removed, by the operation of the console's page."""

from __future__ import annotations

import base64
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.responses import Response

from broker.client.names import check_topic
from console.features.messages.descriptor_operations import ChangeDescriptor
from console.features.messages.models import descriptor_of
from console.operations.actor import CHANGE_SETTINGS
from console.rest.access import Topic
from console.rest.database import token_actor
from console.rest.errors import DescriptorUnknown, OperationRefused
from console.rest.operations import begun, in_thread
from console.rest.responses import json_answer
from console.rest.route import Call, route
from console.rest.schemas import BEGUN_OR_WAITS, PREVIEWED, Look, Reason
from console.security.tokens import READ, SETTINGS
from console.site.clock import epoch_ms

_DESCRIPTOR = "/topics/{topic}/descriptor"


class DescriptorSetting(Struct, forbid_unknown_fields=True, kw_only=True):
    """The descriptor that a topic is to have: a compiled set, and the message type of its bodies."""

    descriptor_set: Annotated[
        str,
        Meta(
            min_length=1,
            description="A FileDescriptorSet (protoc --include_imports --descriptor_set_out) in base64, gzip or not, "
            "at most 256 kB.",
        ),
    ]
    type: Annotated[
        str,
        Meta(max_length=500, description="Full name, as shop.v1.Order. May be left out where the set has one type."),
    ] = ""
    expected: (
        Annotated[str, Meta(max_length=64, description="Refused unless this is the `digest` now; empty: none is set.")]
        | UnsetType
    ) = UNSET
    reason: Reason
    preview: Look = False


class DescriptorRemoval(Struct, kw_only=True):
    """The reason for removing a descriptor, and whether only to look."""

    reason: Annotated[str, Meta(description="Kept in the audit log.")] = ""
    preview: Annotated[str, Meta(description="true: change nothing.")] = "false"


class DescriptorOfTopic(Struct, kw_only=True):
    """The descriptor of a topic. `digest` changes with the type or the set."""

    topic: str
    type: str
    digest: str
    set_by: str
    set_ms: int
    reason: str
    descriptor_set: Annotated[str, Meta(description="A FileDescriptorSet in base64.")]


@route(
    "GET",
    _DESCRIPTOR,
    "Get the Protobuf descriptor of a topic",
    action=READ,
    on=Topic(),
    answers=((200, "The descriptor.", DescriptorOfTopic),),
    errors=(DescriptorUnknown,),
)
async def descriptor(call: Call) -> Response:
    """Answer the type of a topic's bodies and the set that has it."""
    return json_answer(await in_thread(lambda: _shown(_topic(call))))


@route(
    "PUT",
    _DESCRIPTOR,
    "Set the Protobuf descriptor of a topic",
    action=SETTINGS,
    permission=CHANGE_SETTINGS,
    on=Topic(),
    answers=(BEGUN_OR_WAITS, PREVIEWED),
    errors=(OperationRefused,),
)
async def set_descriptor(call: Call, body: DescriptorSetting) -> Response:
    """Have the console decode the topic's bodies by this type. Sets that cannot be used are refused."""
    parameters: dict[str, Any] = {"topic": _topic(call), "set": body.descriptor_set, "type": body.type}
    if body.expected is not UNSET:
        parameters["expected"] = body.expected
    return await _begun(call, parameters, body.reason, is_look=body.preview)


@route(
    "DELETE",
    _DESCRIPTOR,
    "Remove the Protobuf descriptor of a topic",
    action=SETTINGS,
    permission=CHANGE_SETTINGS,
    on=Topic(),
    answers=(BEGUN_OR_WAITS, PREVIEWED),
    errors=(DescriptorUnknown,),
)
async def remove_descriptor(call: Call, query: DescriptorRemoval) -> Response:
    """Have the console show the topic's bodies as their bytes say."""
    if query.preview not in ("true", "false"):
        raise OperationRefused("preview is true or false.", "preview")
    topic = _topic(call)
    await in_thread(lambda: _shown(topic))
    return await _begun(call, {"topic": topic, "set": ""}, query.reason, is_look=query.preview == "true")


async def _begun(call: Call, parameters: dict[str, Any], reason: str, *, is_look: bool) -> Response:
    actor = token_actor(call.grant, frozenset((CHANGE_SETTINGS,)))
    return await begun(ChangeDescriptor.name, parameters, reason, actor, is_look=is_look)


def _topic(call: Call) -> str:
    topic = call.named["topic"]
    check_topic(topic)
    return topic


def _shown(topic: str) -> DescriptorOfTopic:
    """Return the descriptor of a topic; raises DescriptorUnknown."""
    row = descriptor_of(topic)
    if row is None:
        raise DescriptorUnknown
    return DescriptorOfTopic(
        topic=topic,
        type=row.type_name,
        digest=row.digest,
        set_by=row.actor,
        set_ms=epoch_ms(row.at) or 0,
        reason=row.reason,
        descriptor_set=base64.b64encode(bytes(row.files)).decode("ascii"),
    )
