"""Parts of requests and answers that several resources share.

OpenAPI is made from these and from the Structs beside the handlers; requests refuse names that are not there.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from console.rest.errors import OperationRefused

Text = Annotated[str, Meta(min_length=1, max_length=127)]
Name = Annotated[str, Meta(min_length=1, max_length=1024)]
ProducerGroupName = Annotated[
    str, Meta(min_length=1, max_length=255, description="Whose producers are asked what became of it.")
]
#: an offset, a position or a queue's number
Place = Annotated[int, Meta(ge=0, le=2**63 - 1)]
DeliverAt = Annotated[
    str | int, Meta(description="RFC 3339 with a zone (2027-01-31T08:00:00+01:00), or ms since 1970.")
]
Moment = Annotated[str | int, Meta(description="RFC 3339 with a zone, or ms since 1970.")]
DelayMs = Annotated[int, Meta(ge=0, le=2**63 - 1, description="From when the broker accepts it.")]
ShiftMs = Annotated[int, Meta(ge=-(2**53) + 1, le=2**53 - 1)]
Reason = Annotated[str, Meta(min_length=1, max_length=500, description="Kept in the audit log.")]
Look = Annotated[bool, Meta(description="Answer what it would touch (200), and do nothing.")]


#: which of several brokers is meant
BrokerName = Annotated[str, Meta(max_length=255, description="Of this broker alone; without it, of all brokers.")]


class OfBroker(Struct, kw_only=True):
    """The broker that is meant, where there are several."""

    broker: BrokerName = ""


class TopicOfUniqueId(Struct, kw_only=True):
    """The topic that a message id of RocketMQ needs; our ids and offset ids have it."""

    topic: Annotated[str | None, Meta(description="The topic that a message id is of.")] = None


class Deletion(Struct, kw_only=True):
    """The reason for a deletion, and whether only to look at what would be lost."""

    broker: BrokerName = ""
    reason: Annotated[str, Meta(description="Kept in the audit log.")] = ""
    preview: Annotated[str, Meta(description="true: say what would be lost, and delete nothing.")] = "false"

    def is_look(self) -> bool:
        """Return whether nothing is to be deleted; raises OperationRefused for another word than true and false."""
        if self.preview not in ("true", "false"):
            raise OperationRefused("preview is true or false.", "preview")
        return self.preview == "true"


class OperationShown(Struct, kw_only=True):
    """An operation. `state`: waiting (for a second person), queued, running, done, aborted, failed, declined, expired.

    `results` counts items by outcome.
    """

    id: str
    kind: str
    state: str
    reason: str
    total: int | None
    done: int
    results: dict[str, int]
    error: str | None
    created_ms: int
    finished_ms: int | None
    preview: Annotated[dict[str, Any], Meta(description="What it was about when it was asked for.")]
    told: Annotated[
        dict[str, Any] | None,
        Meta(description="Of a topic that was deleted: what waited for it, and what became of that."),
    ] = None
    secrets: Annotated[
        dict[str, str] | None, Meta(description="Of broker users: the new secret, in this one answer only.")
    ] = None


class OperationPreview(Struct, kw_only=True):
    """The preview of an operation: what it would touch now. Nothing was done."""

    kind: str
    preview: dict[str, Any]


#: answers of routes that begin operations
Answered = tuple[int, str, type[Struct]]
BEGUN: Answered = (
    202,
    "It is running, or done if it is small; see Location.",
    OperationShown,
)
BEGUN_OR_WAITS: Answered = (
    202,
    "It is done, running, or waiting for approval; see Location.",
    OperationShown,
)
WAITS: Answered = (202, "It is waiting for approval: see Location.", OperationShown)
PREVIEWED: Answered = (200, "With preview: what would be affected.", OperationPreview)
