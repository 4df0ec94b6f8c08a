"""One listener a process to the mirror's announcements, which wake the sockets. Sockets outlive a lost layer."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any

from channels.layers import get_channel_layer

from broker.mirror.announcer import GROUP

logger = logging.getLogger(__name__)

#: pause after the layer was lost
RETRY_S = 1.0
#: patience with a layer that does not let go
LEAVE_S = 1.0
#: the layer forgets members of a group after a day (channels-redis' group_expiry): join again in time
REJOIN_S = 3_600.0

#: called in the event loop with the sequence and the kinds that changed
Listener = Callable[[int, frozenset[str]], None]


class Announcements:
    """`join` and `leave` from the event loop; listens while anybody has joined."""

    def __init__(self) -> None:
        self._listeners: set[Listener] = set()
        self._task: asyncio.Task[None] | None = None
        #: the last sequence heard
        self.sequence = 0

    def __len__(self) -> int:
        return len(self._listeners)

    def join(self, listener: Listener) -> None:
        """Call `listener` with each announcement from now on."""
        self._listeners.add(listener)
        loop = asyncio.get_running_loop()
        if self._task is None or self._task.done() or self._task.get_loop() is not loop:
            self._task = loop.create_task(self._listen())

    async def leave(self, listener: Listener) -> None:
        """End the calls; the last one to leave ends the listening."""
        self._listeners.discard(listener)
        if not self._listeners and self._task is not None:
            task, self._task = self._task, None
            task.cancel()
            await asyncio.wait([task], timeout=LEAVE_S)

    async def _listen(self) -> None:
        is_lost = False
        # the client of the layer may turn a cancellation into an error of its own
        while self._listeners:
            try:
                await self._follow()
            except Exception as error:  # whatever the client of the layer raises, sockets live on
                if not self._listeners:
                    return
                if not is_lost:
                    logger.warning("The Channels layer is lost, open pages are read every few seconds: %s", error)
                is_lost = True
                await asyncio.sleep(RETRY_S)
            else:
                is_lost = False

    async def _follow(self) -> None:
        """Listen for REJOIN_S seconds. Raises what the layer raises."""
        layer = get_channel_layer()
        if layer is None:
            await asyncio.sleep(REJOIN_S)
            return
        channel = await layer.new_channel("live")
        await layer.group_add(GROUP, channel)
        try:
            async with asyncio.timeout(REJOIN_S):
                while True:
                    self._tell(await layer.receive(channel))
        except TimeoutError:
            return
        finally:
            with contextlib.suppress(Exception):
                await layer.group_discard(GROUP, channel)

    def _tell(self, event: dict[str, Any]) -> None:
        self.sequence = int(event["sequence"])
        kinds = frozenset(event["kinds"])
        for listener in tuple(self._listeners):
            listener(self.sequence, kinds)


announcements = Announcements()
