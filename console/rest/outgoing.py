"""Messages to send, as requests describe them, and as the client takes them."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from broker.client import InvalidArgument, Outgoing, Timing, prepare
from broker.client.names import check_writable_topic
from console.rest.query import moment_ms
from console.rest.schemas import DelayMs, DeliverAt, Text

Key = Annotated[str, Meta(min_length=1, max_length=1024, description="One word without blanks.")]
PropertyName = Annotated[str, Meta(min_length=1, max_length=1024)]
ScheduleKey = Annotated[
    str, Meta(min_length=1, max_length=200, description="Your own key; unique in its topic while the message waits.")
]


class NewMessage(Struct, forbid_unknown_fields=True, kw_only=True):
    """A message to send: `body` (text) or `body_base64` (bytes), at most 4 MiB, and what goes with it."""

    body: Annotated[str, Meta(description="The body as text; sent as UTF-8.")] | UnsetType = UNSET
    body_base64: Annotated[str, Meta(description="The body as base64, for bytes that are not text.")] | UnsetType = (
        UNSET
    )
    tag: Annotated[Text, Meta(description="One word that subscriptions filter by.")] | None = None
    keys: Annotated[list[Key], Meta(max_length=64, description="Words to find the message by.")] = []
    properties: Annotated[dict[PropertyName, str], Meta(max_length=1024)] = {}
    group: Annotated[Text, Meta(description="Producer group; stored nowhere, shown while connected.")] | None = None
    queue: (
        Annotated[int, Meta(ge=0, le=2**31 - 1, description="The queue to send to; else they take turns.")] | None
    ) = None
    sharding_key: Annotated[Text, Meta(description="Messages of one key go to one queue, in order.")] | None = None
    delay_level: Annotated[int, Meta(ge=0, le=2**31 - 1, description="0 at once, 1 to 18 the broker's levels.")] = 0
    deliver_at: DeliverAt | None = None
    delay_ms: DelayMs | None = None
    schedule_key: ScheduleKey | None = None
    on_conflict: Annotated[
        Literal["error", "replace", "keep"] | None,
        Meta(description="If a message with this schedule_key waits: refuse (default), replace it, or keep that one."),
    ] = None
    reject_past: Annotated[bool, Meta(description="Refuse a moment that is past instead of delivering at once.")] = (
        False
    )
    durability: Annotated[
        Literal["sync", "async"], Meta(description="sync: answered when on disk; async: answered at once with 202.")
    ] = "sync"


class NewMessages(Struct, forbid_unknown_fields=True, kw_only=True):
    """Up to 1,000 messages for one topic; each is stored, or refused, on its own."""

    messages: Annotated[list[NewMessage], Meta(min_length=1, max_length=1000)]


def check_topic_to_send_to(topic: str) -> None:
    """Raise InvalidArgument for what is no topic's name, and for topics that belong to the broker."""
    check_writable_topic(topic)
    if topic.startswith("%"):
        raise InvalidArgument(f"Topic {topic} belongs to the broker; send to a topic of your own.", field="topic")


def outgoing(wanted: NewMessage) -> Outgoing:
    """Return the message to send; raises RequestError or InvalidArgument."""
    return prepare(
        _body(wanted),
        tag=wanted.tag,
        keys=wanted.keys,
        properties=wanted.properties,
        delay_level=wanted.delay_level,
        wait_for_disk=wanted.durability == "sync",
        group=wanted.group,
        queue_id=wanted.queue,
        sharding_key=wanted.sharding_key,
        **_timing(wanted),
    )


def _timing(wanted: NewMessage) -> Timing:
    """Return when it is to be delivered, nothing for at once; raises InvalidArgument, InvalidMoment, ZoneMissing."""
    _check_moments(wanted)
    timing: Timing = {}
    if wanted.deliver_at is not None:
        timing["deliver_at_ms"] = moment_ms(wanted.deliver_at, "deliver_at")
    if wanted.delay_ms is not None:
        timing["delay_ms"] = wanted.delay_ms
    if wanted.schedule_key is not None:
        timing["schedule_key"] = wanted.schedule_key
    if wanted.on_conflict is not None:
        timing["on_conflict"] = wanted.on_conflict
    if wanted.reject_past:
        timing["reject_past"] = True
    return timing


def _check_moments(wanted: NewMessage) -> None:
    """Raise InvalidArgument for moments that exclude each other, by the names of the request (the client has
    others)."""
    asked = {
        "delay_level": bool(wanted.delay_level),
        "deliver_at": wanted.deliver_at is not None,
        "delay_ms": wanted.delay_ms is not None,
    }
    given = [name for name, is_given in asked.items() if is_given]
    if len(given) > 1:
        raise InvalidArgument(f"Give one of delay_level, deliver_at and delay_ms, not {len(given)}.", field=given[-1])
    if asked["deliver_at"] or asked["delay_ms"]:
        return
    if wanted.schedule_key is not None:
        raise InvalidArgument("A schedule_key needs deliver_at or delay_ms.", field="schedule_key")
    if wanted.reject_past:
        raise InvalidArgument("reject_past needs deliver_at or delay_ms.", field="reject_past")


def _body(wanted: NewMessage) -> str | bytes:
    text, encoded = wanted.body, wanted.body_base64
    if text is not UNSET and encoded is not UNSET:
        raise InvalidArgument("Give body or body_base64, not both.", field="body")
    if text is not UNSET:
        return text
    if encoded is UNSET:
        raise InvalidArgument("Give body (text) or body_base64 (bytes).", field="body")
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidArgument("body_base64 is not base64.", field="body_base64") from None
