"""What requests name that choose single timers, transactions and dead letters, and how far a group is to be moved."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from .schemas import DeliverAt, Text

Reason = Annotated[str, Meta(min_length=1, max_length=500, description="Kept in the audit.")]
Name = Annotated[str, Meta(min_length=1, max_length=1024)]
Place = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Look = Annotated[bool, Meta(description="Answer what it would touch (200), and do nothing.")]
SentAgain = Literal["sent_as_new", "sent_back"]
Moment = Annotated[str | int, Meta(description="RFC 3339 with a zone, or ms since 1970.")]


class ChosenTimer(Struct, forbid_unknown_fields=True, kw_only=True):
    """One waiting message: by `id` (ours, a recall handle or an offset id), by `topic` and `schedule_key`, by `topic`
    and `message_id`, or by the `position` of its record. `deliver_at`: its own new moment."""

    id: Name | None = None
    topic: Text | None = None
    schedule_key: Name | None = None
    message_id: Name | None = None
    position: Place | None = None
    deliver_at: DeliverAt | None = None


class ChosenTransaction(Struct, forbid_unknown_fields=True, kw_only=True):
    """One transaction: by `id` (ours, or RocketMQ's transaction id), or by `offset` and `position` of its half."""

    id: Name | None = None
    offset: Place | None = None
    position: Place | None = None


class ChosenLetter(Struct, forbid_unknown_fields=True, kw_only=True):
    """One dead letter of the group: its queue and its offset there."""

    queue: Place
    offset: Place


class DeadLetterConditions(Struct, forbid_unknown_fields=True, kw_only=True):
    """Which dead letters: all conditions that are given hold at once. `topic`: in which the group got it."""

    topic: Text | None = None
    key: Annotated[str, Meta(max_length=255, description="A key, a tag or a message_id.")] | None = None
    died_from: Moment | None = None
    died_before: Moment | None = None


class Resend(Struct, forbid_unknown_fields=True, kw_only=True):
    """Why a message is sent again, and to whom: to every group of its topic (as a new message), or to `group` alone.

    `idempotency_key`: of the caller's own; the same token with the same key sends nothing a second time.
    """

    reason: Reason
    group: Text | None = None
    idempotency_key: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    preview: Look = False


class Resent(Struct, kw_only=True):
    """A message that was sent again. `id` and `message_id` are the new one's; null where a group got it back.

    `repeated`: nothing was sent by this call, the one before with the same idempotency_key did it.
    """

    outcome: SentAgain
    topic: str
    group: str | None
    id: str | None
    message_id: str | None
    repeated: bool
    operation: str


class ManyLetters(Struct, forbid_unknown_fields=True, kw_only=True):
    """Up to 1,000 dead letters that are chosen, or up to 10,000 that match and were not sent again before.

    `all: true` is needed for a filter without any condition.
    """

    letters: Annotated[list[ChosenLetter], Meta(min_length=1, max_length=1_000)] | None = None
    filter: DeadLetterConditions | None = None
    all: bool = False
    reason: Reason
    preview: Look = False


class NewOffsets(Struct, forbid_unknown_fields=True, kw_only=True):
    """Where a group is to go on in a topic: at the first message stored at or after `at`, at the first there is, behind
    the last (what is between is skipped), or at `offsets`, pairs of queue and offset (other queues stay)."""

    to: Literal["time", "first", "last", "offsets"]
    at: Moment | None = None
    offsets: Annotated[list[tuple[Place, Place]], Meta(min_length=1, max_length=1_000)] | None = None
    reason: Reason
    preview: Look = False


class OperationPreview(Struct, kw_only=True):
    """What an operation would touch now; nothing was done."""

    kind: str
    preview: dict[str, Any]


class DeadLetterShown(Struct, kw_only=True):
    """One message that the group gave up. `sent_again`: what was done with it by an operation since, if anything."""

    queue: int
    offset: int
    topic: str
    message_id: str | None
    offset_message_id: str
    keys: list[str]
    tag: str | None
    born_ms: int
    died_ms: int
    attempts: int
    size_bytes: int
    sent_again: str | None


class DeadLetterRows(Struct, kw_only=True):
    """Dead letters, the newest first. While there is a `cursor`, there may be more, also behind a short page."""

    letters: list[DeadLetterShown]
    cursor: str | None
