"""What requests and answers of receiving look like."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

LONGEST_INVISIBLE_MS = 12 * 3_600_000
MOST_RECEIPTS = 100

ReceiptWord = Annotated[str, Meta(min_length=1, max_length=1_000, description="As the message came with it.")]
Receipts = Annotated[list[ReceiptWord], Meta(min_length=1, max_length=MOST_RECEIPTS)]
Invisible = Annotated[
    int, Meta(ge=1, le=LONGEST_INVISIBLE_MS, description="For how long the messages are nobody else's.")
]


class Receive(Struct, forbid_unknown_fields=True, kw_only=True):
    """How many messages, of what kind, and how long to wait for the first."""

    max_messages: Annotated[int, Meta(ge=1, le=32)] = 16
    invisible_ms: Invisible = 30_000
    wait_ms: Annotated[int, Meta(ge=0, le=30_000, description="0: what is there now.")] = 15_000
    expression: Annotated[
        str, Meta(max_length=8_192, description="Tags, joined by ||, or a filter over properties; * for all.")
    ] = "*"
    expression_type: Literal["tag", "sql92"] = "tag"
    in_order: Annotated[
        bool,
        Meta(
            description="A queue gives out nothing more until all that was received of it is acknowledged or due again."
        ),
    ] = False


class Acknowledge(Struct, forbid_unknown_fields=True, kw_only=True):
    """The messages that are done."""

    receipts: Receipts


class GiveBack(Struct, forbid_unknown_fields=True, kw_only=True):
    """The messages to deliver again, and when."""

    receipts: Receipts
    delay_ms: Annotated[int, Meta(ge=0, le=LONGEST_INVISIBLE_MS)] = 0


class Extend(Struct, forbid_unknown_fields=True, kw_only=True):
    """The messages to keep, and for how long from now."""

    receipts: Receipts
    invisible_ms: Invisible


class ReceivedMessage(Struct, kw_only=True):
    """A message that is the receiver's until `invisible_until_ms`, by the broker's clock."""

    receipt: Annotated[str, Meta(description="Opaque; good for :ack, :nack and :extend.")]
    id: Annotated[str, Meta(description="Opaque; good for GET /api/v1/messages/{id}.")]
    message_id: str | None
    topic: str
    broker: str
    queue: int
    queue_offset: int
    body: Annotated[str | None, Meta(description="The body, if it is UTF-8 text.")]
    body_base64: Annotated[str | None, Meta(description="The body, if it is not text.")]
    tag: str | None
    keys: list[str]
    properties: dict[str, str]
    born_ms: int
    attempt: Annotated[int, Meta(description="How often it was handed out, this time included.")]
    invisible_until_ms: int


class ReceivedList(Struct, kw_only=True):
    """The messages; none if none came in time."""

    messages: list[ReceivedMessage]


NotHeld = Annotated[list[str], Meta(description="Receipts whose time was over: somebody else may have the message.")]


class Acknowledged(Struct, kw_only=True):
    """How many are done."""

    acknowledged: int
    not_held: NotHeld


class GivenBack(Struct, kw_only=True):
    """How many will be delivered again."""

    given_back: int
    not_held: NotHeld


class Kept(Struct, kw_only=True):
    """A message that is the receiver's for longer, by its new receipt."""

    was: str
    receipt: str
    invisible_until_ms: int


class Extended(Struct, kw_only=True):
    """The receipts to use from now on."""

    extended: list[Kept]
    not_held: NotHeld
