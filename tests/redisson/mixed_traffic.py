"""What the kill test starts and kills: `python -m tests.redisson.mixed_traffic offer|transfer URL FILE SEED`."""

from __future__ import annotations

import random
import signal
import sys
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from broker.redisson import DelayedQueue
from broker.redisson.transfer import TransferService
from tests.redisson.java import ScriptedJava
from tests.waiting import until

NAME = "orders"


def offer(url: str, file: Path, seed: str) -> None:
    """Offer, take back and transfer as a Java and a Python service would; each done thing is noted after its answer."""
    chance = random.Random(seed)
    client = redis.Redis.from_url(url, retry=Retry(NoBackoff(), 0), socket_timeout=5)
    queue, java = DelayedQueue(NAME, client), ScriptedJava(client, NAME)
    number = 0
    with file.open("a") as notes:
        while True:
            number += 1
            value = f"{seed}-{number}"
            try:
                now_ms = queue.server.now_ms()[0]
                if number % 7 == 0:
                    java.transfer(now_ms, 10)
                elif number % 5 == 0:
                    far = f"{value}-far"
                    java.offer(far.encode(), now_ms + 10**9)
                    if queue.remove(far):
                        notes.write(f"removed {far}\n")
                elif number % 2:
                    queue.offer(value, delay=chance.randrange(200))
                    notes.write(f"offered {value}\n")
                else:
                    java.offer(value.encode(), now_ms + chance.randrange(200))
                    notes.write(f"offered {value}\n")
                notes.flush()
            except redis.RedisError:
                until(client.ping, not_yet=(redis.RedisError,))  # the server was killed


def transfer(url: str) -> None:
    """The transfer service alone."""
    TransferService(redis.Redis.from_url(url, socket_timeout=5)).start()
    signal.pause()


if __name__ == "__main__":
    if sys.argv[1] == "offer":
        offer(sys.argv[2], Path(sys.argv[3]), sys.argv[4])
    transfer(sys.argv[2])
