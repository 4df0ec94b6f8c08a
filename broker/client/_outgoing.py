"""A message on its way out: checked, with its unique id, its properties in the form in which they are stored.

`timing_properties` checks when it is to be delivered, as a sender says it, and makes the properties that brokers read:

| option          | property         |                                                               |
|-----------------|------------------|---------------------------------------------------------------|
| `at`            | TIMER_DELIVER_MS | a datetime with a time zone                                   |
| `deliver_at_ms` | TIMER_DELIVER_MS | the same in epoch ms                                          |
| `delay`         | TIMER_DELAY_MS   | a timedelta from when the broker takes it, by its clock       |
| `delay_ms`      | TIMER_DELAY_MS   | the same in ms                                                |
| `schedule_key`  | ESC_SCHEDULE_KEY | business key, unique in its topic while the message waits     |
| `on_conflict`   | ESC_ON_CONFLICT  | what to do if a message with that key waits: error (default), |
|                 |                  | replace it, or keep it and drop this one                      |
| `reject_past`   | ESC_REJECT_PAST  | refuse a moment that is past instead of delivering at once    |

A half becomes a timer when its transaction commits, and nobody can be told then that its key is taken: there
`on_conflict` must be replace. Apache RocketMQ knows the first two and keeps the others unread.

`message_ids` makes the ids of all messages of this process.

RocketMQ's batch (request 320) holds many messages of one queue in one body, stored all or not at all:

    one message: 4 size | 4 magic 0 | 4 CRC 0 | 4 flag | 4 body length | body | 2 properties length | properties
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from struct import Struct
from typing import Literal, TypeAlias, TypedDict, Unpack

import msgspec

from ..rocketmq.ids import UniqueIds
from ..rocketmq.properties import (
    DELAY,
    KEYS,
    ON_CONFLICT,
    REJECT_PAST,
    SCHEDULE_KEY,
    SHARDING_KEY,
    TAGS,
    TIMER_DELAY_MS,
    TIMER_DELIVER_MS,
    UNIQUE_KEY,
    WAIT,
)
from ..rocketmq.topics import TEMPLATE_TOPIC
from . import names
from ._events import written
from ._types import MessageQueue, SendResult
from .errors import BadAnswer, InvalidArgument
from .timers import OnConflict

#: Queues that a topic gets which is made by its first message.
DEFAULT_QUEUES = 4


Body: TypeAlias = bytes | str | msgspec.Struct
"""What a message carries: bytes, text, or an event (see `event`)."""


class Outgoing(msgspec.Struct, frozen=True, gc=False):
    """A message ready to be sent; `properties` is RocketMQ's stored form (name \\x01 value \\x02).

    `group`: the producer group it is sent for, if that is another than the producer's own. It goes to the queue
    `queue_id`, or the one that its `sharding_key` leads to; with neither to any. `broker`: of that one and no other;
    without it, a message with a `schedule_key` goes to the broker that has the timers with that key.
    """

    body: bytes
    properties: str
    message_id: str
    group: str | None = None
    queue_id: int | None = None
    sharding_key: str | None = None
    broker: str | None = None
    schedule_key: str | None = None

    @classmethod
    def of_stored(
        cls, body: bytes, properties: str, message_id: str, group: str | None = None, queue_id: int | None = None,
        broker: str | None = None,
    ) -> Outgoing:  # fmt: skip
        """Return a message that was kept in its stored form; its keys are among its properties."""
        sharding_key, schedule_key = value_in(properties, SHARDING_KEY), value_in(properties, SCHEDULE_KEY)
        return cls(body, properties, message_id, group, queue_id, sharding_key, broker, schedule_key)

    def to(self, broker: str | None) -> Outgoing:
        """Return the message, to a queue of this broker; None: as it is. Raises InvalidArgument."""
        if broker is None:
            return self
        names.check_broker(broker)
        return msgspec.structs.replace(self, broker=broker)


def prepare(
    body: Body,
    *,
    tag: str | None = None,
    keys: Iterable[str] = (),
    properties: Mapping[str, str] | None = None,
    delay_level: int = 0,
    wait_for_disk: bool = True,
    group: str | None = None,
    queue_id: int | None = None,
    sharding_key: str | None = None,
    broker: str | None = None,
    **timing: Unpack[Timing],
) -> Outgoing:
    """Check everything a caller gives and make the message: see `MessageOptions` and `Timing`. Raises InvalidArgument.

    `broker`: it goes to a queue of that broker and to no other's.

    Messages with one `sharding_key` go to one queue, as long as the topic has as many: the one that RocketMQ's
    SelectMessageQueueByHash takes for it. Consumers see the key as the property __SHARDINGKEY.
    """
    # asking for a Struct is slow, and most bodies are none
    if not isinstance(body, (bytes, str)) and isinstance(body, msgspec.Struct):
        body, told = written(body)
        if taken := told.keys() & (properties or {}).keys():
            raise InvalidArgument(f"property {min(taken)!r} is set by the event; use another name.", field="properties")
        properties = {**told, **(properties or {})}
    raw = _body(body)
    message_id = message_ids.next_id()
    parts = [f"{UNIQUE_KEY}\x01{message_id}\x02{WAIT}\x01{'true' if wait_for_disk else 'false'}\x02"]
    if tag is not None:
        names.check_tag(tag)
        parts.append(f"{TAGS}\x01{tag}\x02")
    if keys and (joined := names.joined_keys(keys)):
        parts.append(f"{KEYS}\x01{joined}\x02")
    if delay_level:
        names.check_delay_level(delay_level)
        parts.append(f"{DELAY}\x01{delay_level}\x02")
    if queue_id is not None:
        names.check_queue_id(queue_id)
    if sharding_key is not None:
        names.check_sharding_key(sharding_key, queue_id)
        parts.append(f"{SHARDING_KEY}\x01{sharding_key}\x02")
    if timing:
        parts.append(timing_properties(timing, delay_level))
    if properties:
        names.check_properties(properties)
        parts.extend([f"{name}\x01{text}\x02" for name, text in properties.items()])
    stored = "".join(parts)
    _check_size(stored)
    if group is not None:
        names.check_group(group)
    if broker is not None:
        names.check_broker(broker)
    return Outgoing(raw, stored, message_id, group, queue_id, sharding_key, broker, timing.get("schedule_key"))


def ready_message(body: Outgoing | Body, options: MessageOptions) -> Outgoing:
    """Return the message that `prepare` makes of this, or has made already: that one takes `queue_id`, `broker` only.

    Raises InvalidArgument.
    """
    if not isinstance(body, Outgoing):
        return prepare(body, **options)
    if rest := sorted(options.keys() - {"queue_id", "broker"}):
        raise InvalidArgument(f"Give {rest[0]} to `prepare`: this message is made already.", field=rest[0])
    message, queue_id = body.to(options.get("broker")), options.get("queue_id")
    if queue_id is None:
        return message
    names.check_queue_id(queue_id)
    return msgspec.structs.replace(message, queue_id=queue_id)


def value_in(stored: str, name: str) -> str | None:
    """Return the value of one property in the stored form; None if there is none."""
    framed, mark = "\x02" + stored, f"\x02{name}\x01"
    begin = framed.find(mark)
    if begin < 0:
        return None
    begin += len(mark)
    return framed[begin : framed.find("\x02", begin)]


def _body(body: Body) -> bytes:
    if isinstance(body, str):
        try:
            raw = body.encode()
        except UnicodeEncodeError:
            raise InvalidArgument("The body holds half of a character (a lone surrogate).", field="body") from None
    elif isinstance(body, bytes | bytearray | memoryview):
        raw = bytes(body)
    else:
        raise InvalidArgument(f"body must be bytes or text, not {type(body).__name__}.", field="body")
    names.check_body(raw)
    return raw


def _check_size(stored: str) -> None:
    if stored.isascii() and len(stored) <= names.MAX_PROPERTIES_BYTES:
        return
    try:
        size = len(stored.encode())
    except UnicodeEncodeError:
        raise InvalidArgument("A property holds half of a character (a lone surrogate).", field="properties") from None
    if size > names.MAX_PROPERTIES_BYTES:
        raise InvalidArgument(
            f"Tag, keys and properties take {size:,} bytes, the limit is {names.MAX_PROPERTIES_BYTES:,}; "
            "move data to the body.",
            field="properties",
        )


# When a message is to be delivered.

#: RocketMQ reads moments as a signed 64-bit number.
_LATEST_MS = 2**63 - 1
_CONFLICTS = ("error", "replace", "keep")
_WHEN: tuple[Literal["at", "deliver_at_ms", "delay", "delay_ms"], ...] = ("at", "deliver_at_ms", "delay", "delay_ms")
_EPOCH, _MS = datetime(1970, 1, 1, tzinfo=UTC), timedelta(milliseconds=1)
#: The year 2001. Nobody waits for what is earlier; the seconds of our days are read as some day of January 1970.
EARLIEST_MS = 978_307_200_000
_SECONDS_FROM = EARLIEST_MS // 1000
#: How much of what is not valid is shown.
_SHOWN_BITS, _SHOWN_CHARACTERS = 1_000, 100


class Timing(TypedDict, total=False):
    """The options of a send that say when it is delivered."""

    #: the moment, with a time zone
    at: datetime | None
    #: how long from when the broker takes it, by its clock
    delay: timedelta | None
    #: the moment, in milliseconds since 1970
    deliver_at_ms: int | None
    #: the delay in milliseconds
    delay_ms: int | None
    #: a key of your own, unique in its topic while the message waits
    schedule_key: str | None
    #: if a message with that key waits: `error` (default), `replace` it, or `keep` it and drop this one
    on_conflict: OnConflict | None
    #: refuse a moment that is past, instead of delivering at once
    reject_past: bool


class MessageOptions(Timing, total=False):
    """The options of `prepare`: what the message carries, which queue it goes to, when it is delivered."""

    #: one word that consumers choose messages by
    tag: str | None
    #: words that the message is found by
    keys: Iterable[str]
    #: text by name, for filters and for whoever reads the message
    properties: Mapping[str, str] | None
    #: 1 to 18: one of the broker's levels; 0: none
    delay_level: int
    #: the send returns when the message is on disk (default), or before
    wait_for_disk: bool
    #: the number of the queue that it goes to
    queue_id: int | None
    #: messages with one such key go to one queue, and keep their order
    sharding_key: str | None
    #: it goes to a queue of that broker, and to no other's
    broker: str | None


_OPTIONS = tuple(Timing.__annotations__)


def timing_properties(timing: Timing, delay_level: int) -> str:
    """Return the properties in stored form, "" for none; raise InvalidArgument, TypeError for an unknown option."""
    for name in timing:
        if name not in _OPTIONS:
            raise TypeError(f"{name!r} is no option of a send; those that say when are {', '.join(_OPTIONS)}.")
    asked = moment_asked(timing, delay_level)
    is_timer = asked is not None
    parts = []
    if asked is not None:
        parts.append(f"{TIMER_DELAY_MS if asked[0] else TIMER_DELIVER_MS}\x01{asked[1]}\x02")
    schedule_key, on_conflict = timing.get("schedule_key"), timing.get("on_conflict")
    if schedule_key is not None:
        names.check_schedule_key(schedule_key)
        if not is_timer:
            raise InvalidArgument(
                "A schedule_key needs a due time: at, delay, deliver_at_ms or delay_ms.", field="schedule_key"
            )
        parts.append(f"{SCHEDULE_KEY}\x01{schedule_key}\x02")
    if on_conflict is not None:
        if on_conflict not in _CONFLICTS:
            raise InvalidArgument(
                f"on_conflict {on_conflict!r} is not one of {', '.join(_CONFLICTS)}.", field="on_conflict"
            )
        if schedule_key is None:
            raise InvalidArgument("on_conflict needs a schedule_key to be in conflict with.", field="on_conflict")
        parts.append(f"{ON_CONFLICT}\x01{on_conflict}\x02")
    reject_past = timing.get("reject_past")
    if not isinstance(reject_past, bool | None):
        raise InvalidArgument(f"reject_past {_shown(reject_past)} is neither True nor False.", field="reject_past")
    if reject_past:
        if not is_timer:
            raise InvalidArgument(
                "reject_past needs a due time: at, delay, deliver_at_ms or delay_ms.", field="reject_past"
            )
        parts.append(f"{REJECT_PAST}\x01true\x02")
    return "".join(parts)


def moment_asked(timing: Timing, delay_level: int) -> tuple[bool, int] | None:
    """Return whether a delay is asked for or a due time, and its ms; None for a message that no timer holds.

    Raises InvalidArgument.
    """
    given = [name for name in _WHEN if timing.get(name) is not None]
    if len(given) + bool(delay_level) > 1:
        names_given = ["delay_level"] * bool(delay_level) + given
        raise InvalidArgument(f"Give one of {' and '.join(names_given)}, not both.", field=given[-1])
    if (at := timing.get("at")) is not None:
        return False, check_due(epoch_ms(at), "at")
    if (deliver_at_ms := timing.get("deliver_at_ms")) is not None:
        return False, check_due(deliver_at_ms, "deliver_at_ms")
    if (delay := timing.get("delay")) is not None:
        return True, whole_ms(delay)
    if (delay_ms := timing.get("delay_ms")) is not None:
        return True, check_moment(delay_ms, "delay_ms")
    return None


def epoch_ms(at: datetime, field: str = "at") -> int:
    """Return a due time in epoch ms, rounded up; raises InvalidArgument for one without a time zone."""
    if not isinstance(at, datetime):
        raise InvalidArgument(
            f"{field} {_shown(at)} is no datetime; a number of epoch ms is given as deliver_at_ms.", field=field
        )
    if at.utcoffset() is None:
        raise InvalidArgument(
            f"{field} {at} has no time zone, so it is ambiguous. Give "
            "datetime.now(timezone.utc) + timedelta(...), or datetime(..., tzinfo=ZoneInfo('Europe/Berlin')).",
            field=field,
        )
    return -((_EPOCH - at) // _MS)


def whole_ms(delay: timedelta, field: str = "delay") -> int:
    """Return a delay in ms, never shorter than it is; raises InvalidArgument for a negative one."""
    if not isinstance(delay, timedelta):
        raise InvalidArgument(
            f"{field} {_shown(delay)} is no timedelta: give timedelta(seconds=...), or a number of ms as delay_ms.",
            field=field,
        )
    if delay < timedelta():
        raise InvalidArgument(f"{field} {delay} is negative: a message cannot be delayed into the past.", field=field)
    return -(-delay // _MS)


def check_due(value: int, field: str) -> int:
    """Return a due time if it can be meant; raises InvalidArgument for one before 2001, which mostly is in seconds."""
    check_moment(value, field)
    if value < EARLIEST_MS:
        moment = datetime.fromtimestamp(value // 1000, UTC)
        hint = f"it looks like seconds: give {value * 1000}" if value >= _SECONDS_FROM else "give epoch ms"
        raise InvalidArgument(f"{field} {value} is in {moment:%B %Y}; {hint}, or at=datetime(...).", field=field)
    return value


def check_moment(value: int, field: str) -> int:
    """Return the value if it is a whole number of ms that brokers can read; raises InvalidArgument."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _LATEST_MS:
        raise InvalidArgument(f"{field} {_shown(value)} is not valid: a whole number of ms from 0 up.", field=field)
    return value


def _shown(value: object) -> str:
    """Show a value as it was given, if that is short; Python writes no number of thousands of digits."""
    if isinstance(value, int) and value.bit_length() > _SHOWN_BITS:
        return "with so many digits"
    return repr(value)[:_SHOWN_CHARACTERS]


message_ids = UniqueIds()


# RocketMQ's batch.

_FRONT = Struct(">iiiii")
_LENGTH = Struct(">H")
_DELAYS = tuple(f"\x02{name}\x01" for name in (DELAY, TIMER_DELIVER_MS, TIMER_DELAY_MS))


def batch_body(messages: Sequence[Outgoing]) -> bytes:
    """Return the request's body; raise InvalidArgument for an empty batch, delayed messages, or more than 4 MiB."""
    if not messages:
        raise InvalidArgument("A batch needs at least one message.", field="messages")
    if len({(each.queue_id, each.sharding_key, each.broker) for each in messages}) > 1:
        raise InvalidArgument("Messages of a batch go to one queue; these ask for several.", field="messages")
    if any(mark in message.properties for message in messages for mark in _DELAYS):
        raise InvalidArgument("Messages of a batch cannot be delayed; send them one by one.", field="delay_level")
    whole = packed(messages)
    if len(whole) > names.MAX_BODY_BYTES:
        raise InvalidArgument(
            f"The batch has {len(whole):,} bytes, the limit is {names.MAX_BODY_BYTES:,}; make smaller batches.",
            field="messages",
        )
    return whole


def packed(messages: Sequence[Outgoing]) -> bytes:
    """Return messages in the form of a batch: of each its size, magic, CRC and flag (0), body, properties."""
    parts: list[bytes] = []
    for message in messages:
        properties = message.properties.encode()
        size = _FRONT.size + len(message.body) + _LENGTH.size + len(properties)
        parts += (
            _FRONT.pack(size, 0, 0, 0, len(message.body)), message.body, _LENGTH.pack(len(properties)), properties
        )  # fmt: skip
    return b"".join(parts)


def batch_header(group: str, queue: MessageQueue, born_ms: int, message_id: str) -> dict[str, str]:
    """Return the header fields of the request (SendMessageRequestHeaderV2)."""
    return {
        "a": group, "b": queue.topic, "c": TEMPLATE_TOPIC, "d": str(DEFAULT_QUEUES), "e": str(queue.queue_id),
        "f": "0", "g": str(born_ms), "h": "0", "i": f"{UNIQUE_KEY}\x01{message_id}\x02{WAIT}\x01true\x02", "j": "0",
        "k": "false", "m": "true", "n": queue.broker,
    }  # fmt: skip


def batch_results(
    messages: Sequence[Outgoing], queue: MessageQueue, ext: Mapping[str, str], status: str
) -> list[SendResult]:
    """Return a result for each message: ids come joined by commas, the offset is the first one's."""
    ids = ext.get("msgId", "").split(",")
    if len(ids) != len(messages):
        raise BadAnswer(f"The broker answered {len(ids)} ids to a batch of {len(messages)}.")
    first = int(ext.get("queueOffset", -1))
    queue_id = int(ext.get("queueId", queue.queue_id))
    return [
        SendResult(message.message_id, each, queue.topic, queue.broker, queue_id, first + nth, status)
        for nth, (message, each) in enumerate(zip(messages, ids, strict=True))
    ]
