"""Reads topics, queues and the messages of a queue."""

from __future__ import annotations

from console.queries.clock import now_ms
from console.queries.shapes.evidence import Evidence, StaleReason
from console.queries.shapes.topics import QueueMessages, TopicPage, Topics

NOTHING = Evidence(source="mirror", as_of_ms=None, exact=True, stale_reason=StaleReason.MIRROR_EMPTY)


def topics(*, search: str = "", kind: str = "", order: str = "name", offset: int = 0, count: int = 100) -> Topics:
    """Topics whose name contains `search`; kind "" is all but system topics, "all" is all, else a TopicKind value;
    order: name, -name, messages, -messages, rate, -rate, last, -last."""
    return Topics(NOTHING, now_ms(), (), 0, {}, offset, count, search, kind, order)


def topic(name: str) -> TopicPage:
    """One topic with its queues and readers."""
    return TopicPage(NOTHING, now_ms(), name, "", None, False, "SINGLE_TAG", {}, (), ())


def queue_messages(topic: str, queue_id: int, offset: int | None = None, count: int = 32) -> QueueMessages:
    """Messages of one queue from the broker; offset None is the newest page."""
    return QueueMessages(NOTHING, now_ms(), topic, queue_id, offset or 0, count, None, None, (), None, None)
