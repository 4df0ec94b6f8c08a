"""How large messages are that come in, and how long their senders wait for an answer.

On a message's way there is one `list.append`; the rest is done for all messages of a sync at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ..engine.histogram import LATENCY_BOUNDS_MS, Histogram
from ..engine.log.ticket import Ticket

#: Those of RocketMQ (1 and 4 KiB, 512 KiB, 1, 2 and 4 MiB; BrokerMetricsManager 5.5.0), and some between them.
SIZE_BOUNDS_BYTES = (
    128, 256, 512, 1024, 2048, 4096, 16_384, 65_536, 262_144, 524_288, 1_048_576, 2_097_152, 4_194_304,
)  # fmt: skip


class Sends:
    """Two histograms since the start: bytes of records, and ms from being taken to being durable and answered."""

    def __init__(self) -> None:
        self._sizes = Histogram(SIZE_BOUNDS_BYTES)
        self._taken: list[int] = []
        self.latencies = Histogram(LATENCY_BOUNDS_MS)
        #: to be called with the bytes of each record that is taken
        self.took = self._taken.append
        #: to be called with the bytes of all records of a batch
        self.took_all = self._taken.extend

    @property
    def sizes(self) -> Histogram:
        """Of all that was taken by now."""
        self._count_sizes()
        return self._sizes

    def stored(self, tickets: Sequence[Ticket], now_ms: int) -> None:
        """These are durable: who waits for one message of theirs is answered now. Batches are not looked at."""
        self._count_sizes()
        if len(tickets) == 1:  # mostly so, unless the broker is busy
            if type(tickets[0].owner) is tuple:
                self.latencies.add(max(0, now_ms - tickets[0].store_ms))
            return
        taken = Counter([ticket.store_ms for ticket in tickets if type(ticket.owner) is tuple])
        for taken_ms, count in taken.items():
            self.latencies.add(max(0, now_ms - taken_ms), count)

    def _count_sizes(self) -> None:
        if len(self._taken) == 1:
            self._sizes.add(self._taken[0])
        else:
            for size_bytes, count in Counter(self._taken).items():
                self._sizes.add(size_bytes, count)
        self._taken.clear()
