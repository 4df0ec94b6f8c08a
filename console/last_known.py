"""What is told of a broker that is away: its newest snapshot, so that a total does not shrink when a broker dies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from console.past import newest_of, opened
from console.site.clock import now_ms

Shape = TypeVar("Shape")


@dataclass(frozen=True, slots=True)
class Away:
    """One of several brokers that does not answer, and what waited there when it was seen last."""

    broker: str
    #: the moment of the figures; None: nothing was kept, and it is not in the sums
    at_ms: int | None = None
    count: int | None = None
    #: halves that nobody is asked about any more
    parked: int | None = None


def last_known(names: Sequence[str], part: str, kind: type[Shape]) -> dict[str, tuple[int, Shape]]:
    """Return by broker the moment and the part of its newest snapshot that knows the part; without names ask
    nothing."""
    if not names:
        return {}
    found = newest_of(names, now_ms(), part)
    return {name: (row.at_ms, opened(kind, bytes(row.held))) for name, row in found.items()}
