"""`python -m bench.choices_worker WAY ADDRESS`: keeps or fetches what waits, and prints each number when it is due.

    numbers out   one a line, `number ms`, the ms of the handler
    heap          keeps what waits itself: `number due_ms` a line in

The ways are those of `choices.WAYS`. A Celery worker is started as such: `celery -A bench.choices_worker`.
"""

from __future__ import annotations

import heapq
import os
import sys
import threading
import time
from collections.abc import Callable

import psycopg
import redis
from celery import Celery

from broker.client import Consumer, Message

#: How often the table is looked at, as a task of Celery's beat would, and the sorted set.
TABLE_EVERY_S, SET_EVERY_S = 10.0, 0.1
TOPIC, SET, TABLE = "Choices", "choices", "choices"
AT_ONCE = 500
TAKE = """
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, ARGV[2])
if #due > 0 then redis.call('ZREM', KEYS[1], unpack(due)) end
return due
"""
DELETE = (
    f"DELETE FROM {TABLE} WHERE number IN (SELECT number FROM {TABLE} WHERE due_ms <= %s ORDER BY due_ms LIMIT %s "  # noqa: S608 - our own name
    "FOR UPDATE SKIP LOCKED) RETURNING number"
)

app = Celery("choices", broker=os.environ.get("CHOICES_URL", "memory://"))
app.conf.update(task_ignore_result=True, broker_connection_retry_on_startup=True, worker_hijack_root_logger=False)


def handled(number: int) -> None:
    """Say that this one was handled now; one write, whoever kills this process afterwards."""
    os.write(1, f"{number} {time.time_ns() // 1_000_000}\n".encode())


@app.task(name="choices.handle")
def handle(number: int) -> None:
    """The task of the Celery way."""
    handled(number)


def table(address: str) -> None:
    """Look at a table again and again; a row is deleted in the transaction that handles it."""
    pause = threading.Event()
    with psycopg.connect(address, autocommit=True) as connection:
        while True:
            with connection.transaction():
                due = connection.execute(DELETE, [time.time_ns() // 1_000_000, AT_ONCE]).fetchall()
                for (number,) in due:
                    handled(number)
            if len(due) < AT_ONCE:
                pause.wait(TABLE_EVERY_S)


def heap(address: str) -> None:
    """Keep what comes in a heap, and wait for the first."""
    waiting: list[tuple[int, int]] = []
    changed = threading.Condition()

    def read() -> None:
        for line in sys.stdin:
            number, due_ms = map(int, line.split())
            with changed:
                heapq.heappush(waiting, (due_ms, number))
                changed.notify()

    threading.Thread(target=read, daemon=True).start()
    with changed:
        while True:
            while not waiting or waiting[0][0] > time.time_ns() // 1_000_000:
                changed.wait(waiting[0][0] / 1_000 - time.time() if waiting else None)
            handled(heapq.heappop(waiting)[1])


def sorted_set(address: str) -> None:
    """Take what is due out of a sorted set of Redis, ten times a second."""
    pause = threading.Event()
    with redis.Redis.from_url(address) as client:
        take = client.register_script(TAKE)
        while True:
            due = take(keys=[SET], args=[time.time_ns() // 1_000_000, AT_ONCE])
            for number in due:
                handled(int(number))
            if not due:
                pause.wait(SET_EVERY_S)


def escapement(address: str) -> None:
    """Consume the topic until the end."""

    def handler(message: Message) -> None:
        handled(int(message.body))

    consumer = Consumer("choices", address, from_where="first")
    consumer.subscribe(TOPIC, "*", handler)
    with consumer:
        threading.Event().wait()


RUN: dict[str, Callable[[str], None]] = {
    "table": table, "heap": heap, "sorted-set": sorted_set, "escapement": escapement,
}  # fmt: skip


if __name__ == "__main__":
    RUN[sys.argv[1]](sys.argv[2])
