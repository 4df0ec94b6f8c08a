"""Takes tasks from the broker and has them run in threads; one event loop, no thread a queue, nothing read ahead.

A task is taken only when a thread is free, the most urgent topic first; every tenth time the least urgent one, so that
it moves on. A topic that had nothing is waited at by a long poll, all at once; what such a poll brings when no thread
is free any more waits a second for one and is then given back.

A message that is taken is this worker's for `held_s`, and its row says so; both are moved on while the worker lives.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import msgspec
from django.db import Error, connections
from django.utils.crypto import get_random_string

from ..client import Admin, AsyncSimpleConsumer, ClientError, NotHeld, Receipt, Received
from .attempt import Worker, attempt, renew
from .sending import Order

logger = logging.getLogger(__name__)

POLL_MS = 2_000
#: What a poll brought while all threads were busy waits so long for one of them.
ROOM_S = 1.0
#: The least urgent topic comes first every so many times.
TURN_OF_THE_LAST = 10
MOST_AT_ONCE = 16
#: A message whose task could not be looked at comes again after so long.
AFTER_ERROR_MS = 5_000
AWAY_S, LONGEST_AWAY_S = 0.2, 5.0
TOPIC_QUEUES = 4
#: More than any task is given back or found running elsewhere; the row counts what matters.
MOST_DELIVERIES = 10_000


def prepare_topics(namesrv: str, group: str, topics: Sequence[str]) -> None:
    """Make what is not there: the topics of the queues, and the group. Raises ClientError where that is not allowed."""
    with Admin(namesrv) as admin:
        for topic in topics:
            if admin.topic_settings(topic) is None:
                admin.create_topic(topic, queues=TOPIC_QUEUES)
        if admin.group_settings(group) is None:
            admin.create_group(group, retry_max_times=MOST_DELIVERIES)


@dataclass(eq=False, slots=True)
class Lane:
    """A topic, the poll that waits at it, and whether it is left alone because its broker is away."""

    topic: str
    poll: asyncio.Task[list[Received]] | None = None
    failures: int = 0
    away_since_s: float = 0.0
    rests: bool = False


@dataclass(eq=False, slots=True)
class Run:
    """A message whose task is run."""

    receipt: Receipt
    order: Order
    token: str
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    is_over: bool = False


class Workshop:
    """Runs the tasks of these topics, the most urgent first, until it is told to stop."""

    def __init__(self, namesrv: str, worker: Worker, topics: Sequence[str], threads: int) -> None:
        self._worker = worker
        self._lanes = [Lane(topic) for topic in topics]
        self._consumer = AsyncSimpleConsumer(worker.options.group, namesrv, from_where="first")
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="task")
        self._side = ThreadPoolExecutor(1, thread_name_prefix="renewal")
        self._pools = ((self._threads, threads), (self._side, 1))
        self._free = threads
        self._held_ms = int(worker.held_s * 1000)
        self._changed = asyncio.Event()
        self._stopping = False
        self._sweeps = 0
        self._runs: dict[Run, asyncio.Task[None]] = {}
        self._waiting: list[tuple[int, Received]] = []
        self._giving_back: set[asyncio.Task[None]] = set()

    def stop(self) -> None:
        """Take no more tasks; `run` returns when those that run are done."""
        self._stopping = True
        self._changed.set()

    async def run(self, drain_s: float) -> int:
        """Run tasks until `stop`, then wait for what runs, at most `drain_s`; return how many are left behind."""
        renewing = asyncio.create_task(self._renew())
        try:
            while not self._stopping:
                self._changed.clear()
                self._take_polled()
                if not (self._free and await self._sweep()):
                    await self._changed.wait()
            return await self._drain(drain_s)
        finally:
            renewing.cancel()
            await self._consumer.close()
            if not self._runs:
                await asyncio.gather(*(asyncio.to_thread(_close, *pool) for pool in self._pools))
            for pool, _ in self._pools:
                pool.shutdown(wait=False, cancel_futures=True)

    # Taking.

    def _take_polled(self) -> None:
        """Start what polls brought, the most urgent first."""
        for urgency, lane in enumerate(self._lanes):
            if lane.poll is not None and lane.poll.done():
                for received in lane.poll.result():
                    self._waiting.append((urgency, received))
                    asyncio.get_running_loop().call_later(ROOM_S, self._give_back, received)
                lane.poll = None
        self._waiting.sort(key=lambda each: each[0])
        while self._waiting and self._free:
            self._start(self._waiting.pop(0)[1])

    async def _sweep(self) -> bool:
        """Ask topic after topic; True if one had tasks. Those that have nothing are waited at."""
        self._sweeps += 1
        turned = self._sweeps % TURN_OF_THE_LAST == 0
        for lane in reversed(self._lanes) if turned else self._lanes:
            if lane.poll is not None or lane.rests:
                continue
            if received := await self._ask(lane, min(self._free, MOST_AT_ONCE), 0):
                for each in received:
                    self._start(each)
                return True
            if not lane.rests:
                lane.poll = asyncio.create_task(self._ask(lane, 1, POLL_MS))
                lane.poll.add_done_callback(lambda _: self._changed.set())
        return False

    async def _ask(self, lane: Lane, most: int, wait_ms: int) -> list[Received]:
        """Receive from a topic; nothing where that cannot be done, and it rests."""
        try:
            received = await self._consumer.receive(
                lane.topic, max_messages=most, invisible_ms=self._held_ms, wait_ms=wait_ms
            )
        except ClientError as error:
            self._rest(lane, error)
            return []
        if lane.failures:
            away_s = time.monotonic() - lane.away_since_s
            logger.warning("tasks of %s are received again, after %.1f s", lane.topic, away_s)
            lane.failures = 0
        return received

    def _rest(self, lane: Lane, error: ClientError) -> None:
        if not lane.failures:
            lane.away_since_s = time.monotonic()
            logger.warning("no tasks of %s can be received now, retrying: %s", lane.topic, error)
        pause_s = min(AWAY_S * 2.0 ** min(lane.failures, 10), LONGEST_AWAY_S)
        lane.failures += 1
        lane.rests = True
        asyncio.get_running_loop().call_later(pause_s, self._back, lane)

    def _back(self, lane: Lane) -> None:
        lane.rests = False
        self._changed.set()

    def _give_back(self, received: Received) -> None:
        """Give a message back that found no thread in time, so that other workers have it."""
        kept = [each for each in self._waiting if each[1] is not received]
        if len(kept) == len(self._waiting):
            return
        self._waiting = kept
        task = asyncio.create_task(self._settle(received.receipt, 0))
        self._giving_back.add(task)
        task.add_done_callback(self._giving_back.discard)

    # Running.

    def _start(self, received: Received) -> None:
        self._free -= 1
        try:
            order = msgspec.json.decode(received.body, type=Order)
        except msgspec.MsgspecError as error:
            logger.error("message %s of %s is not a task and is dropped: %s", received.message.unique_key,
                         received.message.topic, error)  # fmt: skip
            order = None
        run = Run(received.receipt, order or Order("", 0, ""), get_random_string(32))
        self._runs[run] = asyncio.create_task(self._run(run, is_task=order is not None))

    async def _run(self, run: Run, *, is_task: bool) -> None:
        again_ms: int | None = None
        try:
            if is_task:
                loop = asyncio.get_running_loop()
                again_ms = await loop.run_in_executor(self._threads, attempt, run.order, run.token, self._worker)
        except Error as error:
            logger.warning("task %s is redelivered, the database cannot be reached: %s", run.order.id, error)
            again_ms = AFTER_ERROR_MS
        except Exception:
            logger.exception("task %s is redelivered, reading its row failed", run.order.id)
            again_ms = AFTER_ERROR_MS
        finally:
            async with run.lock:
                run.is_over = True
                await self._settle(run.receipt, again_ms)
            del self._runs[run]
            self._free += 1
            self._changed.set()

    async def _settle(self, receipt: Receipt, again_ms: int | None) -> None:
        """Acknowledge a message, or have it come again; if that fails it comes again, and its row knows better."""
        try:
            if again_ms is None:
                await self._consumer.ack(receipt)
            else:
                await self._consumer.nack(receipt, again_ms)
        except NotHeld:
            logger.info("a message of %s was no longer held, it is redelivered", receipt.topic)
        except ClientError as error:
            logger.warning("a message of %s is redelivered, the broker could not be told: %s", receipt.topic, error)

    async def _renew(self) -> None:
        """Say from time to time what is still run here: to the broker, and in the rows."""
        while True:
            await asyncio.sleep(self._worker.held_s / 3)
            tokens: dict[str, list[str]] = {}
            for run in list(self._runs):
                tokens.setdefault(run.order.database, []).append(run.token)
                async with run.lock:
                    if not run.is_over:
                        await self._extend(run)
            for using, mine in tokens.items():
                loop = asyncio.get_running_loop()
                try:
                    await loop.run_in_executor(self._side, renew, using, mine, self._worker.held_s)
                except Error as error:
                    logger.warning("%d running tasks are not renewed in %s: %s", len(mine), using, error)

    async def _extend(self, run: Run) -> None:
        try:
            run.receipt = await self._consumer.extend(run.receipt, self._held_ms)
        except ClientError as error:
            logger.warning("task %s may be taken by another worker while it runs: %s", run.order.id, error)

    # Stopping.

    async def _drain(self, drain_s: float) -> int:
        """Give back what came too late, wait for what runs; return how many did not end in time."""
        for lane in self._lanes:
            if lane.poll is not None:
                self._waiting += [(0, received) for received in await lane.poll]
        for _, received in self._waiting:
            await self._settle(received.receipt, 0)
        if self._giving_back:
            await asyncio.wait(list(self._giving_back))
        if self._runs:
            await asyncio.wait(list(self._runs.values()), timeout=drain_s)
        return len(self._runs)


def _close(pool: ThreadPoolExecutor, count: int) -> None:
    """Close the database connections of all threads of a pool, which has nothing to do."""
    all_there = threading.Barrier(count)

    def close() -> None:
        all_there.wait()
        connections.close_all()

    for future in [pool.submit(close) for _ in range(count)]:
        future.result()
