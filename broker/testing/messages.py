"""Messages as a test sees them: sent, waiting, or made by hand; and how those that a test expects are looked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, TypeVar, cast

import msgspec

from ..client import InvalidArgument, Message, MessageOptions, prepare
from ..rocketmq.properties import DEAD_REASON, OWN_PREFIX, SCHEDULE_KEY, SYSTEM_PROPERTIES, parse_properties

Kind = Literal["delay", "timer", "retry", "half", "parked half"]

#: A value that nobody has asked to be compared.
ANYTHING: Any = type("Anything", (), {"__repr__": lambda _: "anything"})()
#: How many messages an error shows, and how much of each body.
MOST_SHOWN, SHOWN_BYTES = 20, 200


def moment(at_ms: int) -> datetime:
    """Return ms since 1970 as a datetime of UTC."""
    return datetime.fromtimestamp(at_ms // 1000, UTC).replace(microsecond=at_ms % 1000 * 1000)


@dataclass(frozen=True, slots=True)
class SentMessage:
    """A message that consumers can see. `message` is what a handler is given."""

    message: Message

    @property
    def topic(self) -> str:
        """The topic that it was sent to."""
        return self.message.topic

    @property
    def body(self) -> bytes:
        """The body as its sender gave it."""
        return self.message.body

    @property
    def text(self) -> str:
        """The body, read as UTF-8."""
        return self.message.body.decode()

    def json(self) -> Any:
        """Return what the body says as JSON; raises msgspec.DecodeError if it is none."""
        return self.message.json()

    def event(self) -> Any:
        """Return the event that the message is; raises NotThisEvent."""
        return self.message.event()

    @property
    def tag(self) -> str | None:
        """The tag, or None."""
        return self.message.tags

    @property
    def keys(self) -> list[str]:
        """The business keys, in order."""
        return self.message.keys

    @property
    def key(self) -> str | None:
        """The first business key, or None."""
        return next(iter(self.message.keys), None)

    @property
    def properties(self) -> dict[str, str]:
        """The properties that the sender gave; those of the protocol are in `message.properties`."""
        return {
            name: value
            for name, value in self.message.properties.items()
            if name not in SYSTEM_PROPERTIES and not name.startswith(OWN_PREFIX)
        }

    @property
    def message_id(self) -> str:
        """The id that its send was answered with."""
        return self.message.message_id

    @property
    def dead_reason(self) -> str | None:
        """Why the handler gave it up, if it is a dead letter and the handler said so (DeadLetter)."""
        return self.message.properties.get(DEAD_REASON)

    @property
    def visible_at(self) -> datetime:
        """Since when consumers can see it, by the broker's clock."""
        return moment(self.message.store_ms)

    def __str__(self) -> str:
        said = [self.topic, _shown(self.body)]
        said += [f"tag {self.tag}"] if self.tag else []
        said += [f"keys {' '.join(self.keys)}"] if self.keys else []
        return ", ".join(said)


@dataclass(frozen=True, slots=True)
class PendingMessage(SentMessage):
    """A pending message: `topic` is the one that it will be seen in.

    `kind` is `timer` (a due time of its own), `delay` (a delay level), `retry` (a handler failed), `half` (its
    transaction is not decided) or `parked half` (producers were asked in vain). `due`: when it comes out, of a half
    when its producer is asked next; None if nothing is planned. `group`: the group that a retry is for.
    """

    kind: Kind = "timer"
    due: datetime | None = None
    group: str | None = None

    @property
    def schedule_key(self) -> str | None:
        """The key by which the sender can move or cancel it, or None."""
        return self.message.properties.get(SCHEDULE_KEY)

    def __str__(self) -> str:
        when = "no due time" if self.due is None else f"{self.due:%Y-%m-%d %H:%M:%S.%f}"[:-3]
        kind = self.kind if self.group is None else f"{self.kind} of {self.group}"
        return f"{kind}, {when}: {SentMessage.__str__(self)}"


M = TypeVar("M", bound=SentMessage)


class Messages(tuple[M, ...]):
    """Messages in order. Called with a topic, those of that topic."""

    __slots__ = ()

    def __call__(self, topic: str) -> Messages[M]:
        """Return those of a topic, in the same order."""
        return Messages(each for each in self if each.topic == topic)

    def where(
        self, topic: str | None = None, *, body: bytes | str = ANYTHING, json: object = ANYTHING,
        tag: str | None = ANYTHING, key: str = ANYTHING, properties: Mapping[str, str] | None = None,
    ) -> Messages[M]:  # fmt: skip
        """Return those with these values; what is not given may be anything. `properties`: these and maybe more."""
        tests: list[Callable[[M], bool]] = []
        if topic is not None:
            tests.append(lambda each: each.topic == topic)
        if body is not ANYTHING:
            wanted = body.encode() if isinstance(body, str) else bytes(body)
            tests.append(lambda each: each.body == wanted)
        if json is not ANYTHING:
            tests.append(lambda each: _says(each, json))
        if tag is not ANYTHING:
            tests.append(lambda each: each.tag == tag)
        if key is not ANYTHING:
            tests.append(lambda each: key in each.keys)
        if properties is not None:
            items = properties.items()
            tests.append(lambda each: items <= each.properties.items())
        return Messages(each for each in self if all(test(each) for test in tests))

    def shown(self) -> str:
        """Return a readable line for each; of many the last ones."""
        lines = [f"  {each}" for each in self[-MOST_SHOWN:]]
        left_out = len(self) - len(lines)
        return "\n".join([f"  ... and {left_out} before"] * bool(left_out) + lines) or "  nothing"


def _says(message: SentMessage, json: object) -> bool:
    try:
        return bool(message.json() == json)
    except msgspec.DecodeError:
        return False


def _shown(body: bytes) -> str:
    text = repr(body[:SHOWN_BYTES])[1:]
    return text if len(body) <= SHOWN_BYTES else f"{text} and {len(body) - SHOWN_BYTES:,} bytes more"


def expected(topic: str, wanted: Mapping[str, object], times: int) -> str:
    """Return in words what a test has looked for in vain."""
    said = " and ".join(f"{name} {value!r}" for name, value in wanted.items())
    return f"{times} message{'s' * (times != 1)} to {topic}" + (f" with {said}" if said else "")


def in_order(found: Iterable[M]) -> Messages[M]:
    """Return messages in the order in which they were stored."""
    return Messages(sorted(found, key=lambda each: each.message.position))


# Made by hand.


def body_of(body: bytes | str | None, json: object) -> bytes | str:
    """Return the body that is given in one way or the other; raises InvalidArgument for both."""
    if json is ANYTHING:
        return b"" if body is None else body
    if body is not None:
        raise InvalidArgument("Give body or json, not both.", field="json")
    return msgspec.json.encode(json)


def make_message(
    body: bytes | str | None = None, *, json: object = ANYTHING, topic: str = "orders", reconsume_times: int = 0,
    at: datetime | None = None, queue_id: int = 0, queue_offset: int = 0, **options: Any,
) -> Message:  # fmt: skip
    """Return a message as a handler is given it, to call one by hand.

    `options` are those of a send: `tag`, `keys`, `properties`, `sharding_key`. `reconsume_times`: how often it was
    handled in vain before. `at`: when it was sent and became visible, now if not given. Raises InvalidArgument.
    """
    made = prepare(body_of(body, json), **cast(MessageOptions, options))
    now_ms = round((datetime.now(UTC) if at is None else at).timestamp() * 1000)
    properties = parse_properties(made.properties.encode())
    here = ("127.0.0.1", 0)
    return Message(
        topic, queue_id, queue_offset, 0, 0, made.body, properties, 0, 0, now_ms, here, now_ms, here, reconsume_times, 0
    )
