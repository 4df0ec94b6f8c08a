"""A store full of messages and pending timers, made by the engine in a process of its own that ends by SIGKILL.

`python -m bench.filling ROOT TIMERS [MESSAGES]`: what takes the network hours takes this minutes. It keeps up as a
broker does, so what it leaves is what a broker leaves that is killed: a snapshot of the wheel, and units and records
behind it. A store that holds some timers already is filled up to TIMERS; messages, which nobody waits for, come before
them, in batches. The first ten million timers have a schedule key each, and so come one by one; those beyond have none
and come together, as those of one read do. The last line printed is JSON: timers taken a second, and the most anonymous
memory that the process had.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

from bench.peers import SIZES
from bench.storage import anonymous_mb
from broker.engine.config import EngineConfig
from broker.engine.disk import OsFiles
from broker.engine.engine import Engine
from broker.engine.log.append import Sends
from broker.rocketmq.message import pack_host
from broker.rocketmq.properties import format_properties
from broker.server.listener import limit_free_memory

TOPIC, STORED_TOPIC, QUEUES = "Pending", "Stored", 4
DAY_MS = 86_400_000
#: Due at random from the second day to the thirtieth: nothing is released while the rest is measured.
FIRST_MS, SPAN_MS = DAY_MS, 29 * DAY_MS
BODY = b"x" * 128
BATCH, KEYED = 256, 10_000_000
BORN_HOST = pack_host("127.0.0.1", 50_000)


def fill(root: Path, count: int, messages: int = 0) -> dict[str, float]:
    """Store so many messages, and park timers until `count` are there; `key-<number>` is the schedule key of each that
    has one."""
    begin_ms = time.time_ns() // 1_000_000
    engine = Engine.open(EngineConfig(root=str(root), flush="async", **SIZES), OsFiles(), begin_ms)
    store(engine, messages)
    engine.topics.ensure(TOPIC, QUEUES)
    there = engine.timers.states.pending
    chance = random.Random(4 + there)
    begin_s, memory_mb = time.monotonic(), 0.0
    for start in range(there, count, BATCH):
        now_ms = time.time_ns() // 1_000_000
        numbers = range(start, min(start + BATCH, count))
        dues_ms = [begin_ms + FIRST_MS + chance.randrange(SPAN_MS) for _ in numbers]
        if start < KEYED or not park_together(engine, numbers, dues_ms, now_ms):
            park(engine, numbers, dues_ms, now_ms)
        settle(engine, now_ms)
        if (start - there) % (400 * BATCH) == 0:
            memory_mb = max(memory_mb, anonymous_mb(os.getpid()))
    return {
        "count": engine.timers.states.pending,
        "taken_per_s": (count - there) / (time.monotonic() - begin_s),
        "memory_mb": memory_mb,
    }


def park(engine: Engine, numbers: range, dues_ms: list[int], now_ms: int) -> None:
    """Park timers one by one, each with a schedule key."""
    for number, due_ms in zip(numbers, dues_ms, strict=True):
        properties = {**said(number, due_ms), "ESC_SCHEDULE_KEY": f"key-{number}"}
        engine.append(
            TOPIC, number % QUEUES, BODY, format_properties(properties), born_ms=now_ms, born_host=BORN_HOST,
            now_ms=now_ms,
        )  # fmt: skip


def park_together(engine: Engine, numbers: range, dues_ms: list[int], now_ms: int) -> bool:
    """Park timers without a schedule key as those of one read; False if there is no room for all in this segment."""
    count = len(numbers)
    raws = [format_properties(said(number, due_ms)) for number, due_ms in zip(numbers, dues_ms, strict=True)]
    queue_ids = [number % QUEUES for number in numbers]
    sends = Sends(queue_ids, [BODY] * count, raws, [0] * count, [now_ms] * count, [None] * count)
    return engine.append_together(TOPIC, sends, born_host=BORN_HOST, now_ms=now_ms) is not None


def said(number: int, due_ms: int) -> dict[str, str]:
    """Return the properties of a timer."""
    return {"UNIQ_KEY": unique_key(number), "WAIT": "true", "TIMER_DELIVER_MS": str(due_ms)}


def store(engine: Engine, count: int) -> None:
    """Store messages that nobody waits for."""
    engine.topics.ensure(STORED_TOPIC, QUEUES)
    for start in range(0, count, BATCH):
        now_ms = time.time_ns() // 1_000_000
        parts = [
            (BODY, format_properties({"UNIQ_KEY": unique_key(1 << 40 | number), "WAIT": "true"}), 0)
            for number in range(start, min(start + BATCH, count))
        ]
        engine.append_batch(
            STORED_TOPIC, start // BATCH % QUEUES, parts, born_ms=now_ms, born_host=BORN_HOST, now_ms=now_ms
        )
        settle(engine, now_ms)


def unique_key(number: int) -> str:
    """Return an id that no other process makes."""
    return f"7F000001{os.getpid() & 0xFFFF:04X}2A13{number:016X}"


def settle(engine: Engine, now_ms: int) -> None:
    """Write and show what was appended; keep up."""
    while (job := engine.take_sync(now_ms)) is not None:
        job.run()
        engine.synced(job, None, now_ms)
    engine.take_arrivals()
    engine.tick(now_ms)
    upkeep = engine.take_upkeep(now_ms)
    if upkeep is not None:
        upkeep.run()
        engine.upkept(upkeep, None, now_ms)


if __name__ == "__main__":
    limit_free_memory()
    told = fill(Path(sys.argv[1]), *map(int, sys.argv[2:]))
    print(json.dumps(told), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
