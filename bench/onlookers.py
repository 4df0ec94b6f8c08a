"""Open consoles without a browser: websockets that speak what the pages speak, and how soon one shows a change."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from types import TracebackType

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from bench.send import processor_s
from broker.client import AsyncProducer

TIMEOUT_S = 30


@dataclass(slots=True)
class Onlookers:
    """Sockets of one session on some pages, and what they received."""

    base: str
    session: str
    pages: Sequence[str]
    frames: int = 0
    letters: int = 0
    #: sockets that the other side ended
    lost: int = 0
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    _reading: list[asyncio.Task[None]] = field(default_factory=list)

    async def __aenter__(self) -> Onlookers:
        for page in self.pages:
            socket = await self._stack.enter_async_context(opened(self.base, self.session, page))
            self._reading.append(asyncio.create_task(self._read(socket)))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._reading:
            task.cancel()
        await asyncio.gather(*self._reading, return_exceptions=True)
        await self._stack.aclose()

    async def _read(self, socket: ClientConnection) -> None:
        try:
            async for frame in socket:
                self.frames += 1
                self.letters += len(frame)
        except ConnectionClosed:
            pass
        self.lost += 1


def opened(base: str, session: str, page: str) -> connect:
    """The socket of a page, to be entered."""
    return connect(
        f"{base.replace('http', 'ws', 1)}/ws/live/{page}", origin=base, max_size=None, open_timeout=TIMEOUT_S,
        additional_headers={"Cookie": f"sessionid={session}"},
    )  # fmt: skip


async def shown_after_ms(base: str, session: str, namesrv: str, topic: str, count: int) -> list[float]:
    """From the call of a send to the frame of the topic's tail that has its body, ms, sorted."""
    taken: list[float] = []
    chance = random.Random(7)
    async with AsyncProducer("changes", namesrv) as producer, opened(base, session, f"tail/{topic}") as socket:
        await asyncio.wait_for(socket.recv(), TIMEOUT_S)
        for number in range(count):
            await asyncio.sleep(0.5 + chance.random())
            # never one of a round before: the tail still shows those
            mark = f"change-{number:04}-{time.time_ns()}"
            begin_s = time.monotonic()
            await producer.send(topic, mark.encode())
            while mark not in str(await asyncio.wait_for(socket.recv(), TIMEOUT_S)):
                pass
            taken.append((time.monotonic() - begin_s) * 1_000)
    return sorted(taken)


@dataclass(slots=True)
class Share:
    """Part of a core that a process took, in percent; set when the block ends."""

    percent: float = 0


@contextmanager
def busy(pid: int) -> Iterator[Share]:
    """How busy a process is while the block runs."""
    share, begin_s, used_s = Share(), time.monotonic(), processor_s(pid)
    yield share
    share.percent = (processor_s(pid) - used_s) / (time.monotonic() - begin_s) * 100
