"""What a simple consumer gets: messages, each with the receipt by which it is acknowledged."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable
from dataclasses import dataclass

from ..rocketmq.message import Message
from .errors import InvalidArgument

MOST_BITS = 1 << 16
"""How far a message may be from the first one of its pop."""
_VERSION = "1"
#: Fields of a handle, parted by blanks.
_START, _POP_MS, _INVISIBLE_MS, _REVIVE, _RETRY, _BROKER, _QUEUE, _OFFSET = range(8)
#: "retry" of a message that comes from %RETRY%group_topic, and from %RETRY%group+topic.
_RETRY_SEPARATORS = {"1": "_", "2": "+"}


@dataclass(frozen=True, slots=True)
class Receipt:
    """Names one message for the consumer that received it, as long as its time lasts (RocketMQ's POP_CK)."""

    topic: str
    handle: str

    def part(self, index: int) -> str:
        """One field of the handle."""
        return self.handle.split(" ")[index]

    @property
    def broker(self) -> str:
        """The broker that holds the message."""
        return self.part(_BROKER)

    @property
    def invisible_until_ms(self) -> int:
        """When the message is somebody else's, by the broker's clock."""
        return int(self.part(_POP_MS)) + int(self.part(_INVISIBLE_MS))

    def about(self, group: str) -> dict[str, str]:
        """The header fields that name the message (AckMessageRequestHeader)."""
        return {
            "consumerGroup": group,
            "topic": self.real_topic(group),
            "queueId": self.part(_QUEUE),
            "offset": self.part(_OFFSET),
            "extraInfo": self.handle,
            "bname": self.broker,
        }

    def real_topic(self, group: str) -> str:
        """The topic in which the message stands: its own, or that of its further tries."""
        separator = _RETRY_SEPARATORS.get(self.part(_RETRY))
        return self.topic if separator is None else f"%RETRY%{group}{separator}{self.topic}"

    def changed(self, pop_ms: str, invisible_ms: str, revive: str) -> Receipt:
        """The receipt after its time was changed (MQClientAPIImpl.changeInvisibleTimeAsync)."""
        parts = self.handle.split(" ")
        parts[_START], parts[_POP_MS], parts[_INVISIBLE_MS], parts[_REVIVE] = (
            parts[_OFFSET],
            pop_ms,
            invisible_ms,
            revive,
        )
        return Receipt(self.topic, " ".join(parts[: _OFFSET + 1]))

    def __str__(self) -> str:
        """As one word, for those who must hand it on."""
        return urlsafe_b64encode(f"{_VERSION} {self.topic} {self.handle}".encode()).decode().rstrip("=")


def read_receipt(word: str) -> Receipt:
    """The receipt that ``str`` of it has made; raises InvalidArgument."""
    try:
        text = urlsafe_b64decode(word + "=" * (-len(word) % 4)).decode()
        version, topic, handle = text.split(" ", 2)
        parts = handle.split(" ")
        numbers = [parts[index] for index in (_START, _POP_MS, _INVISIBLE_MS, _REVIVE, _QUEUE, _OFFSET)]
        is_good = (
            version == _VERSION
            and len(parts) == 8
            and all(each.isascii() and each.isdigit() and len(each) < 19 for each in numbers)
            and 0 <= int(parts[_OFFSET]) - int(parts[_START]) < MOST_BITS
        )
    except (ValueError, IndexError):
        is_good = False
    if not is_good:
        raise InvalidArgument("This is no receipt: give it as it was received.", field="receipt")
    return Receipt(topic, handle)


@dataclass(frozen=True, slots=True)
class Received:
    """A message that is this consumer's until `invisible_until_ms` (by the broker's clock); `attempt` counts from 1."""

    message: Message
    receipt: Receipt

    @property
    def body(self) -> bytes:
        """The message's body."""
        return self.message.body

    @property
    def attempt(self) -> int:
        """How often the message was handed out, this time included."""
        return self.message.reconsume_times + 1

    @property
    def invisible_until_ms(self) -> int:
        """When it is handed out again unless it is acknowledged before."""
        return self.receipt.invisible_until_ms


def pairs(text: str) -> dict[str, list[str]]:
    """`retry queue value,value` joined by `;`, as lists of values by "retry queue"."""
    rows = (part.rsplit(" ", 1) for part in text.split(";") if part)
    return {row[0]: row[1].split(",") for row in rows if len(row) == 2}


def receipts_of(topic: str, broker: str, ext: dict[str, str], messages: Iterable[Message]) -> list[Received]:
    """The messages of a pop's answer with their receipts; a further try carries its own."""
    starts = pairs(ext.get("startOffsetInfo", ""))
    counts = {
        place: int(value[0]) for place, value in pairs(ext.get("orderCountInfo", "")).items() if value[0].isdigit()
    }
    pop_ms, invisible_ms, revive = (ext.get(name, "0") for name in ("popTime", "invisibleTime", "reviveQid"))
    received = []
    for message in messages:
        handle = message.properties.get("POP_CK")
        if handle is None:
            start = starts.get(f"0 {message.queue_id}", [str(message.queue_offset)])[0]
            place = f"{broker} {message.queue_id} {message.queue_offset}"
            handle = f"{start} {pop_ms} {invisible_ms} {revive} 0 {place}"
        count = counts.get(f"0 qo{message.queue_id}%{message.queue_offset}", counts.get(f"0 {message.queue_id}", 0))
        received.append(Received(as_asked(message, topic, count), Receipt(topic, handle)))
    return received


def as_asked(message: Message, topic: str, count: int) -> Message:
    """The message under the topic that was asked for; in order the broker counts the tries beside it."""
    properties = {name: value for name, value in message.properties.items() if name not in ("POP_CK", "ESC_POPPED")}
    return Message(
        topic, message.queue_id, message.queue_offset, message.position, message.size, message.body, properties,
        message.flag, message.sys_flag, message.born_ms, message.born_host, message.store_ms, message.store_host,
        message.reconsume_times or count, message.prepared_position,
    )  # fmt: skip
