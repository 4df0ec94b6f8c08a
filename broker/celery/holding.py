"""The messages that one channel holds: kept while they are worked on, acknowledged or given back when that is over.

All of it belongs to the client's event loop. What is held is extended at a third of its time, whatever the program's
own threads do meanwhile. Acknowledgements of one moment share a request, and are repeated while the broker is away;
who is not heard in time has the message again, as after a crash.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from itertools import islice
from typing import Any

from ..client import AsyncSimpleConsumer, ClientClosed, ClientError, NotHeld, Receipt, Received
from ..rocketmq.properties import KEYS

logger = logging.getLogger(__name__)

#: Messages extended, or given back, at the same time.
_AT_ONCE = 64
_PAUSE_S = 0.5
#: The parts of its time after each of which a message is extended.
_EXTENSIONS = 3


class Held:
    """A message that is this channel's. `changing` is set while its receipt is being changed."""

    __slots__ = ("changing", "is_lost", "is_over", "name", "receipt")

    def __init__(self, received: Received) -> None:
        self.receipt: Receipt = received.receipt
        self.name = received.message.properties.get(KEYS, "")
        self.is_lost = False
        #: acknowledged or given back: nothing more is to be done to keep it
        self.is_over = False
        self.changing: asyncio.Future[None] | None = None


class Holding:
    """Keeps, acknowledges and gives back; `freed` is called whenever there is one less."""

    def __init__(self, consumer: AsyncSimpleConsumer, invisible_ms: int, freed: Callable[[], None]) -> None:
        self._consumer = consumer
        self._invisible_ms = invisible_ms
        self._freed = freed
        self._held: dict[str, Held] = {}
        self._done: list[Held] = []
        self._is_wanted = asyncio.Event()
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        self._tasks: list[asyncio.Task[None]] = []
        self._is_away = False

    def __len__(self) -> int:
        return len(self._held)

    def start(self) -> None:
        """Begin to extend and to acknowledge; once more is nothing."""
        if not self._tasks:
            loop = asyncio.get_running_loop()
            self._tasks = [loop.create_task(self._extends()), loop.create_task(self._acknowledges())]

    def add(self, tag: str, received: Received) -> None:
        """Hold a message under this name."""
        self._held[tag] = Held(received)

    def done(self, tag: str) -> None:
        """Acknowledge a message soon."""
        held = self._held.pop(tag, None)
        if held is None:
            return
        held.is_over = True
        self._done.append(held)
        self._is_idle.clear()
        self._is_wanted.set()
        self._freed()

    async def give_back(self, tags: Iterable[str]) -> None:
        """Have messages handed out again at once, to whoever asks."""
        held = [each for tag in tags if (each := self._held.pop(tag, None)) is not None]
        self._freed()
        await _in_portions(self._return(each) for each in held)

    async def give_back_received(self, received: Iterable[Received]) -> None:
        """The same for what was received and not even held."""
        await _in_portions(self._return(Held(each)) for each in received)

    async def close(self, timeout_s: float) -> None:
        """Acknowledge what is done, give back all else, and end."""
        if not self._tasks:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._is_idle.wait()
                await self.give_back(list(self._held))
        self._held.clear()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    async def _return(self, held: Held) -> None:
        held.is_over = True
        if held.changing is not None:
            await held.changing
        if held.is_lost:
            return
        try:
            await self._consumer.nack(held.receipt, 0)
        except ClientError as error:
            logger.info("%s could not be returned, it is redelivered after its invisible time: %s", held.name, error)

    # keeping

    async def _extends(self) -> None:
        while True:
            await asyncio.sleep(self._invisible_ms / 1000 / _EXTENSIONS)
            await _in_portions(self._extend(each) for each in list(self._held.values()) if not each.is_lost)

    async def _extend(self, held: Held) -> None:
        loop = asyncio.get_running_loop()
        if held.changing is not None or held.is_over:
            return
        held.changing = loop.create_future()
        until_s = loop.time() + self._invisible_ms / 1000 * (_EXTENSIONS - 1) / _EXTENSIONS
        try:
            while not held.is_lost:
                try:
                    held.receipt = await self._consumer.extend(held.receipt, self._invisible_ms)
                    return
                except NotHeld:
                    held.is_lost = True
                    logger.warning("task %s was not extended in time and was redelivered to another worker", held.name)
                except ClientClosed:
                    return
                except ClientError as error:
                    if loop.time() >= until_s:
                        return
                    logger.debug("task %s is not extended yet: %s", held.name, error)
                    await asyncio.sleep(_PAUSE_S)
        finally:
            held.changing.set_result(None)
            held.changing = None

    # acknowledging

    async def _acknowledges(self) -> None:
        while True:
            await self._is_wanted.wait()
            self._is_wanted.clear()
            while self._done:
                portion, self._done = self._done, []
                await self._acknowledge(portion)
            self._is_idle.set()

    async def _acknowledge(self, done: list[Held]) -> None:
        loop = asyncio.get_running_loop()
        until_s = loop.time() + self._invisible_ms / 1000
        for held in done:
            if held.changing is not None:
                await held.changing
        while receipts := [held.receipt for held in done if not held.is_lost]:
            try:
                await self._consumer.ack(*receipts)
            except NotHeld as error:
                names = {held.receipt: held.name for held in done}
                lost = [names[each] for each in error.receipts if isinstance(each, Receipt) and each in names]
                logger.warning("acknowledged too late, and redelivered: %s", ", ".join(lost))
            except ClientClosed:
                return
            except ClientError as error:
                if loop.time() >= until_s:
                    logger.warning("%d tasks could not be acknowledged and are redelivered: %s", len(done), error)
                    return
                logger.log(logging.DEBUG if self._is_away else logging.INFO, "acknowledging: %s", error)
                self._is_away = True
                await asyncio.sleep(_PAUSE_S)
                continue
            self._is_away = False
            return


async def _in_portions(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Await coroutines, so many at a time."""
    rest = iter(work)
    while portion := list(islice(rest, _AT_ONCE)):
        await asyncio.gather(*portion)
