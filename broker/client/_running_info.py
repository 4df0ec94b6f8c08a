"""A consumer's account of itself, asked for by a broker for an administrator: its work (307), its offsets (221).

Bodies are written as Java's clients write them (ConsumerRunningInfo, GetConsumerStatusBody): tables have queues as
keys, which no JSON library writes.

How busy the client was of late is kept in sums: of the last minute, and of the last hour for failures.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from ._types import MessageQueue, Subscription

_MEBIBYTE = 1 << 20
#: Name of PROTOCOL_VERSION, whose forms of requests and answers are used.
_VERSION = "V5_5_0"


@dataclass(frozen=True, slots=True)
class QueueWork:
    """A queue of a consumer. `offset`: all below is done, -1 while it is not known; `cached`: sizes of messages that
    were read and are not done, by offset; `locked_ms`: when its lock was renewed, None if it is not locked."""

    queue: MessageQueue
    offset: int
    cached: Mapping[int, int]
    pulling: Pulling
    is_dropped: bool
    locked_ms: int | None = None

    def about(self) -> dict[str, object]:
        """Return the queue as RocketMQ's ProcessQueueInfo has it."""
        return {
            "cachedMsgCount": len(self.cached),
            "cachedMsgMaxOffset": max(self.cached, default=0),
            "cachedMsgMinOffset": min(self.cached, default=0),
            "cachedMsgSizeInMiB": sum(self.cached.values()) // _MEBIBYTE,
            "commitOffset": self.offset,
            "droped": self.is_dropped,
            "lastConsumeTimestamp": self.pulling.done_ms,
            "lastLockTimestamp": self.locked_ms or 0,
            "lastPullTimestamp": self.pulling.pulled_ms,
            "locked": self.locked_ms is not None,
            "transactionMsgCount": 0,
            "transactionMsgMaxOffset": 0,
            "transactionMsgMinOffset": 0,
            "tryUnlockTimes": 0,
        }


@dataclass(frozen=True, slots=True)
class Properties:
    """The facts about a consumer that stay while it lives."""

    group: str
    client_id: str
    namesrv: tuple[str, ...]
    from_where: str
    threads: int = 0
    is_orderly: bool = False
    #: it fetches (lite pull); else it is called with messages
    is_active: bool = False
    made_ms: int = field(default_factory=lambda: time.time_ns() // 1_000_000)

    def about(self) -> dict[str, str]:
        """Return what mqadmin and consoles look for, under Java's names."""
        return {
            "PROP_NAMESERVER_ADDR": ";".join(self.namesrv) + ";",
            "PROP_CONSUME_TYPE": "CONSUME_ACTIVELY" if self.is_active else "CONSUME_PASSIVELY",
            "PROP_CONSUMEORDERLY": "true" if self.is_orderly else "false",
            "PROP_THREADPOOL_CORE_SIZE": str(self.threads),
            "PROP_CONSUMER_START_TIMESTAMP": str(self.made_ms),
            "PROP_CLIENT_VERSION": _VERSION,
            "language": "PYTHON",
            "consumerGroup": self.group,
            "clientId": self.client_id,
            "consumeFromWhere": f"CONSUME_FROM_{self.from_where.upper()}_OFFSET",
            "messageModel": "CLUSTERING",
        }


@dataclass(frozen=True, slots=True)
class Consuming:
    """A consumer now; `handling` is by topic."""

    properties: Properties
    subscriptions: tuple[Subscription, ...]
    queues: tuple[QueueWork, ...]
    handling: Mapping[str, HandlerStats]


def running_body(now: Consuming, *, with_stack: bool) -> bytes:
    """Return the answer to 307; `with_stack`: with where each thread is."""
    parts = {
        "properties": msgspec.json.encode(now.properties.about()),
        "subscriptionSet": msgspec.json.encode([each.about() for each in now.subscriptions]),
        "mqTable": _table({held.queue: msgspec.json.encode(held.about()) for held in now.queues}),
        "mqPopTable": b"{}",
        "statusTable": msgspec.json.encode({each.topic: _status(now, each.topic) for each in now.subscriptions}),
        "userConsumerInfo": b"{}",
    }
    if with_stack:
        parts["jstack"] = msgspec.json.encode(stacks())
    return _object(parts)


def status_body(now: Consuming, topic: str) -> bytes:
    """Return the answer to 221: how far the consumer is in the queues of a topic that it has."""
    offsets = {held.queue: str(held.offset).encode() for held in now.queues if held.queue.topic == topic}
    return _object({"messageQueueTable": _table(offsets), "consumerTable": b"{}"})


def stacks() -> str:
    """Return where each thread of the process is, newest call last."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    found = sorted(sys._current_frames().items())
    return "\n".join(
        f'TID: {ident} "{names.get(ident, "")}"\n{"".join(traceback.format_stack(frame))}' for ident, frame in found
    )


def _status(now: Consuming, topic: str) -> dict[str, object]:
    """Return the rates of one topic as RocketMQ's ConsumeStatus has them."""
    pulling = [held.pulling for held in now.queues if held.queue.topic == topic]
    handling = now.handling.get(topic) or HandlerStats()
    return {
        "pullRT": mean(each.pulls for each in pulling),
        "pullTPS": sum(each.messages.per_s for each in pulling),
        "consumeRT": mean([handling.worked, handling.failed]),
        "consumeOKTPS": handling.worked.per_s,
        "consumeFailedTPS": handling.failed.per_s,
        "consumeFailedMsgs": handling.failed_of_hour.count,
    }


def _table(rows: Mapping[MessageQueue, bytes]) -> bytes:
    made = []
    for queue, value in rows.items():
        key = {"brokerName": queue.broker, "queueId": queue.queue_id, "topic": queue.topic}
        made.append(msgspec.json.encode(key) + b":" + value)
    return b"{" + b",".join(made) + b"}"


def _object(parts: Mapping[str, bytes]) -> bytes:
    return b"{" + b",".join(b'"%b":%b' % (name.encode(), value) for name, value in parts.items()) + b"}"


# How busy a client was of late.

MINUTE_S = 60.0
HOUR_S = 3600.0
#: A span moves on in so many steps (RocketMQ's StatsItem samples a minute in 6).
STEPS = 6


class Recent:
    """A count of what happened in the last `span_s` seconds, and a sum over it."""

    def __init__(self, span_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._span_s = span_s
        self._clock = clock
        self._began_s = clock()
        #: of each step when it began, how often it happened, the sum
        self._steps: deque[list[float]] = deque()
        self._last: list[float] = []
        self._last_ends_s = float("-inf")

    def add(self, amount: float = 0.0, count: int = 1) -> None:
        """Note that it happened `count` times now, `amount` in all."""
        now_s = self._clock()
        if now_s >= self._last_ends_s:
            self._last = [now_s, 0, 0.0]
            self._last_ends_s = now_s + self._span_s / STEPS
            self._steps.append(self._last)
            self._forget(now_s)
        self._last[1] += count
        self._last[2] += amount

    def _forget(self, now_s: float) -> None:
        while self._steps and self._steps[0][0] <= now_s - self._span_s:
            self._steps.popleft()

    @property
    def count(self) -> int:
        """The number of times that it happened in the last `span_s` seconds."""
        return int(self.sums()[0])

    @property
    def per_s(self) -> float:
        """The rate a second; over less than the span while it is younger."""
        return self.sums()[0] / min(self._span_s, max(1.0, self._clock() - self._began_s))

    def sums(self) -> tuple[float, float]:
        """Return how often it happened lately, and the sum of the amounts."""
        self._forget(self._clock())
        return sum(step[1] for step in self._steps), sum(step[2] for step in self._steps)


def mean(several: Iterable[Recent]) -> float:
    """Return the mean amount of all times; 0 if there was none."""
    sums = [each.sums() for each in several]
    count = sum(each[0] for each in sums)
    return sum(each[1] for each in sums) / count if count else 0.0


@dataclass(slots=True)
class Pulling:
    """The pulls of one queue. `pulls` sums ms; times are ms since the epoch, 0 for never."""

    pulls: Recent = field(default_factory=lambda: Recent(MINUTE_S))
    messages: Recent = field(default_factory=lambda: Recent(MINUTE_S))
    pulled_ms: int = 0
    done_ms: int = 0

    def pulled(self, took_ms: float, messages: int) -> None:
        """Note that a pull was answered."""
        self.pulled_ms = _now_ms()
        self.pulls.add(took_ms)
        if messages:
            self.messages.add(count=messages)

    def done(self) -> None:
        """Note that a message is finished."""
        self.done_ms = _now_ms()


@dataclass(slots=True)
class HandlerStats:
    """The work of handlers for one topic; `worked` and `failed` sum ms."""

    worked: Recent = field(default_factory=lambda: Recent(MINUTE_S))
    failed: Recent = field(default_factory=lambda: Recent(MINUTE_S))
    failed_of_hour: Recent = field(default_factory=lambda: Recent(HOUR_S))
    worked_total: int = 0
    failed_total: int = 0
    took_total_s: float = 0.0

    def ended(self, took_ms: float, *, has_worked: bool) -> None:
        """Note that a handler has ended."""
        self.took_total_s += took_ms / 1000
        if has_worked:
            self.worked_total += 1
            self.worked.add(took_ms)
        else:
            self.failed_total += 1
            self.failed.add(took_ms)
            self.failed_of_hour.add()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
