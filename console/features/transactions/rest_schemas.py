"""What requests and answers about transactions look like."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from ...rest.choice_schemas import ChosenTransaction, Look
from ...rest.schemas import NewMessage, Text
from ..timers.rest_bulk_schemas import BulkReason

Group = Annotated[str, Meta(min_length=1, max_length=255, description="Whose producers are asked what became of it.")]


class NewHalf(Struct, forbid_unknown_fields=True, kw_only=True):
    """A message that nobody sees until it is committed. A delay in `message` counts from the commit."""

    topic: Text
    message: NewMessage
    producer_group: Group


class HalfTaken(Struct, kw_only=True):
    """A half that the broker has accepted, which is not delivered. `flushed`: it is on disk."""

    id: Annotated[str, Meta(description="Opaque; decide with POST /api/v1/transactions/{id}:commit or :rollback.")]
    transaction_id: Annotated[str, Meta(description="RocketMQ's; the message's unique id, too.")]
    topic: str
    producer_group: str
    broker: str
    flushed: bool


TransactionState = Literal["open", "parked"]


class TransactionFilter(Struct, forbid_unknown_fields=True, kw_only=True):
    """Which transactions: all conditions that are given hold at once."""

    state: Annotated[TransactionState, Meta(description="open ones, or parked ones.")] = "open"
    topic: Text | None = None
    producer_group: Group | None = None
    older_than_ms: Annotated[int, Meta(ge=0, le=2**53 - 1, description="Least age of the half.")] | None = None
    stored_before: Annotated[str | int, Meta(description="RFC 3339 with a zone, or ms since 1970.")] | None = None


class ManyTransactions(Struct, forbid_unknown_fields=True, kw_only=True):
    """Up to 1,000 that are chosen (`transactions`), or up to 10,000 that match (`filter`), and why.

    `all: true` is needed for a filter without any condition but a state.
    """

    filter: TransactionFilter | None = None
    transactions: Annotated[list[ChosenTransaction], Meta(min_length=1, max_length=1_000)] | None = None
    reason: BulkReason
    all: bool = False
    preview: Look = False


class DecisionReason(Struct, forbid_unknown_fields=True, kw_only=True):
    """Why; kept with the decision in the broker's log. `producer_group`, if given, must be the half's."""

    reason: Annotated[str, Meta(max_length=200)] = ""
    producer_group: Group | None = None


class Decided(Struct, kw_only=True):
    """What was done. `outcome`: committed, rolled_back, check_planned, checks_resumed; `repeated`: it was so before.

    committed means that the message is in its topic (or waits for its moment), not that a consumer has it. `operation`
    is the address of what is kept of it: null where nothing was changed.
    """

    id: str
    transaction_id: str | None
    topic: str
    outcome: Literal["committed", "rolled_back", "check_planned", "checks_resumed"]
    repeated: bool
    operation: str | None


class TransactionShown(Struct, kw_only=True):
    """One transaction. `state`: open, due (asked as soon as a producer is there), ending, parked, committed,
    rolled back, or decided (a record of Apache RocketMQ does not say how)."""

    id: str | None
    transaction_id: str | None
    state: str
    topic: str
    producer_group: str
    keys: list[str]
    tag: str | None
    stored_ms: int | None
    checks: int | None
    next_check_ms: int | None
    parked_ms: int | None
    decided_ms: int | None
    decided_by: str | None
    reason: str | None
    producers: Annotated[list[str], Meta(description="Client ids that would be asked, at most ten.")]


class TransactionRows(Struct, kw_only=True):
    """Oldest half first; decided ones, newest decision first. While there is a `cursor`, there may be more, also behind
    a page that is short: give it back for the next page."""

    now_ms: int
    transactions: list[TransactionShown]
    cursor: str | None


class TransactionMoment(Struct, kw_only=True):
    """Something that happened. `event`: half, check (`check`: which one), parked, resumed, committed, rolled back,
    decided, scheduled, delivered (in its topic, at `queue_id` and `queue_offset`)."""

    event: str
    at_ms: int
    check: int | None = None
    by: str | None = None
    reason: str | None = None
    queue_id: int | None = None
    queue_offset: int | None = None


class TransactionLifeShown(Struct, kw_only=True):
    """One transaction and what happened to it, oldest first. On Apache RocketMQ from the newest records of its topics:
    neither checks nor who decided are told there, and `now_ms` is null."""

    now_ms: int | None
    transaction: TransactionShown
    life: list[TransactionMoment]
