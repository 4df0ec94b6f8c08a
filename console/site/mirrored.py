"""The mirror's rows with their evidence: which broker, how far, how old, and the rate histories."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from broker.mirror.models import SLOT_MS, SLOTS, Broker, MirrorState, RateHistory
from broker.mirror.watch import aligned
from console.site.clock import now_ms, simulated
from console.site.evidence import Evidence, StaleReason
from console.site.history import History

#: rows older than this are not the present: ten rounds of following, and of polling
FOLLOWING_STALE_MS = 5_000
POLLING_STALE_MS = 15_000
#: the request that the mirror follows by
CHANGES_REQUEST = 14_000


@dataclass(frozen=True, slots=True)
class Mirrored:
    """The one broker that is mirrored, read once for a page. Both are None before the first round."""

    now_ms: int
    broker: Broker | None
    state: MirrorState | None

    @property
    def name(self) -> str:
        """The broker's name, empty before the first round."""
        return self.broker.name if self.broker else ""

    @property
    def as_of_ms(self) -> int | None:
        """The moment of the rows, in epoch ms."""
        return self.state.as_of_ms if self.state else None

    @property
    def polling(self) -> bool:
        """Whether the broker is asked by standard requests only."""
        return bool(self.state and self.state.polling)

    def evidence(self, *, polled_by: tuple[int, ...], exact: bool = True) -> Evidence:
        """Return the evidence of the rows' numbers; `polled_by`: the standard requests that give them on an Apache
        broker."""
        requests = polled_by if self.polling else (CHANGES_REQUEST,)
        detail = self.state.error if self.state else ""
        return Evidence(self.name or "mirror", self.as_of_ms, exact, self._reason(), requests, detail)

    def history(self, row: RateHistory | None) -> History:
        """Return the rates of the last SLOTS whole slots; without a row they are 0 as far as the mirror has watched."""
        return self._history((row.slot, row.counts) if row else None)

    def _history(self, row: tuple[int, Sequence[int | None]] | None) -> History:
        """Make a history from a row's last slot number and counts."""
        if self.state is None or self.state.as_of_ms is None or self.state.following_since_ms is None:
            return History()
        until = self.state.as_of_ms // SLOT_MS
        since = self.state.following_since_ms // SLOT_MS
        slot, counts = row or (until - SLOTS - 1, [])
        line = aligned(slot, counts, until=until, since=since)[-SLOTS:]
        per_s = [None if count is None else count * 1000 / SLOT_MS for count in line]
        return History((*(None,) * (SLOTS - len(line)), *per_s), until * SLOT_MS)

    def histories(self, kind: str, names: Iterable[str]) -> Mapping[str, History]:
        """Return the histories of one kind by name."""
        wanted = list(names)
        if self.polling and kind in ("topic", "group"):
            return dict.fromkeys(wanted, History())
        found = RateHistory.objects.filter(broker=self.name, kind=kind, name__in=wanted)
        rows = {name: (slot, counts) for name, slot, counts in found.values_list("name", "slot", "counts").order_by()}
        silent = self._history(None)
        return {name: self._history(rows[name]) if name in rows else silent for name in wanted}

    def _reason(self) -> StaleReason | None:
        if self.state is None or self.state.as_of_ms is None:
            return StaleReason.MIRROR_EMPTY
        if self.state.error:
            return StaleReason.BROKER_UNREACHABLE
        limit = POLLING_STALE_MS if self.state.polling else FOLLOWING_STALE_MS
        # how far a process is behind is real time, whatever the broker's clock does
        line = simulated()
        behind_ms = (self.now_ms - self.state.as_of_ms) / (line.speed if line is not None else 1)
        return StaleReason.MIRROR_BEHIND if behind_ms > limit else None


def mirrored() -> Mirrored:
    """Read what the mirror has now, by one query."""
    state = MirrorState.objects.select_related("broker").order_by("broker").first()
    return Mirrored(now_ms(), state.broker if state else None, state)
