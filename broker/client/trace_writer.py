"""Sending what is told of messages to the trace topic: in the background, many at a time, and never at any price.

What cannot be sent is dropped and counted; sends and handlers do not wait for it and do not fail with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

from ..rocketmq.traces import TRACE_TOPIC
from .errors import ClientError, InvalidArgument
from .names import MAX_GROUP_CHARACTERS, check_writable_topic
from .outgoing import Outgoing, prepare
from .types import SendResult

logger = logging.getLogger(__name__)

#: How long a line waits for others (AsyncTraceDispatcher's pollingTimeMil), and how many go in one message.
LINGER_S = 0.1
MOST_LINES = 100
#: Limits of one message: its body (maxMsgSize is 128,000), and its keys, which stand in its properties.
MOST_BODY_CHARACTERS = 60_000
MOST_KEY_CHARACTERS = 16_000
#: Messages that are sent at the same time: where sends take long, one after the other would not keep up.
MOST_UNDER_WAY = 16
#: Lines that wait at most (queueSize of 5.5.0).
MOST_WAITING = 2048
SEND_TIMEOUT_MS = 5_000
CLOSE_WAIT_S = 3.0


class TraceSender(Protocol):
    """What a producer does for traces."""

    async def send_prepared(self, topic: str, message: Outgoing, *, timeout_ms: int) -> SendResult:
        """Send one message."""

    async def close(self) -> None:
        """End the connections."""


def trace_topic(wanted: bool | str) -> str | None:
    """Where to tell: True is RocketMQ's own topic, a text another one, False nowhere; raises InvalidArgument."""
    if isinstance(wanted, str):
        check_writable_topic(wanted)
        return wanted
    if not isinstance(wanted, bool):
        raise InvalidArgument(f"trace is {wanted!r}; give True, False or the name of a topic.", field="trace")
    return TRACE_TOPIC if wanted else None


def trace_group(group: str) -> str:
    """The producer group in whose name traces of `group` are sent (as the official client's)."""
    return f"_INNER_TRACE_PRODUCER-{group}"[:MAX_GROUP_CHARACTERS]


class TraceWriter:
    """What one client tells; `make` gives the producer that sends it, which traces nothing."""

    def __init__(self, topic: str, make: Callable[[], TraceSender]) -> None:
        self.topic = topic
        self.dropped = 0
        self._make = make
        self._sender: TraceSender | None = None
        self._waiting: deque[tuple[str, tuple[str, ...]]] = deque()
        self._arrived = asyncio.Event()
        self._is_enough = asyncio.Event()
        self._free = asyncio.Semaphore(MOST_UNDER_WAY)
        self._under_way: set[asyncio.Future[None]] = set()
        self._task: asyncio.Task[None] | None = None
        self._closing = False
        self._failing = False

    def put(self, line: str, keys: tuple[str, ...]) -> None:
        """Have a line sent, to be found by these keys; dropped when too many wait."""
        if self._closing or len(self._waiting) >= MOST_WAITING:
            self.dropped += 1
            return
        self._waiting.append((line, keys))
        self._arrived.set()
        if len(self._waiting) >= MOST_LINES:
            self._is_enough.set()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        self._sender = self._make()
        while self._waiting or not self._closing:
            await self._arrived.wait()
            try:
                async with asyncio.timeout(LINGER_S):
                    await self._is_enough.wait()
            except TimeoutError:
                pass
            while self._waiting:
                await self._free.acquire()
                sending = asyncio.ensure_future(self._send(self._sender, *self._next()))
                self._under_way.add(sending)
                sending.add_done_callback(self._sent)
            if not self._closing:
                self._arrived.clear()
                self._is_enough.clear()
        if self._under_way:
            await asyncio.wait(self._under_way)

    def _sent(self, sending: asyncio.Future[None]) -> None:
        self._under_way.discard(sending)
        self._free.release()

    def _next(self) -> tuple[str, list[str], int]:
        """Body, keys and number of lines of the next message."""
        lines: list[str] = []
        keys: dict[str, None] = {}
        characters = key_characters = 0
        while self._waiting and len(lines) < MOST_LINES:
            line, named = self._waiting[0]
            new = [key for key in named if key not in keys]
            characters += len(line)
            for key in new:
                key_characters += len(key) + 1
            if lines and (characters > MOST_BODY_CHARACTERS or key_characters > MOST_KEY_CHARACTERS):
                break
            lines.append(line)
            keys.update(dict.fromkeys(new))
            self._waiting.popleft()
        return "".join(lines), _words(keys), len(lines)

    async def _send(self, sender: TraceSender, body: str, keys: list[str], count: int) -> None:
        try:
            # what others have sent may hold halves of characters
            message = prepare(body.encode(errors="replace"), keys=keys)
            await sender.send_prepared(self.topic, message, timeout_ms=SEND_TIMEOUT_MS)
            self._failing = False
        except ClientError as error:
            self.dropped += count
            # said once for each outage
            logger.log(logging.DEBUG if self._failing else logging.WARNING, "traces are dropped: %s", error)
            self._failing = True

    async def close(self) -> None:
        """Send what waits, if that is a matter of seconds; idempotent."""
        self._closing = True
        task, self._task = self._task, None
        if task is None:
            return
        self._arrived.set()
        self._is_enough.set()
        await asyncio.wait([task], timeout=CLOSE_WAIT_S)
        late = [task, *self._under_way]
        for each in late:
            each.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        if self._sender is not None:
            await self._sender.close()


def _words(keys: Iterable[str]) -> list[str]:
    """Keys that a message can have; those of other clients' messages may be anything."""
    words = [key if key.isascii() else key.encode(errors="replace").decode() for key in keys]
    return [word for word in words if word and word.split() == [word]]
