"""Which rows are wanted: topic, time stored, position.

Positions choose segments exactly. Times choose them by the first record of each stretch, with an hour to spare on
either side, because a broker's clock may have been set back; what is left is compared row by row.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

#: How far a broker's clock may have been set back without a record being missed.
CLOCK_SLACK_MS = 3_600_000
LEAST, MOST = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Wanted:
    """Rows that are wanted. Bounds are inclusive; ``topics`` None: all of them."""

    topics: frozenset[str] | None = None
    positions: tuple[int, int] = (LEAST, MOST)
    times_ms: tuple[int, int] = (LEAST, MOST)

    def may_hold(self, first_ms: int, last_ms: int) -> bool:
        """Tell whether a segment whose records were stored between two moments can hold a wanted row."""
        return first_ms - CLOCK_SLACK_MS <= self.times_ms[1] and last_ms + CLOCK_SLACK_MS >= self.times_ms[0]

    @property
    def columns(self) -> list[str]:
        """The columns that have to be there for ``choose``."""
        needed = {"topic": self.topics is not None, "position": self.positions != (LEAST, MOST)}
        return [
            name for name, is_needed in (needed | {"store_ms": self.times_ms != (LEAST, MOST)}).items() if is_needed
        ]

    def choose(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the wanted rows."""
        masks = []
        if self.topics is not None:
            masks.append(pc.is_in(batch.column("topic"), value_set=pa.array(sorted(self.topics), pa.string())))
        for name, (low, high) in (("position", self.positions), ("store_ms", self.times_ms)):
            if low > LEAST:
                masks.append(pc.greater_equal(batch.column(name), low))
            if high < MOST:
                masks.append(pc.less_equal(batch.column(name), high))
        for mask in masks[1:]:
            masks[0] = pc.and_kleene(masks[0], mask)
        return batch.filter(masks[0]) if masks else batch
