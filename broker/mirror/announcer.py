"""Tells open pages that the mirror has moved: one small event to the Channels layer, at most ten in a second.

Its own thread and event loop: a slow or lost Valkey holds up nobody, what it missed is told with the next event.

Each event has a number, and pages that show a larger one take a smaller one for old news. The mirrors of several
brokers tell the same pages, out of one process or several, so the number is no broker's sequence: it is the time of the
announcement, or one more than the last.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Iterable

from channels.layers import get_channel_layer

logger = logging.getLogger(__name__)

#: the Channels group that pages join, and the type of the event
GROUP = "mirror"
EVENT = "mirror.changed"
#: events closer together than this are merged
SPACING_S = 0.1
#: a layer that takes longer is treated as lost
SEND_TIMEOUT_S = 2.0


def now_us() -> int:
    """Return the real time in epoch us."""
    return time.time_ns() // 1_000


class Announcer:
    """Tells pages that rows changed: `announce` from any thread; `close` sends what is left and ends."""

    def __init__(self, spacing_s: float = SPACING_S) -> None:
        self._spacing_s = spacing_s
        self._guard = threading.Lock()
        self._kinds: set[str] = set()
        self._sequence = 0
        self._closing = False
        self._lost = False
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._wake = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="mirror-announcer", daemon=True)
        self._thread.start()
        self._ready.wait()

    def announce(self, sequence: int, kinds: Iterable[str]) -> None:
        """Tell that these kinds of rows have changed; call when their transaction is over.

        `sequence`: the event's number, `now_us()` of a mirror; one that is not larger than the last is made so.
        """
        with self._guard:
            self._kinds.update(kinds)
            self._sequence = max(self._sequence + 1, sequence)
        self._loop.call_soon_threadsafe(self._wake.set)

    def close(self) -> None:
        """Send what is pending and end the thread; twice is fine."""
        if self._thread.is_alive():
            self._closing = True
            self._loop.call_soon_threadsafe(self._wake.set)
            self._thread.join(SEND_TIMEOUT_S * 2)

    def _run(self) -> None:
        with contextlib.closing(self._loop):
            self._loop.run_until_complete(self._tell())

    async def _tell(self) -> None:
        self._ready.set()
        while not self._closing:
            await self._wake.wait()
            self._wake.clear()
            sent = await self._send()
            if not self._closing:
                await asyncio.sleep(self._spacing_s if sent else self._spacing_s * 4)
        await self._send()
        layer = get_channel_layer()
        if layer is not None and hasattr(layer, "close_pools"):
            with contextlib.suppress(Exception):
                await asyncio.wait_for(layer.close_pools(), SEND_TIMEOUT_S)

    async def _send(self) -> bool:
        with self._guard:
            kinds, sequence = set(self._kinds), self._sequence
        if not kinds:
            return True
        event = {"type": EVENT, "sequence": sequence, "kinds": sorted(kinds)}
        try:
            layer = get_channel_layer()
            if layer is not None:
                await asyncio.wait_for(layer.group_send(GROUP, event), SEND_TIMEOUT_S)
        except Exception as error:
            self._note_lost(error)
            return False
        with self._guard:
            if self._sequence == sequence:
                self._kinds.clear()
        self._note_found()
        return True

    def _note_lost(self, error: Exception) -> None:
        if not self._lost:
            self._lost = True
            logger.warning("The Channels layer is lost, pages do not change in place until it is back: %s", error)
        # asked again by the next announcement; the mirror makes some in each second while anything moves

    def _note_found(self) -> None:
        if self._lost:
            self._lost = False
            logger.info("The Channels layer is back")
