"""What waits for a topic, as a broker of this project tells it (14014)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

#: What is to become of that which waits for a topic that is deleted.
Pending = Literal["cancel", "keep"]


class TopicWaiting(Struct, rename="camel", frozen=True):
    """How many timers, messages of a delay level, open halves, and halves that are asked about no more wait for a
    topic. Not ``complete``: there may be more, so much waits that it was not all looked at."""

    timers: int = 0
    delayed: int = 0
    halves: int = 0
    parked_halves: int = 0
    complete: bool = True

    @property
    def total(self) -> int:
        """All of them."""
        return self.timers + self.delayed + self.halves + self.parked_halves

    @classmethod
    def of_fields(cls, ext: Mapping[str, str]) -> TopicWaiting | None:
        """Return the counts in the fields of an answer; None where it has none (Apache RocketMQ's)."""
        told = [ext.get(f"esc{name}", "") for name in ("Timers", "Delayed", "Halves", "ParkedHalves")]
        if not all(each.isascii() and each.isdigit() for each in told):
            return None
        timers, delayed, halves, parked = map(int, told)
        return cls(timers, delayed, halves, parked)

    def __add__(self, other: TopicWaiting) -> TopicWaiting:
        return TopicWaiting(
            self.timers + other.timers, self.delayed + other.delayed, self.halves + other.halves,
            self.parked_halves + other.parked_halves, self.complete and other.complete,
        )  # fmt: skip
