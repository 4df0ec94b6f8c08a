"""The transfer service: keeps Redisson's delayed queues moving.

It wakes for a queue when its channel says so, when its next value is due, and every SWEEP_S in any case: no single lost
notification stops a queue. Java's own transfer tasks may run beside it, and other services like this one: each move is
one atomic script, so a value is moved once, by whoever comes first.

    listener ──channel──┐
    finder ───SCAN──────┼──► agenda ──► workers ──► one script a turn ──► target lists, or topics (reliable mode)
    next due, sweep ────┘

A queue is worked on by one worker at a time and for SLICE_S at most, then others have their turn.

- `Agenda`: when each queue is to be looked at next, a set of alarms that several workers share.
- `Outage`: a server that does not answer; how long to wait before the next attempt, and since when it is gone.
"""

from __future__ import annotations

import fnmatch
import heapq
import logging
import os
import random
import secrets
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from redis.exceptions import (
    BusyLoadingError,
    ClusterDownError,
    ConnectionError,  # noqa: A004 - redis-py's own name
    MasterDownError,
    ReadOnlyError,
    RedisError,
    TimeoutError,  # noqa: A004 - redis-py's own name
    TryAgainError,
)

from ..client import Admin, Producer
from ..client.errors import ClientError, InvalidArgument
from .errors import RedissonError
from .queue import CHANNEL_PREFIX, DelayedQueue, Moved, batch_for, name_of, tend_index
from .server import RedisClient, Server, connect
from .survey import queue_names, survey
from .to_topic import ModeMover, Mover, NotSent, Outbound
from .transfer_status import QueueStatus, TransferStatus, publish, withdraw

logger = logging.getLogger(__name__)

_EVERY_CHANNEL = CHANNEL_PREFIX.encode() + b"*"
#: How long a queue may wait for a notification that was lost.
SWEEP_S = 2.0
#: SCAN walks the whole key space: seldom. A new queue that publishes is found at once.
FIND_S = 30.0
SLICE_S = 0.05
#: Between two moves of one queue, so that one script moves several values.
PACE_S = 0.004
#: An index is built for so long at once; then Redis is free for as long.
TEND_S = 0.01
WORKERS = 4
#: Between two attempts to reach a broker that does not answer.
BROKER_PAUSE_S = 0.5
STATUS_S = 1.0


class TransferService:
    """Moves what is due in all queues that `queues` allows (names or patterns with * and ?), from threads of its own.

    `client` is shared by the threads; the status goes to `status_to`, which may be another server. With `read_only`
    nothing is written to the queues' server: it watches. Without a `mover` that knows a broker, everything goes to
    the plain lists.
    """

    def __init__(
        self,
        client: RedisClient,
        *,
        queues: Sequence[str] = ("*",),
        read_only: bool = False,
        status_to: RedisClient | None = None,
        mover: Mover | None = None,
        workers: int = WORKERS,
    ) -> None:
        self._server = Server(client)
        self._status_server = Server(status_to) if status_to is not None else None
        self._allowed = tuple(queues)
        self._read_only = read_only
        self._mover: Mover = mover or ModeMover()
        self._agenda = Agenda()
        self._outage = Outage()
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._queues: dict[str, tuple[DelayedQueue, QueueStatus]] = {}
        self._instance = f"{os.getpid()}-{secrets.token_hex(4)}"
        self._started_ms = int(time.time() * 1000)
        self._skew_ms: float | None = None
        self._listening = False
        #: there may be queues that nobody told of
        self._find_now = threading.Event()
        loops = [self._listen, self._find, self._report, *[self._work] * workers]
        self._threads = [threading.Thread(target=loop, name=loop.__name__, daemon=True) for loop in loops]

    def start(self) -> None:
        """Start the threads; a server that is down is waited for."""
        for name in self._allowed:
            if not any(mark in name for mark in "*?["):
                self._watch(name)
        for thread in self._threads:
            thread.start()

    def stop(self, timeout_s: float = 5.0) -> None:
        """Finish the scripts under way and end the threads."""
        self._stopping.set()
        self._find_now.set()
        self._agenda.close()
        ends = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, ends - time.monotonic()))
        self._mover.close()
        if self._status_server is not None:
            try:
                withdraw(self._status_server, self._instance)
            except RedisError as error:
                logger.info("the status of the transfer service stays a few seconds: %s", error)

    def status(self) -> TransferStatus:
        """Return what the service does now; may be called in any thread."""
        with self._lock:
            queues = [replace(status, reasons=dict(status.reasons)) for _, status in self._queues.values()]
        outage = self._outage
        calm = "watching" if self._read_only else "moving"
        return TransferStatus(
            instance=self._instance,
            started_ms=self._started_ms,
            now_ms=int(time.time() * 1000),
            state="waiting" if outage.since_ms is not None else calm,
            read_only=self._read_only,
            skew_ms=self._skew_ms,
            problem=outage.problem,
            waiting_since_ms=outage.since_ms,
            outages=outage.count,
            listening=self._listening,
            queues=sorted(queues, key=lambda each: each.name),
        )

    def allows(self, name: str) -> bool:
        """Tell whether this service may move values of the queue."""
        return any(name == allowed or fnmatch.fnmatchcase(name, allowed) for allowed in self._allowed)

    def _watch(self, name: str) -> None:
        if not self.allows(name):
            return
        with self._lock:
            if name in self._queues:
                return
            queue = DelayedQueue(name, self._server.client, read_only=self._read_only)
            self._queues[name] = (queue, QueueStatus(name))
        self._agenda.wake(name, time.monotonic(), Reason.FOUND)

    def _wake_all(self, reason: Reason) -> None:
        with self._lock:
            names = list(self._queues)
        for name in names:
            self._agenda.wake(name, time.monotonic(), reason)

    def _work(self) -> None:
        while (taken := self._agenda.take()) is not None:
            name, reason = taken
            queue, status = self._queues[name]
            status.reasons[reason] = status.reasons.get(reason, 0) + 1
            try:
                at_s, following = self._turn(queue, status)
            except Exception as error:
                at_s, following = self._trouble(status, error), Reason.SWEEP
            self._agenda.wake(name, at_s, following)
            self._agenda.done(name)

    def _turn(self, queue: DelayedQueue, status: QueueStatus) -> tuple[float, Reason]:
        """Move what is due, for SLICE_S at most; when to come back, and why."""
        if self._read_only:
            return self._look(queue, status)
        began = time.monotonic()
        poison = idle_calls = 0
        while True:
            called = time.monotonic()
            # After so many calls without a move Java must be undoing the index all the time: scan then.
            scan = idle_calls > 200 + status.waiting // 200
            moved = self._mover.move(queue, status, batch_for(status.waiting), poison, scan)
            now = time.monotonic()
            _note(status, moved, (now - called) * 1000)
            poison += moved.poison
            idle_calls = 0 if moved.count else idle_calls + 1
            status.poison = poison
            if not moved.again or self._stopping.is_set():
                break
            if moved.count and now - began > SLICE_S:
                return now + PACE_S, Reason.MORE
        self._recovered()
        if moved.list_size and not _tended(queue):
            return time.monotonic() + TEND_S, Reason.MORE
        pause_s = max(PACE_S, now - called)
        if moved.next_due_ms is not None and (moved.next_due_ms - moved.now_ms) / 1000 < SWEEP_S:
            return now + max(pause_s, (moved.next_due_ms - moved.now_ms) / 1000), Reason.DUE
        return now + SWEEP_S, Reason.SWEEP

    def _look(self, queue: DelayedQueue, status: QueueStatus) -> tuple[float, Reason]:
        found = survey(queue)
        status.waiting, status.still_due, status.next_due_ms = found.list_size, found.overdue, found.next_due_ms
        status.late_ms, status.seen_ms, status.problem = found.stuck_ms, found.now_ms, ""
        self._recovered()
        return time.monotonic() + SWEEP_S, Reason.SWEEP

    def _trouble(self, status: QueueStatus, error: Exception) -> float:
        """Note an error; when to try again."""
        status.errors += 1
        status.problem = str(error) or type(error).__name__
        if is_outage(error):
            return time.monotonic() + self._outage.note(str(error))
        if isinstance(error, (ClientError, NotSent)):
            return time.monotonic() + BROKER_PAUSE_S
        if not isinstance(error, (RedissonError, RedisError)):
            logger.error("queue %s could not be moved", status.name, exc_info=error)
        else:
            logger.warning("queue %s was left alone: %s", status.name, error)
        return time.monotonic() + SWEEP_S

    def _recovered(self) -> None:
        if self._outage.over():
            logger.info("the server of the delayed queues answers again")
            self._wake_all(Reason.SWEEP)

    def _listen(self) -> None:
        """Wake a queue when its channel says that it has a new head."""
        while not self._stopping.is_set():
            try:
                with self._server.subscribed(_EVERY_CHANNEL.decode()) as messages:
                    self._listening = True
                    for channel in messages:
                        if self._stopping.is_set():
                            return
                        if channel == _EVERY_CHANNEL:
                            # what was said while nobody listened, also of queues that were not known then
                            self._find_now.set()
                            self._wake_all(Reason.SWEEP)
                            continue
                        name = name_of(channel, CHANNEL_PREFIX) if channel else None
                        if name is not None and self.allows(name):
                            self._watch(name)
                            self._agenda.wake(name, time.monotonic(), Reason.CHANNEL)
            except (RedisError, OSError) as error:
                self._listening = False
                self._stopping.wait(self._outage.note(str(error)) if is_outage(error) else SWEEP_S)

    def _find(self) -> None:
        """Find queues by SCAN, and measure how far the two clocks are apart."""
        while not self._stopping.is_set():
            pause_s = FIND_S
            self._find_now.clear()
            try:
                began = time.monotonic()
                self._skew_ms = round(self._server.now_ms()[1], 3)
                for name in queue_names(self._server):
                    self._watch(name)
                # At most a twentieth of the time goes into looking.
                pause_s = max(FIND_S, 20 * (time.monotonic() - began))
            except (RedisError, OSError) as error:
                pause_s = self._outage.note(str(error)) if is_outage(error) else FIND_S
            self._find_now.wait(pause_s)

    def _report(self) -> None:
        while not self._stopping.wait(STATUS_S):
            if self._status_server is None:
                return
            try:
                publish(self._status_server, self.status())
            except (RedisError, OSError) as error:
                logger.debug("the status could not be published: %s", error)


def _tended(queue: DelayedQueue) -> bool:
    """Build the index for TEND_S; whether there is nothing more to do."""
    ends = time.monotonic() + TEND_S
    while time.monotonic() < ends:
        if tend_index(queue):
            return True
    return False


def _note(status: QueueStatus, moved: Moved, call_ms: float) -> None:
    status.waiting, status.still_due, status.next_due_ms = moved.list_size, moved.still_due, moved.next_due_ms
    status.seen_ms, status.call_ms, status.problem = moved.now_ms, round(call_ms, 3), ""
    if moved.count:
        status.moved += moved.count
        status.moved_bytes += moved.size_bytes
        status.last_moved_ms, status.last_count = moved.now_ms, moved.count
        status.late_ms = moved.now_ms - (moved.first_due_ms or moved.now_ms)
        status.most_late_ms = max(status.most_late_ms, status.late_ms)
    elif not moved.still_due:
        status.late_ms = 0


# When each queue is to be looked at next.


class Reason(StrEnum):
    """The reasons to look at a queue."""

    FOUND = "found"
    CHANNEL = "channel"
    DUE = "due"
    SWEEP = "sweep"
    MORE = "more"


@dataclass(slots=True)
class _Alarm:
    at_s: float
    reason: Reason


class Agenda:
    """An alarm for each queue; a queue that a worker has rings again only after its work. Times: `time.monotonic()`."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._alarms: dict[str, _Alarm] = {}
        self._heap: list[tuple[float, str]] = []
        self._busy: set[str] = set()
        self._closed = False

    def wake(self, name: str, at_s: float, reason: Reason) -> None:
        """Ring for this queue at that time, or at the earlier one that is set already."""
        with self._changed:
            alarm = self._alarms.get(name)
            if alarm is not None and alarm.at_s <= at_s:
                return
            self._alarms[name] = _Alarm(at_s, reason)
            heapq.heappush(self._heap, (at_s, name))
            self._changed.notify()

    def take(self) -> tuple[str, Reason] | None:
        """Wait for the next queue that is to be looked at, and keep others away from it; None once closed."""
        with self._changed:
            while not self._closed:
                ready = self._ready()
                if isinstance(ready, str):
                    self._busy.add(ready)
                    return ready, self._alarms.pop(ready).reason
                self._changed.wait(ready)
            return None

    def done(self, name: str) -> None:
        """Note that the work on this queue is over."""
        with self._changed:
            self._busy.discard(name)
            alarm = self._alarms.get(name)
            if alarm is not None:
                heapq.heappush(self._heap, (alarm.at_s, name))
            self._changed.notify()

    def forget(self, name: str) -> None:
        """Ring for this queue no more."""
        with self._changed:
            self._alarms.pop(name, None)

    def close(self) -> None:
        """Let everybody who waits go."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _ready(self) -> str | float | None:
        """Return a queue whose time has come, else the seconds until then, None when nothing is set."""
        while self._heap:
            at_s, name = self._heap[0]
            alarm = self._alarms.get(name)
            # What was set earlier since, is worked on, or is forgotten has another entry or none.
            if alarm is None or alarm.at_s != at_s or name in self._busy:
                heapq.heappop(self._heap)
                continue
            left_s = at_s - time.monotonic()
            if left_s > 0:
                return left_s
            heapq.heappop(self._heap)
            return name
        return None


# A server that does not answer.

FIRST_PAUSE_S = 0.05
LAST_PAUSE_S = 3.0
_OUTAGES = (
    ConnectionError, TimeoutError, BusyLoadingError, ReadOnlyError, ClusterDownError, MasterDownError, TryAgainError,
)  # fmt: skip


class Outage:
    """The state of the connection to one server, shared by threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pause_s = FIRST_PAUSE_S
        self.since_ms: int | None = None
        self.problem = ""
        self.count = 0

    def note(self, problem: str) -> float:
        """Note a failed attempt; return the seconds to wait before the next: ever more, with some chance in it."""
        with self._lock:
            if self.since_ms is None:
                self.since_ms = int(time.time() * 1000)
                self.count += 1
            self.problem = problem
            self._pause_s = min(LAST_PAUSE_S, self._pause_s * 1.5)
            return self._pause_s * random.uniform(0.5, 1.0)  # noqa: S311 - so that not all come at once

    def over(self) -> bool:
        """Note that an attempt succeeded; return whether it was the first one after an outage."""
        with self._lock:
            was_out = self.since_ms is not None
            self.since_ms, self.problem, self._pause_s = None, "", FIRST_PAUSE_S
            return was_out


def is_outage(error: BaseException) -> bool:
    """Tell whether this error means that the server is down, starting or failing over, and is worth waiting for."""
    return isinstance(error, (*_OUTAGES, OSError))


# The service as a process runs it.

#: A script that moves a value of 512 MB takes seconds.
SCRIPT_TIMEOUT_S = 60.0
PRODUCER_GROUP = "redisson"


def transfer_service(
    url: str, status_url: str, namesrv: str, *, queues: Sequence[str] = ("*",), read_only: bool = False
) -> TransferService:
    """Return a service for delayed queues at `url` that keeps its status at `status_url`; ValueError for no address.

    Queues in reliable mode are sent to the broker that the name service at `namesrv` knows.
    """
    try:
        client = connect(url, timeout_s=SCRIPT_TIMEOUT_S)
    except ValueError as error:
        raise ValueError(f"ESCAPEMENT_REDISSON_URL is no address of a Redis: {error}") from error
    try:
        producer, admin = Producer(group=PRODUCER_GROUP, namesrv=namesrv), Admin(namesrv)
    except InvalidArgument as error:
        raise ValueError(f"ESCAPEMENT_NAMESRV: {error}") from error
    mover = ModeMover(Outbound(producer, admin), closing=(producer.close, admin.close))
    return TransferService(client, queues=queues, read_only=read_only, status_to=connect(status_url), mover=mover)
