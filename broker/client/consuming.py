"""The asynchronous consumer: the one implementation of consuming in a group. It belongs to one event loop."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Literal, Unpack, cast

from ..engine.message import Message
from . import names
from .credentials import Access
from .errors import ClientError, InvalidArgument
from .membership import Membership
from .reader import PAUSE_AFTER_ERROR_S, QueueReader, as_delivered
from .session import Session
from .subscription import ALL, Subscription, subscription
from .types import MessageQueue

logger = logging.getLogger(__name__)

Handler = Callable[[Message], object]
"""Returns (or, if it is a coroutine function, completes) when the message is done; raises to get it again later."""

COMMIT_S = 5.0
DEFAULT_HANDLERS = 8
MAX_RECONSUME_TIMES = 16


class AsyncConsumer:
    """A member of a consumer group (clustering): its share of the queues, each message acknowledged by returning.

    `from_where` counts for queues in which the group has no offset and whose first message the broker no longer has:
    "last" skips what is there. While it has the first one, brokers let a new group begin there, as RocketMQ does.
    """

    def __init__(
        self, group: str, namesrv: str = "127.0.0.1:9876", *, from_where: Literal["first", "last"] = "last",
        handlers: int = DEFAULT_HANDLERS, **access: Unpack[Access],
    ) -> None:  # fmt: skip
        names.check_group(group)
        if from_where not in ("first", "last"):
            raise InvalidArgument(f"from_where {from_where!r} is not valid: 'first' or 'last'.", field="from_where")
        self.group = group
        self._from_first = from_where == "first"
        self._handler_count = handlers
        self._session = Session(namesrv, **access)
        self._membership = Membership(self._session, group, self._take_share, from_first=self._from_first)
        self._wanted: dict[str, tuple[Subscription, Handler]] = {}
        self._readers: dict[MessageQueue, QueueReader] = {}
        self._work: asyncio.Queue[tuple[QueueReader, Message] | None] = asyncio.Queue()
        self._committing: asyncio.Task[None] | None = None
        self._workers: list[asyncio.Task[None]] = []
        self._threads: ThreadPoolExecutor | None = None
        self._stopping = False

    @property
    def client_id(self) -> str:
        """This member's name in its group."""
        return self._membership.client_id

    @property
    def queues(self) -> tuple[MessageQueue, ...]:
        """The queues this member reads now."""
        return tuple(self._readers)

    def subscribe(self, topic: str, expression: str, handler: Handler) -> None:
        """Have `handler` called for the messages of `topic` with one of the tags; before start."""
        self._wanted[topic] = (subscription(topic, expression), handler)

    async def start(self) -> None:
        """Join the group and begin; returns after the first share of queues is known, if brokers can be reached."""
        if not self._wanted:
            raise InvalidArgument("Nothing is subscribed; call subscribe before start.", field="topic")
        self._threads = ThreadPoolExecutor(self._handler_count, thread_name_prefix=f"handler-{self.group}")
        retry = f"%RETRY%{self.group}"
        self._membership.subscribe([*(wanted for wanted, _ in self._wanted.values()), subscription(retry, ALL)])
        loop = asyncio.get_running_loop()
        self._workers = [loop.create_task(self._handle_all()) for _ in range(self._handler_count)]
        await self._membership.join()
        self._committing = loop.create_task(self._commit_all())

    async def _take_share(self, wanted: Subscription, share: set[MessageQueue]) -> bool:
        held = {queue for queue in self._readers if queue.topic == wanted.topic}
        for queue in held - share:
            await self._release(self._readers.pop(queue))
        for queue in sorted(share - held, key=lambda queue: (queue.broker, queue.queue_id)):
            reader = QueueReader(self._session, self.group, queue, wanted, self._deliver)
            self._readers[queue] = reader
            reader.start(from_first=self._from_first)
        return True

    async def _release(self, reader: QueueReader) -> None:
        await reader.stop()
        try:
            await reader.commit(confirmed=True)
        except ClientError as error:
            logger.warning("offset of %s for %s not committed: %s", reader.queue, self.group, error)

    def _deliver(self, reader: QueueReader, message: Message) -> None:
        self._work.put_nowait((reader, message))

    async def _handle_all(self) -> None:
        while (work := await self._work.get()) is not None:
            reader, message = work
            if not reader.dropped:
                await self._handle(reader, message)

    async def _handle(self, reader: QueueReader, message: Message) -> None:
        seen = as_delivered(message)
        wanted = self._wanted.get(seen.topic)
        if wanted is None:
            logger.warning("a message of %s came again for %s, which no longer subscribes it", seen.topic, self.group)
            reader.done(message)
            return
        try:
            await self._call(wanted[1], seen)
        except Exception:  # a handler may raise anything; that is its way to ask for another attempt
            logger.exception("handler of %s failed for %s; it comes again", seen.topic, message.unique_key)
            if not await self._send_back(reader, message):
                return
        reader.done(message)

    async def _call(self, handler: Handler, message: Message) -> None:
        if inspect.iscoroutinefunction(handler):
            await cast(Awaitable[object], handler(message))
        else:
            await asyncio.get_running_loop().run_in_executor(self._threads, handler, message)

    async def _send_back(self, reader: QueueReader, message: Message) -> bool:
        """True when the broker took it back; False when we stop first: then the offset stays and it comes again."""
        while not self._stopping and not reader.dropped:
            try:
                await reader.send_back(message, MAX_RECONSUME_TIMES)
                return True
            except ClientError as error:
                logger.warning("send-back of %s failed, trying again: %s", message.unique_key, error)
                await asyncio.sleep(PAUSE_AFTER_ERROR_S)
        return False

    async def _commit_all(self) -> None:
        while not self._stopping:
            await asyncio.sleep(COMMIT_S)
            await self._commit(confirmed=False)

    async def _commit(self, *, confirmed: bool) -> None:
        for reader in list(self._readers.values()):
            try:
                await reader.commit(confirmed=confirmed)
            except ClientError as error:
                logger.info("offset of %s for %s not committed: %s", reader.queue, self.group, error)

    async def stop(self, drain_timeout_s: float = 10.0) -> None:
        """Pull no more, let handlers that have begun finish, commit, leave the group; idempotent."""
        if self._stopping:
            return
        self._stopping = True
        await self._membership.rest()
        if self._committing is not None:
            self._committing.cancel()
            await asyncio.gather(self._committing, return_exceptions=True)
        await asyncio.gather(*(reader.stop() for reader in self._readers.values()))
        await self._drain(drain_timeout_s)
        await self._commit(confirmed=True)
        await self._membership.leave()
        await self._session.close()
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def _drain(self, timeout_s: float) -> None:
        for _ in self._workers:
            self._work.put_nowait(None)
        if self._workers:
            _, late = await asyncio.wait(self._workers, timeout=timeout_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
