"""Rate histories: counts per slot of five seconds, kept in memory while a slot fills and written when it is whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from .models import SLOT_MS, SLOTS, RateHistory

#: (kind, name) of RateHistory
Key = tuple[str, str]


@dataclass(slots=True)
class Rates:
    """The slot that fills now, and the whole slots of every key that ever moved.

    `since_slot`: the first slot that was watched from its beginning without a gap; before it silence is unknown, not 0.
    """

    since_slot: int
    slot: int
    filling: dict[Key, int] = field(default_factory=dict)
    whole: dict[Key, tuple[int, list[int | None]]] = field(default_factory=dict)

    @classmethod
    def begin(cls, now_ms: int, kept: Mapping[Key, tuple[int, Sequence[int | None]]]) -> Rates:
        """Start to watch; what is `kept` in the table stays, the time between is a gap."""
        slot = now_ms // SLOT_MS
        return cls(slot + 1, slot, {}, {key: (end, list(counts)) for key, (end, counts) in kept.items()})

    def add(self, kind: str, name: str, count: int) -> None:
        """Count into the slot that fills; a flow may take back what another flow claims (negative), nothing else."""
        if count:
            key = (kind, name)
            self.filling[key] = self.filling.get(key, 0) + count

    def roll(self, now_ms: int) -> list[Key]:
        """Close the slot when its time is over; the keys whose history changed."""
        slot = now_ms // SLOT_MS
        if slot <= self.slot:
            return []
        changed = list(self._close())
        self.slot = slot
        return changed

    def row(self, broker: str, key: Key) -> RateHistory:
        """The row of one key."""
        slot, counts = self.whole[key]
        return RateHistory(broker_id=broker, kind=key[0], name=key[1], slot=slot, counts=counts)

    def forget(self, kind: str, name: str) -> None:
        """A topic or group is gone."""
        self.filling.pop((kind, name), None)
        self.whole.pop((kind, name), None)

    def _close(self) -> Iterator[Key]:
        filling, self.filling = self.filling, {}
        if self.slot < self.since_slot:
            return
        for key, count in filling.items():
            counts = aligned(*self.whole.get(key, (self.slot, [])), until=self.slot, since=self.since_slot)
            self.whole[key] = (self.slot, [*counts[-(SLOTS - 1) :], max(0, count)])
            yield key


def aligned(slot: int, counts: Sequence[int | None], *, until: int, since: int) -> list[int | None]:
    """`counts` that end with `slot`, continued up to but without `until`: 0 where it was watched, None before `since`.

    >>> aligned(10, [7], until=14, since=12)
    [7, None, 0, 0]
    """
    missing = range(max(slot + 1, until - SLOTS), until)
    joined = counts if missing.start == slot + 1 else ()
    return [*joined, *(0 if number >= since else None for number in missing)]
