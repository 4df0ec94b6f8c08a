"""A delayed queue filled as Java leaves it: the same three structures, by many members a command instead of one."""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Iterator

import redis

CHUNK = 1_000
HEAD = struct.Struct("<B8sQ")


def keys(queue: str) -> tuple[str, str, str]:
    """The sorted set, the list and the channel of a queue without a hash tag in its name."""
    return (
        f"redisson_delay_queue_timeout:{{{queue}}}",
        f"redisson_delay_queue:{{{queue}}}",
        f"redisson_delay_queue_channel:{{{queue}}}",
    )


def member(value: bytes) -> bytes:
    """A packed value, as every Redisson since 3.21.1 packs it."""
    return HEAD.pack(8, os.urandom(8), len(value)) + value


def fill(server: redis.Redis, queue: str, count: int, first_ms: int, last_ms: int, *, prefix: str = "value-") -> None:
    """Put `count` values with random due times (whole ms, from `first_ms` to `last_ms`) into a queue."""
    timeouts, offered, channel = keys(queue)
    draw = random.Random(count)
    for numbers in chunks(count):
        scored = {member(f"{prefix}{number:07d}".encode()): draw.randint(first_ms, last_ms) for number in numbers}
        with server.pipeline(transaction=True) as pipeline:
            pipeline.zadd(timeouts, scored)
            pipeline.rpush(offered, *scored)
            pipeline.execute()
        if numbers[0] == 0 or numbers[-1] == count - 1:
            # As Java does for a new head: whoever serves the queue learns of it at once.
            head = server.zrange(timeouts, 0, 0, withscores=True)
            server.publish(channel, str(int(head[0][1])))


def chunks(count: int) -> Iterator[range]:
    """The numbers below `count` in runs of CHUNK."""
    for first in range(0, count, CHUNK):
        yield range(first, min(count, first + CHUNK))
