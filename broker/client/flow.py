"""How messages get from readers to handlers: here in any order; orderly.py has the other way."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Collection
from weakref import WeakSet

from ..rocketmq.message import Message
from .errors import ClientError
from .handler_calls import Handlers
from .reader import PAUSE_AFTER_ERROR_S, QueueReader
from .types import MessageQueue

logger = logging.getLogger(__name__)


class Flow(ABC):
    """What a push consumer asks of either way."""

    @abstractmethod
    def start(self) -> None:
        """Begin to call handlers."""

    @abstractmethod
    async def acquire(self, queues: Collection[MessageQueue]) -> set[MessageQueue]:
        """Those of the queues that may be read from now on."""

    @abstractmethod
    def deliver(self, reader: QueueReader, message: Message) -> None:
        """A message was read."""

    @abstractmethod
    async def let_go(self, reader: QueueReader) -> None:
        """The reader's queue belongs to another member: stop it, and commit how far it is."""

    def may_commit(self, queue: MessageQueue) -> bool:
        """Whether what this member knows of the queue counts."""
        return True

    def locked_ms(self, queue: MessageQueue) -> int | None:
        """When the queue's lock was renewed (epoch); None where it has none."""
        return None

    @abstractmethod
    async def drain(self, timeout_s: float) -> None:
        """Let handlers that have begun finish, and begin no more; all readers have stopped."""

    @abstractmethod
    async def close(self) -> None:
        """All is committed: give back what is still held."""


class UnorderedFlow(Flow):
    """As many messages at once as there are handlers; one that failed is sent back to the broker."""

    def __init__(self, handlers: Handlers, most_reconsume_times: int) -> None:
        self._handlers = handlers
        self._most_times = most_reconsume_times
        self._work: asyncio.Queue[tuple[QueueReader, Message] | None] = asyncio.Queue()
        self._workers: list[asyncio.Task[None]] = []
        self._stopping = False
        self._given_away: WeakSet[QueueReader] = WeakSet()

    def start(self) -> None:
        """Begin to call handlers."""
        loop = asyncio.get_running_loop()
        self._workers = [loop.create_task(self._handle_all()) for _ in range(self._handlers.count)]

    async def acquire(self, queues: Collection[MessageQueue]) -> set[MessageQueue]:
        """All of them."""
        return set(queues)

    def deliver(self, reader: QueueReader, message: Message) -> None:
        """For whichever handler is free first."""
        self._work.put_nowait((reader, message))

    async def _handle_all(self) -> None:
        while (work := await self._work.get()) is not None:
            reader, message = work
            if reader.dropped:
                continue
            is_last = message.reconsume_times >= self._most_times
            if await self._handlers.handle(message, is_last=is_last) or await self._send_back(reader, message):
                reader.done(message)

    async def _send_back(self, reader: QueueReader, message: Message) -> bool:
        """True when the broker took it back; False when it does not before we stop, or another member has the queue:
        then the offset stays, and it comes again with all behind it."""
        while reader not in self._given_away:
            is_last_try = self._stopping
            try:
                await reader.send_back(message, self._most_times)
                return True
            except ClientError as error:
                if is_last_try:
                    logger.warning(
                        "%s could not be sent back, it is left to be read again: %s", message.unique_key, error
                    )
                    return False
                logger.warning("send-back of %s failed, trying again: %s", message.unique_key, error)
                await asyncio.sleep(PAUSE_AFTER_ERROR_S)
        return False

    async def let_go(self, reader: QueueReader) -> None:
        """Handlers at work go on; what they do is not committed any more."""
        self._given_away.add(reader)
        await reader.stop()
        try:
            await reader.commit(confirmed=True)
        except ClientError as error:
            logger.warning("offset of %s not committed: %s", reader.queue, error)

    async def drain(self, timeout_s: float) -> None:
        """Let handlers that have begun finish."""
        self._stopping = True
        for _ in self._workers:
            self._work.put_nowait(None)
        if self._workers:
            _, late = await asyncio.wait(self._workers, timeout=timeout_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def close(self) -> None:
        """Nothing is held."""
