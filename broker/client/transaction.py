"""What transactions are made of: a half, a decision, and the fields in which RocketMQ carries them.

A half is a message that the broker has but shows to nobody. Its producer's group decides: commit shows it, rollback
drops it. Where no decision comes, the broker asks a live producer of the group (a check).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol

import msgspec

from . import names
from .errors import ClientError, InvalidArgument
from .outgoing import Outgoing, value_in
from .types import Message

#: Refusal of a decision that contradicts the one already taken, or comes too late (ResponseCode.ILLEGAL_OPERATION).
ILLEGAL_OPERATION = 604


class Decision(IntEnum):
    """What becomes of a half; the numbers are MessageSysFlag's of 5.5.0."""

    UNKNOWN = 0
    """Not known yet: the broker asks again later."""
    COMMIT = 8
    """Show the message to consumers."""
    ROLLBACK = 12
    """Drop it."""


@dataclass(frozen=True, slots=True)
class Half:
    """A half that the broker has. `queue_offset` and `position` are those in RMQ_SYS_TRANS_HALF_TOPIC.

    `lane`: the same for halves that are to be shown in the order in which they were sent; "" for any order.
    """

    transaction_id: str
    topic: str
    group: str
    broker: str
    address: str
    queue_offset: int
    position: int
    lane: str = ""

    def ending(self, decision: Decision) -> dict[str, str]:
        """The fields of request 37 that decides it (EndTransactionRequestHeader)."""
        return _ending(
            self.group, self.topic, self.broker, self.transaction_id, self.queue_offset, self.position, decision, False
        )


@dataclass(frozen=True, slots=True)
class Check:
    """A broker's question what became of a half: `message` as it was sent, and where to answer."""

    message: Message
    group: str
    address: str
    fields: Mapping[str, str]

    @property
    def transaction_id(self) -> str:
        """The half's transaction id, which is the message's unique id."""
        return self.message.unique_key or self.fields.get("transactionId", "")

    def ending(self, decision: Decision) -> dict[str, str]:
        """The fields of request 37 that answers: places as the broker asked, for it may have moved the half."""
        fields = self.fields
        offset, position = int(fields["tranStateTableOffset"]), int(fields["commitLogOffset"])
        topic, broker = fields.get("topic", ""), fields.get("bname", "")
        return _ending(self.group, topic, broker, self.transaction_id, offset, position, decision, True)


@dataclass(frozen=True, slots=True)
class TransactionResult:
    """What became of send_in_transaction: the half, what the listener said, and whether the broker confirmed it."""

    half: Half
    decision: Decision
    is_confirmed: bool


class TransactionListener(Protocol):
    """The two questions of RocketMQ's TransactionListener; both may also be coroutine functions."""

    def execute(self, half: Half, argument: Any) -> Decision | Coroutine[Any, Any, Decision]:
        """The broker has the half: do the local work, and say what becomes of the message."""

    def check(self, message: Message) -> Decision | Coroutine[Any, Any, Decision]:
        """The broker asks what became of the half that `message` was."""


Checker = Callable[[Message], Decision | Coroutine[Any, Any, Decision]]
"""Answers checks; called in a thread, or awaited if it is a coroutine function."""


class HalfNotSafe(ClientError):
    """The broker stored the half with less safety than asked for; it was rolled back."""

    def __init__(self, status: str) -> None:
        super().__init__(
            f"The broker stored the half with less safety than asked for ({status}); it was rolled back. Send again, "
            "or look at the broker's disk and slave."
        )
        self.status = status


def as_half(message: Outgoing, group: str, marks: Mapping[str, str] | None = None) -> Outgoing:
    """The message as a half of `group`; `marks` are properties of ours (``ESC_``). Raises InvalidArgument."""
    _check_conflict(message)
    properties = {"TRAN_MSG": "true", "PGROUP": group, **(marks or {})}
    stored = message.properties + "".join(f"{name}\x01{text}\x02" for name, text in properties.items())
    if len(stored.encode()) > names.MAX_PROPERTIES_BYTES:
        raise InvalidArgument(
            f"Tag, keys and properties take more than {names.MAX_PROPERTIES_BYTES:,} bytes; move data to the body.",
            field="properties",
        )
    return msgspec.structs.replace(message, properties=stored, group=group)


def _check_conflict(message: Outgoing) -> None:
    """A half becomes a timer when it is committed: nobody can be told then that its schedule key is taken."""
    if value_in(message.properties, "ESC_SCHEDULE_KEY") is None:
        return
    conflict = value_in(message.properties, "ESC_ON_CONFLICT") or "error"
    if conflict != "replace":
        raise InvalidArgument(
            f"on_conflict={conflict!r} cannot be kept to in a transaction: whether the schedule key is taken shows "
            "only after the commit, when nothing can be undone. Give on_conflict='replace', or use send_later() or a "
            "send after the commit, which the broker can still refuse.",
            field="on_conflict",
        )


def _ending(
    group: str, topic: str, broker: str, transaction_id: str, queue_offset: int, position: int, decision: Decision,
    from_check: bool,
) -> dict[str, str]:  # fmt: skip
    return {
        "producerGroup": group,
        "bname": broker,
        "topic": topic,
        "msgId": transaction_id,
        "transactionId": transaction_id,
        "tranStateTableOffset": str(queue_offset),
        "commitLogOffset": str(position),
        "commitOrRollback": str(int(decision)),
        "fromTransactionCheck": "true" if from_check else "false",
    }
