"""A program that makes orders by transactional() and is killed: by itself, at one statement further each time.

A step is one line of the code below: each line of it in the order in which lines are first reached, in the calling
thread and in that of the connections. For each step a process is forked, so nothing is shared but what is on the disks
of database and broker.

Arguments: topic, what happens (commit, rollback, savepoint), one step of how many. Prints `steps N` at the end.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import django

CODE = (
    "/broker/outbox/",
    "/broker/client/_transaction",
    "/broker/client/_sync_clients",
    "/django/db/transaction.py",
)


class Steps:
    """Counts lines as they are reached for the first time, and kills this process at one of them."""

    def __init__(self, last: int) -> None:
        self._last = last
        self._reached: set[tuple[str, int]] = set()

    def trace(self, frame: FrameType, event: str, argument: object) -> Callable[..., Any] | None:
        """sys.settrace: look into frames of the code in question only."""
        if not any(part in frame.f_code.co_filename for part in CODE):
            return None
        if event == "line":
            self._reached.add((frame.f_code.co_filename, frame.f_lineno))
            if len(self._reached) >= self._last:
                os.kill(os.getpid(), signal.SIGKILL)
        return self.trace


class Unwanted(Exception):
    """The user's own error."""


def order(topic: str, name: str, outcome: str) -> None:
    """Make an order and its message; `outcome` says how its transaction ends."""
    from django.db import connection

    from broker.outbox import transactional

    def insert(text: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO orders (name) VALUES (%s)", [text])

    try:
        with transactional() as block:
            insert(name)
            block.send(topic, name)
            if outcome == "savepoint":
                try:
                    with transactional() as inner:
                        insert(f"{name}-inner")
                        inner.send(topic, f"{name}-inner")
                        raise Unwanted
                except Unwanted:
                    block.send(topic, f"{name}-after")
                    insert(f"{name}-after")
            elif outcome == "rollback":
                raise Unwanted
    except Unwanted:
        pass


def run_until(last: int, topic: str, outcome: str) -> None:
    """In the forked process: trace, make one order, end without ceremony."""
    steps = Steps(last)
    threading.settrace(steps.trace)
    sys.settrace(steps.trace)
    order(topic, f"{outcome}-{last}", outcome)
    sys.settrace(None)
    os._exit(0)


def main() -> None:
    """Fork for each step until one process reaches its end."""
    topic, outcome, stride = sys.argv[1], sys.argv[2], int(sys.argv[3])
    django.setup()
    import broker.outbox.transaction_block  # noqa: F401 - loaded before the forks: imports are no steps

    step = 1
    while True:
        child = os.fork()
        if child == 0:
            run_until(step, topic, outcome)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            step += stride
            continue
        if os.waitstatus_to_exitcode(status) != 0:
            raise SystemExit(f"step {step} ended with {status}")
        break
    sys.stdout.write(f"steps {step}\n")


if __name__ == "__main__":
    main()
