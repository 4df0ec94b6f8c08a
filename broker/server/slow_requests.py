"""The log of slow requests: a line for a request whose answer took longer than a limit, with what it waited for.

Known are three things that keep an answer back: requests of the same read that came before it, its own handler, and
what it has to wait for afterwards, which is the disk, or another client that was asked. Requests that a broker holds
until there is something to tell are not slow when they waited for that. Bodies and properties are not told.

Where nothing is slow this costs one comparison a request; for sends of one message, one for each moment of a sync. When
everything is slow a few lines a second are written, each with how many were left out.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

from ..engine.log.ticket import Ticket
from ..log_lines import Allowance
from ..rocketmq.codes import Request

logger = logging.getLogger(__name__)

#: The limit of what is told by default.
SLOW_MS = 1_000
#: Lines that may come at once, and how many a second from then on.
BURST, STEADY_PER_S = 20.0, 1.0
_MOST_TOPICS = 3
_ASKS_A_CLIENT = frozenset(
    (Request.GET_CONSUMER_RUNNING_INFO, Request.CONSUME_MESSAGE_DIRECTLY, Request.INVOKE_BROKER_TO_GET_CONSUMER_STATUS)
)
_NEVER = 1 << 62


class Peer(Protocol):
    """The connection that a request came by."""

    address: str
    user: str
    begun_ms: int
    """When the last request of it that went the long way came to its turn."""


class SlowRequests:
    """Tells the log of answers that took `limit_ms` or longer; 0: of none. `sync_ms` says how long the last write to
    the disk took."""

    def __init__(
        self,
        limit_ms: int = SLOW_MS,
        sync_ms: Callable[[], int] = lambda: 0,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limit_ms = limit_ms or _NEVER
        """What takes as long is to be told of."""
        self._sync_ms = sync_ms
        self._allowance = Allowance(BURST, STEADY_PER_S, clock)

    def answered(
        self, asked: int, names: tuple[str, str], now_ms: int, took_ms: int, peer: Peer, *, is_later: bool
    ) -> None:
        """Tell of an answer that leaves now, `is_later` than its handler; `names`: of the request and of the answer."""
        if not self._allowance.take():
            return
        before_ms = 0
        if is_later:
            waited_for = "a client" if asked in _ASKS_A_CLIENT else "the disk"
        else:
            before_ms = max(0, peer.begun_ms - (now_ms - took_ms))
            waited_for = "requests before it" if 2 * before_ms > took_ms else "its handler"
        self._tell(names[0], took_ms, waited_for, peer, answer=names[1], before_ms=before_ms)

    def sent(self, tickets: Sequence[Ticket], taken_ms: int, now_ms: int) -> None:
        """Tell of sends that were taken at one moment and are durable now; one line for all of them."""
        if not self._allowance.take():
            return
        slow = [ticket for ticket in tickets if ticket.store_ms == taken_ms and type(ticket.owner) is tuple]
        topics = dict.fromkeys(ticket.topic for ticket in slow)
        shown = ", ".join([*list(topics)[:_MOST_TOPICS], *(["..."] if len(topics) > _MOST_TOPICS else [])])
        peer: Peer | None = cast(Any, slow[0].owner)[0] if slow else None
        self._tell("send_message", now_ms - taken_ms, "the disk", peer, topics=shown, sends=len(slow))

    def _tell(self, request: str, took_ms: int, waited_for: str, peer: Peer | None, **told: str | int) -> None:
        if waited_for == "the disk":
            told["last_sync_ms"] = self._sync_ms()
        if peer is not None:
            told |= {"peer": peer.address, "user": peer.user} if peer.user else {"peer": peer.address}
        if left_out := self._allowance.left_out():
            told["left_out"] = left_out
        extra = {"request": request, "took_ms": took_ms, "waited_for": waited_for, **told}
        logger.warning("a request was slow", extra=extra)
