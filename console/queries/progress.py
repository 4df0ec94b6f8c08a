"""Reads consumer groups."""

from __future__ import annotations

from console.queries.clock import now_ms
from console.queries.shapes.evidence import Evidence, StaleReason
from console.queries.shapes.groups import GroupPage, Groups

NOTHING = Evidence(source="mirror", as_of_ms=None, exact=True, stale_reason=StaleReason.MIRROR_EMPTY)


def groups(*, search: str = "", offset: int = 0, count: int = 100) -> Groups:
    """Consumer groups, the one furthest behind first."""
    return Groups(NOTHING, now_ms(), (), 0, offset, count, search)


def group(name: str) -> GroupPage:
    """One group: its queues from the mirror, its members from the broker."""
    return GroupPage(NOTHING, now_ms(), name, "", None, (), None, NOTHING, None, None, ())
