"""Reads one message with all its physical records, and searches by key."""

from __future__ import annotations

from console.queries.clock import now_ms
from console.queries.shapes.evidence import Evidence, StaleReason
from console.queries.shapes.messages import MessagePage, MessageSearch

NOTHING = Evidence(source="broker", as_of_ms=None, exact=True, stale_reason=StaleReason.BROKER_UNREACHABLE)


def message(message_id: str, topic: str | None = None) -> MessagePage:
    """With a topic, `message_id` is the unique id; without, the offset id (both have 32 hex digits)."""
    return MessagePage(
        NOTHING, now_ms(), message_id, "", False, topic, None, None, None, (), None, None, None, None, None, None,
        None, False, None, (), (), 0, None,
    )  # fmt: skip


def messages(topic: str, key: str, limit: int = 64) -> MessageSearch:
    """Messages of `topic` that carry `key`, newest first, parked ones included."""
    return MessageSearch(NOTHING, now_ms(), topic, key, (), limit)
