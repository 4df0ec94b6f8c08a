"""The body of a request: bounded while it streams in, strict when it is decoded; a message to send among them."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import re
from functools import lru_cache
from operator import ne
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import astuple
from starlette.requests import Request
from starlette.types import Receive

from broker.client import InvalidArgument, Outgoing, Timing, prepare
from broker.client.names import check_writable_topic
from console.rest.errors import (
    BodyTooLarge,
    BodyTooSlow,
    ContentEncoded,
    DuplicateName,
    NotJson,
    RequestError,
    SchemaViolated,
    TooDeep,
    WrongContentType,
)
from console.rest.query import moment_ms
from console.rest.schemas import DelayMs, DeliverAt, Text
from console.site.exchange import exchange_of

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
    broker: Annotated[Text, Meta(description="The broker to send to; else any that has the topic.")] | None = None
    sharding_key: Annotated[Text, Meta(description="Messages of one key go to one queue, in order.")] | None = None
    delay_level: Annotated[int, Meta(ge=0, le=2**31 - 1, description="0 immediately, 1 to 18 the broker's levels.")] = 0
    deliver_at: DeliverAt | None = None
    delay_ms: DelayMs | None = None
    schedule_key: ScheduleKey | None = None
    on_conflict: Annotated[
        Literal["error", "replace", "keep"] | None,
        Meta(description="If a message with this schedule_key waits: refuse (default), replace it, or keep that one."),
    ] = None
    reject_past: Annotated[bool, Meta(description="Refuse a time that is past instead of delivering immediately.")] = (
        False
    )
    durability: Annotated[
        Literal["sync", "async"], Meta(description="sync: answered when on disk; async: answered immediately with 202.")
    ] = "sync"


_NOTHING_GIVEN = astuple(NewMessage())


class NewMessages(Struct, forbid_unknown_fields=True, kw_only=True):
    """Up to 1,000 messages for one topic; each is stored, or refused, on its own."""

    messages: Annotated[list[NewMessage], Meta(min_length=1, max_length=1000)]


@lru_cache(1024)
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
        broker=wanted.broker,
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
    is_timer = wanted.deliver_at is not None or wanted.delay_ms is not None
    if is_timer:
        asked = {
            "delay_level": bool(wanted.delay_level),
            "deliver_at": wanted.deliver_at is not None,
            "delay_ms": wanted.delay_ms is not None,
        }
        given = [name for name, is_given in asked.items() if is_given]
        if len(given) > 1:
            raise InvalidArgument(
                f"Give one of delay_level, deliver_at and delay_ms, not {len(given)}.", field=given[-1]
            )
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


#: A body of 4 MiB in base64, and room for the rest.
MAX_SINGLE_BYTES = 6 * 1024 * 1024
MAX_BATCH_BYTES = 8 * 1024 * 1024
#: A whole body must arrive within this time.
BODY_TIMEOUT_S = 30.0

Decoded = TypeVar("Decoded")


def has_body(request: Request) -> bool:
    """Return whether the request says that a body follows; asked where it may be left out."""
    headers = dict(request.scope["headers"])
    return headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers


async def read_body(request: Request, limit_bytes: int) -> bytes:
    """Return the whole body; raises before more than the limit is held in memory."""
    headers = dict(request.scope["headers"])
    if headers.get(b"content-encoding", b"identity").lower() != b"identity":
        raise ContentEncoded
    content_type = headers.get(b"content-type", b"")
    if content_type != b"application/json":
        _check_content_type(content_type.decode("latin-1"))
    announced = headers.get(b"content-length")
    if announced is not None and announced.isdigit() and int(announced) > limit_bytes:
        raise _too_large(limit_bytes)
    exchange = exchange_of(request.scope)
    whole = None if exchange is None else exchange.body()
    if whole is not None:
        if len(whole) > limit_bytes:
            raise _too_large(limit_bytes)
        return whole
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            return await _received(request.receive, limit_bytes)
    except TimeoutError:
        raise BodyTooSlow from None


async def _received(receive: Receive, limit_bytes: int) -> bytes:
    """Join the body's parts as they come; most bodies come in one."""
    parts: list[bytes] = []
    size = 0
    while size <= limit_bytes:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise NotJson("The connection ended before the whole body came.")
        part: bytes = message.get("body", b"")
        size += len(part)
        if size <= limit_bytes and not message.get("more_body", False):
            return part if not parts else b"".join((*parts, part))
        if part:
            parts.append(part)
    raise _too_large(limit_bytes)


def _check_content_type(content_type: str) -> None:
    kind, *parameters = (part.strip().lower() for part in content_type.split(";"))
    charset = next((each.partition("=")[2].strip('"') for each in parameters if each.startswith("charset=")), "utf-8")
    if kind != "application/json" or charset not in ("utf-8", "utf8"):
        raise WrongContentType(f"The body is {content_type[:100]!r}; it must be application/json in UTF-8.")


def _too_large(limit_bytes: int) -> BodyTooLarge:
    return BodyTooLarge(f"The request's body is larger than {limit_bytes:,} bytes.")


def decode(body: bytes, decoder: msgspec.json.Decoder[Decoded]) -> Decoded:
    """Return the value in `body`, of the decoder's type; raises RequestError.

    The schema is checked first, so that what is read a second time (for names that appear twice) is known to be flat.
    """
    try:
        decoded = decoder.decode(body)
        if _SPACED_NAME(body) is not None or body.count(b'":') != names_in(decoded):
            _each_name_once(body.decode())
    except RequestError:
        raise
    except msgspec.ValidationError as error:
        raise SchemaViolated(str(error)) from None
    except RecursionError:
        raise TooDeep from None
    except (msgspec.DecodeError, ValueError) as error:
        raise NotJson(f"The body is not JSON: {error}") from None
    return decoded


def names_in(value: object) -> int:
    """Count the names that the JSON of a decoded value must have had; as many `":` in it mean that none came twice.

    A name that was given its default's value, or text that holds `":`, only makes the numbers differ.
    """
    if isinstance(value, NewMessage):
        return sum(map(ne, astuple(value), _NOTHING_GIVEN)) + len(value.properties)
    if isinstance(value, NewMessages):
        # field by field, as most are given in all messages or in none
        columns = zip(*map(astuple, value.messages), strict=True)
        missing = sum(column.count(nothing) for column, nothing in zip(columns, _NOTHING_GIVEN, strict=True))
        given = len(value.messages) * len(_NOTHING_GIVEN) - missing
        return 1 + given + sum([len(each.properties) for each in value.messages])
    return -1


def _names_once(pairs: list[tuple[str, Any]]) -> None:
    seen = {name for name, _ in pairs}
    if len(seen) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise DuplicateName(f"The name {twice[:100]!r} appears twice.")


#: a name that ends otherwise than in `":`
_SPACED_NAME = re.compile(rb'"\s+:').search
_each_name_once = json.JSONDecoder(object_pairs_hook=_names_once).decode
