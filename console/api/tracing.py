"""What clients with tracing told of a message, for who asks for the message by REST."""

from __future__ import annotations

from broker.client.errors import ClientError
from console.tracing import TOLD_LIMIT, told_of

from .room import Room
from .schemas import TracedStep


async def traced_steps(unique_id: str | None, room: Room) -> list[TracedStep] | None:
    """Oldest first, those without a moment last; None: the broker did not tell them."""
    if unique_id is None:
        return []
    try:
        told = told_of(await room.admin.traces(unique_id))
    except ClientError:
        # the message itself is worth the answer
        return None
    return [
        TracedStep(
            what=line.what, at_ms=line.at_ms, group=line.group, client=line.client, took_ms=line.took_ms,
            succeeded=line.succeeded, retries=line.retries, state=line.state,
        )
        for line in told[:TOLD_LIMIT]
    ]  # fmt: skip
