"""The engine's heart beat: what was appended is written and synced, answered, and what is due is released.

append ── kick ──► take_sync ──► job.run (in the loop where it is quick, else a thread) ──► synced ──► answers
                       ▲                                                              │
                       └──────────────── whatever came meanwhile ◄────────────────────┤
                                                                take_arrivals ──► long polls
tick at the ms that the engine names ──► appends what is due ──► kick

`JobThread` is one long-lived thread that runs the engine's jobs, with a lean way there and back. `AnsweredOwner` and
`BriefOwner` own tickets: they answer a request when what it asked for is durable.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from time import perf_counter
from typing import Generic, NamedTuple, Protocol, TypeVar

from ..engine.disk import NO_DESCRIPTOR
from ..engine.engine import Engine
from ..engine.log.ticket import SyncJob, Ticket
from ..engine.log.upkeep import UpkeepJob
from ..rocketmq.codes import RESPONSE_FLAG, Answer
from ..rocketmq.frame import BINARY, Command, encode
from .connection import Connection

logger = logging.getLogger(__name__)

UPKEEP_INTERVAL_MS = 200
"""How often the engine is asked whether something is to be saved or tidied; it keeps its own intervals."""

RETRY_MS = 1_000
"""A tick that failed is tried again after this time."""

LONGEST_SLEEP_MS = 1_000
"""A tick at least this often: the clock may be set forward, and what is due then must not wait for long."""


LEAST_SLEEP_S = 0.001
"""Others have their turn between two ticks, however quick the broker's clock is."""


_GC_THRESHOLDS = (50_000, 20, 50)
"""Messages under way are acyclic: the collector finds nothing among them, so it looks seldom."""

_SWITCH_INTERVAL_S = 0.0005
"""How long a thread that writes may keep the loop waiting, and the loop one that has written: 5 ms are too much where
a timer is to leave within one."""


QUICK_SYNC_S = 0.001
"""Where syncs take no longer they are made in the loop: the way to a thread and back costs as much as it could do
meanwhile."""

QUICK_BYTES = 512 << 10
"""What is larger goes to the thread however quick the disk is, and says nothing of how long others take."""

_UNKNOWN_SYNC_S, _WEIGHT_OF_ONE = 0.1, 1 / 16
"""A disk that is not known is slow, and shows in some 75 syncs that it is not; one sync that hangs sends the next ones
to the thread."""


def tune_interpreter() -> None:
    """Set this process up for one engine, once all is made that stays."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
    sys.setswitchinterval(_SWITCH_INTERVAL_S)


class Pump:
    """Drives one engine from the event loop, by the broker's clock, which runs `speed` times as fast as time."""

    def __init__(
        self,
        engine: Engine,
        clock: Callable[[], int],
        *,
        stored: Callable[[list[Ticket]], None],
        arrived: Callable[[set[tuple[str, int]]], None],
        failed: Callable[[str, list[Ticket]], None],
        is_inline: bool,
        speed: float = 1.0,
        stopwatch: Callable[[], float] = perf_counter,
    ) -> None:
        """`is_inline`: nothing is synced, so it is all done in the loop; `stopwatch`: seconds, by which syncs are quick
        or slow."""
        self._engine = engine
        self._clock = clock
        self._stored = stored
        self._arrived = arrived
        self._failed = failed
        self._is_inline = is_inline
        self._stopwatch = stopwatch
        self._per_s = 1000 * speed
        #: a clock for which the next tick would always be due already
        self._is_fast = speed > 1
        self._loop = asyncio.get_running_loop()
        self._syncs: JobThread[SyncJob] = JobThread("sync", self._loop, self._synced, stopwatch)
        self._upkeeps: JobThread[UpkeepJob] = JobThread("upkeep", self._loop, self._upkept)
        self._is_kicked = False
        self._is_syncing = False
        self._is_upkeeping = False
        self._is_stopped = False
        self._has_failed = False
        #: how often something was written
        self._batches = 0
        self._sync_began_ms = 0
        #: how long a sync takes: the mean of the last ones
        self._sync_s = _UNKNOWN_SYNC_S
        self.sync_ms = 0
        """How long the last write took, by the broker's clock."""
        self._idle = asyncio.Event()
        self._idle.set()
        self._tick_timer: asyncio.TimerHandle | None = None
        self._tick_ms = 0
        self._upkeep_timer: asyncio.TimerHandle | None = None
        self._upkeep_trouble = ""
        self._at_rest: list[Callable[[], None]] = []
        self._tick_wants = False

    @property
    def has_failed(self) -> bool:
        """Tell whether the store failed to write: then nothing is acknowledged any more."""
        return self._has_failed

    def is_writing(self) -> bool:
        """Tell whether something waits to be written, or the other thread writes it."""
        return self._is_syncing or self._is_kicked

    def at_rest(self, call: Callable[[], None]) -> None:
        """Call this when the upkeep that is under way has ended, before the next one begins."""
        self._at_rest.append(call)

    def start(self) -> None:
        """Begin to tick and to do upkeep."""
        self._tick()
        self._upkeep()

    def kick(self) -> None:
        """Note that something may have been appended; it costs nothing if that is known already."""
        if not self._is_kicked and not self._is_syncing:
            self._is_kicked = True
            self._loop.call_soon(self._next_sync)

    def hurry(self) -> None:
        """Note that something may be due at once, and that something may have been appended."""
        self._loop.call_soon(self._tick)

    async def drain(self) -> None:
        """Wait until all that was appended is durable and answered (or the store has failed)."""
        self.kick()
        while self._is_kicked or not self._idle.is_set():
            if self._is_kicked:
                self._is_kicked = False
                self._next_sync()
            await self._idle.wait()

    async def settle(self) -> int | None:
        """Tick until nothing is due by the broker's clock, and all that came of it is durable and visible; return when
        the next tick is wanted."""
        while True:
            next_ms = self._engine.tick(self._clock())
            self._tick_at(self._clock() + LONGEST_SLEEP_MS if next_ms is None else next_ms)
            count = self._batches
            await self.drain()
            is_rest = next_ms is None or next_ms > self._clock()
            # what was written may itself be something that waits: the next tick has seen it
            if self._has_failed or (is_rest and self._batches == count):
                return next_ms

    def stop(self) -> None:
        """End ticks, upkeep and threads; a job that runs is waited for, and its outcome handed to the engine."""
        self._is_stopped = True
        for timer in (self._tick_timer, self._upkeep_timer):
            if timer is not None:
                timer.cancel()
        self._syncs.stop()
        self._upkeeps.stop()

    def _next_sync(self) -> None:
        self._is_kicked = False
        if self._is_syncing or self._has_failed or self._is_stopped:
            return
        now_ms = self._clock()
        if self._tick_timer is not None and now_ms >= self._tick_ms and not self._is_fast:
            self._tick()  # what is due goes with the sync that begins now, not with the one after it
        job = self._engine.take_sync(now_ms)
        if job is None:
            self._idle.set()
            return
        self._is_syncing = True
        self._sync_began_ms = now_ms
        self._idle.clear()
        # beside a checkpoint syncs are slow
        is_quick = self._sync_s <= QUICK_SYNC_S and not self._is_upkeeping and job.size_bytes <= QUICK_BYTES
        if self._is_inline or is_quick:
            self._synced(job, run_job(job, self._stopwatch), is_inline=True)
        else:
            self._syncs.submit(job)

    def _synced(self, job: SyncJob, done: Done, *, is_inline: bool = False) -> None:
        error = done.error
        if job.size_bytes <= QUICK_BYTES:
            self._sync_s += (done.took_s - self._sync_s) * _WEIGHT_OF_ONE
        self._is_syncing = False
        self._batches += 1
        now_ms = self._clock()
        self.sync_ms = now_ms - self._sync_began_ms
        # where a thread writes, the disk is to work on while answers are written
        tickets = self._engine.synced(job, error, now_ms, self._stored if is_inline else None)
        if error is not None:
            self._fail(f"writing the log failed: {error}", [*job.tickets, *self._engine.abandoned()])
            return
        if self._has_failed:
            self._failed("the store failed while it was written", job.tickets)
            return
        if is_inline:
            self._idle.set()
            self.kick()
        else:
            self._next_sync()
            if tickets:
                self._stored(tickets)
        arrivals = self._engine.take_arrivals()
        if arrivals:
            self._arrived(arrivals)
        dues_ms = [ticket.due_ms for ticket in tickets if ticket.due_ms is not None]
        if dues_ms and (soonest_ms := min(dues_ms)) < self._tick_ms:
            self._tick_at(soonest_ms)

    def _tick(self) -> None:
        if self._is_stopped or self._has_failed:
            return
        if self._tick_timer is not None:
            self._tick_timer.cancel()
        now_ms = self._clock()
        next_ms: int | None = now_ms + RETRY_MS
        try:
            next_ms = self._engine.tick(now_ms)
        except OSError as error:
            if error.errno not in NO_DESCRIPTOR:
                raise
            if not self._tick_wants:
                logger.error("due messages wait until a file can be opened (logged once): %s", error)
            self._tick_wants = True
        else:
            self._tick_wants = False
        finally:
            self._tick_at(now_ms + LONGEST_SLEEP_MS if next_ms is None else next_ms)
            self.kick()

    def _tick_at(self, moment_ms: int) -> None:
        """Make sure that the next tick comes then, or sooner, but not at once: others have their turn first."""
        if self._tick_timer is not None:
            self._tick_timer.cancel()
        now_ms = self._clock()
        wait_ms = min(max(moment_ms - now_ms, 1), LONGEST_SLEEP_MS)
        self._tick_ms = now_ms + wait_ms
        self._tick_timer = self._loop.call_later(max(wait_ms / self._per_s, LEAST_SLEEP_S), self._tick)

    def _upkeep(self) -> None:
        if self._is_stopped:
            return
        self._upkeep_timer = self._loop.call_later(UPKEEP_INTERVAL_MS / 1000, self._upkeep)
        if not self._is_upkeeping:
            job = self._engine.take_upkeep(self._clock())
            if job is not None:
                self._is_upkeeping = True
                self._upkeeps.submit(job)

    def _upkept(self, job: UpkeepJob, done: Done) -> None:
        self._is_upkeeping = False
        self._engine.upkept(job, done.error, self._clock())
        if done.error is not None:
            self._note_trouble(done.error)
        calls, self._at_rest = self._at_rest, []
        for call in calls:
            call()

    def _note_trouble(self, error: OSError) -> None:
        if str(error) != self._upkeep_trouble:
            self._upkeep_trouble = str(error)
            logger.error("upkeep failed (logged once, until it fails in another way): %s", error)
        if self._engine.health().state == "FAILED":
            self._fail(f"saving the store's state failed: {error}", self._engine.abandoned())

    def _fail(self, reason: str, lost: list[Ticket]) -> None:
        self._idle.set()
        if not self._has_failed:
            self._has_failed = True
            logger.critical("the store has FAILED, nothing is acknowledged any more: %s", reason)
            self._failed(reason, lost)


# The thread that runs the jobs.


class Job(Protocol):
    """A job that only reads and writes files, so that it may run beside the loop."""

    def run(self) -> None:
        """Do the work; raises OSError."""


J = TypeVar("J", bound=Job)


class Done(NamedTuple):
    """The end of a job: what went wrong, if anything, and how long it took."""

    error: OSError | None
    took_s: float


class JobThread(Generic[J]):
    """A thread that runs jobs in order; `done(job, end)` is called in the event loop after each."""

    def __init__(
        self,
        name: str,
        loop: asyncio.AbstractEventLoop,
        done: Callable[[J, Done], None],
        stopwatch: Callable[[], float] = perf_counter,
    ) -> None:
        self._jobs: SimpleQueue[J | None] = SimpleQueue()
        self._finished: deque[tuple[J, Done]] = deque()
        self._loop = loop
        self._done = done
        self._stopwatch = stopwatch
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._is_there = False

    def submit(self, job: J) -> None:
        """Queue a job behind those that wait; the first one has the thread begin."""
        self._jobs.put(job)
        if not self._is_there:
            self._is_there = True
            self._thread.start()

    def stop(self) -> None:
        """End the thread after the jobs that are queued; `done` was called for all of them when this returns."""
        if self._is_there:
            self._jobs.put(None)
            self._thread.join()
        while self._finished:
            self._deliver()

    def _deliver(self) -> None:
        if self._finished:
            self._done(*self._finished.popleft())

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            self._finished.append((job, run_job(job, self._stopwatch)))
            try:
                self._loop.call_soon_threadsafe(self._deliver)
            except RuntimeError:
                return  # the loop is closed: nobody waits for this any more


def run_job(job: Job, stopwatch: Callable[[], float]) -> Done:
    """Run a job here and now; return how it ended."""
    begin_s = stopwatch()
    error: OSError | None = None
    try:
        job.run()
    except OSError as raised:
        error = raised
    return Done(error, stopwatch() - begin_s)


# Owners of tickets that answer a request.

_OPAQUE_AT = 13
_SUCCESS = encode(Command(Answer.SUCCESS, flag=RESPONSE_FLAG, serialization=BINARY))
_BEFORE, _AFTER = _SUCCESS[:_OPAQUE_AT], _SUCCESS[_OPAQUE_AT + 4 :]


class AnsweredOwner:
    """The owner of ``wanted`` tickets that answers once all are durable: with plain success, or the body given."""

    __slots__ = ("_body", "_connection", "_request", "_wanted")

    def __init__(self, connection: Connection, request: Command, wanted: int = 1, body: bytes = b"") -> None:
        self._connection = connection
        self._request = request
        self._body = body
        self._wanted = wanted

    def stored(self, _: Ticket) -> None:
        """Note that one more ticket is durable."""
        self._wanted -= 1
        if not self._wanted:
            self._connection.send(self._request.answer(body=self._body))

    def refused(self, code: int, remark: str) -> None:
        """Answer with the first news that a ticket may be lost."""
        if self._wanted > 0:
            self._wanted = 0
            self._connection.send(self._request.answer(code=code, remark=remark))

    def expect(self, wanted: int, body: bytes) -> None:
        """Say after the fact how many tickets there are, and what the answer holds."""
        self._wanted, self._body = wanted, body


class BriefOwner:
    """The owner of one ticket that answers a request with a binary header with plain success."""

    __slots__ = ("_asked_code", "_asked_ms", "_connection", "_opaque")

    def __init__(self, connection: Connection, opaque: int, asked_code: int, asked_ms: int) -> None:
        self._connection = connection
        self._opaque = opaque
        self._asked_code = asked_code
        self._asked_ms = asked_ms

    def stored(self, _: Ticket) -> None:
        """Answer: the ticket is durable."""
        self.answer()

    def answer(self) -> None:
        """Write the answer of plain success."""
        server = self._connection.server
        server.times.answered(
            self._connection, self._asked_code, Answer.SUCCESS, self._asked_ms, server.clock(), is_later=True
        )
        self._connection.write(_BEFORE + self._opaque.to_bytes(4, "big", signed=True) + _AFTER)

    def refused(self, code: int, remark: str) -> None:
        """Answer that the ticket may be lost."""
        command = Command(code, {}, b"", remark, RESPONSE_FLAG, self._opaque, serialization=BINARY)
        command.asked_code, command.asked_ms = self._asked_code, self._asked_ms
        self._connection.send(command)
