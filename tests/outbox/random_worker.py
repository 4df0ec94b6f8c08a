"""A program that makes random transactions, and is killed now and then: by itself, at a random moment of one.

Arguments: topic, seed, first number, how many. What each one shall be is drawn from seed and number, so that whoever is
asked about it knows (table `plans`, written before the half is sent). Prints `made N` at the end.

    commit, rollback, savepoint   transactional(), whose database transaction decides
    dies                          the same, and the process is killed some ms after its begin
    once, twice, opposite         a TransactionProducer says so, says it twice, says the opposite afterwards
    silence                       nothing is said: a check finds out
    late                          said after it was asked about
    gone                          its group has no producer until the end
    nobody                        nobody will ever know: it ends parked
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import django
import psycopg

from broker.client import BrokerRefused, ClientError, Decision, Half, Message, TransactionProducer, prepare

#: kind, how often of a hundred
KINDS = {
    "commit": 22, "rollback": 10, "savepoint": 10, "dies": 4, "once": 16, "twice": 8, "opposite": 8, "silence": 10,
    "late": 6, "gone": 4, "nobody": 2,
}  # fmt: skip
DJANGO = ("commit", "rollback", "savepoint", "dies")
#: a late one is decided so long after its half; asked earlier, nobody knows yet
LATE_S = 2.0
ILLEGAL_OPERATION = 604
RAW, GONE, NOBODY = "raw", "gone", "nobody"
DECISIONS = {"commit": Decision.COMMIT, "rollback": Decision.ROLLBACK}


class Unwanted(Exception):
    """The user's own error."""


class Wrong(Exception):
    """The broker did something that it must not."""


def answer(database_url: str) -> Callable[[Message], Decision]:
    """A checker that knows the plans: it notes that a message may be seen before it says so."""

    def check(message: Message) -> Decision:
        with psycopg.connect(database_url, autocommit=True) as connection:
            name = message.body.decode()
            row = connection.execute("SELECT wants, kind, born FROM plans WHERE name = %s", [name]).fetchone()
            if row is None or row[0] == "nobody" or (row[1] == "late" and time.time() - row[2] < LATE_S):
                return Decision.UNKNOWN
            if row[0] == "commit":
                connection.execute("UPDATE plans SET allowed = true WHERE name = %s", [name])
            return DECISIONS[row[0]]

    return check


class Maker:
    """Makes the transactions of one process; `producer` is connected as long as it lives."""

    def __init__(self, topic: str, seed: int) -> None:
        self._topic, self._seed = topic, seed
        self._database_url, self._namesrv = os.environ["DATABASE_URL"], os.environ["OUTBOX_NAMESRV"]
        self._database = psycopg.connect(self._database_url, autocommit=True)
        self._check = answer(self._database_url)
        self._producer = TransactionProducer(RAW, self._namesrv, check=self._check)
        self._late: list[tuple[float, Half, str, str]] = []

    def make(self, number: int) -> None:
        """One transaction; what the broker or its absence refuses is left to the checks."""
        chance = random.Random(f"{self._seed} {number}")
        kind = chance.choices(list(KINDS), list(KINDS.values()))[0]
        name = f"{kind}-{number}"
        self.say_late(time.monotonic())
        if kind in DJANGO:
            with suppress(Unwanted, ClientError):
                self._order(name, kind, chance)
            return
        wants = "nobody" if kind == "nobody" else chance.choice(("commit", "rollback"))
        self._database.execute(
            "INSERT INTO plans (name, kind, wants, born) VALUES (%s, %s, %s, %s)", [name, kind, wants, time.time()]
        )
        if kind in (GONE, NOBODY):
            with suppress(ClientError), TransactionProducer(kind, self._namesrv, check=self._check) as producer:
                self._send(producer, name)
            return
        with suppress(ClientError):
            half = self._send(self._producer, name)
            if kind == "late":
                self._late.append((time.monotonic() + LATE_S, half, name, wants))
            elif kind != "silence":
                self._decide(half, name, wants, kind)

    def say_late(self, now_s: float) -> None:
        """Decide what has waited long enough."""
        due = [each for each in self._late if each[0] <= now_s]
        self._late = [each for each in self._late if each[0] > now_s]
        for _, half, name, wants in due:
            with suppress(ClientError):
                self._decide(half, name, wants, "late")

    def _send(self, producer: TransactionProducer, name: str) -> Half:
        half = producer.send_half(self._topic, prepare(name, keys=[name]))
        self._database.execute("UPDATE plans SET sent = true WHERE name = %s", [name])
        return half

    def _decide(self, half: Half, name: str, wants: str, kind: str) -> None:
        if wants == "commit":
            self._database.execute("UPDATE plans SET allowed = true WHERE name = %s", [name])
        self._producer.end_all([half], DECISIONS[wants])
        if kind == "twice":
            (error,) = self._producer.end_all([half], DECISIONS[wants])
            if isinstance(error, BrokerRefused):
                raise Wrong(f"{name}: the same decision was refused: {error}")
        elif kind == "opposite":
            (error,) = self._producer.end_all([half], DECISIONS["rollback" if wants == "commit" else "commit"])
            if error is None or (isinstance(error, BrokerRefused) and error.code != ILLEGAL_OPERATION):
                raise Wrong(f"{name}: the opposite decision was answered with {error!r}")

    def _order(self, name: str, kind: str, chance: random.Random) -> None:
        from django.db import connection

        from broker.outbox import transactional

        def insert(text: str) -> None:
            with connection.cursor() as cursor:
                cursor.execute("INSERT INTO orders (name) VALUES (%s)", [text])

        if kind == "dies":
            delay_s = chance.uniform(0, 0.03)
            threading.Timer(delay_s, os.kill, [os.getpid(), signal.SIGKILL]).start()
        with transactional() as block:
            insert(name)
            block.send(self._topic, name)
            if kind == "savepoint":
                with suppress(Unwanted), transactional() as inner:
                    insert(f"{name}-inner")
                    inner.send(self._topic, f"{name}-inner")
                    raise Unwanted
                insert(f"{name}-after")
                block.send(self._topic, f"{name}-after")
            if kind == "rollback":
                raise Unwanted
        if kind == "dies":
            signal.pause()  # the timer ends this

    def finish(self) -> None:
        """Say what is late; then end without a word."""
        self.say_late(time.monotonic() + LATE_S)


def run(topic: str, seed: int, first: int, end: int, told: int) -> None:
    """In a forked process: make transactions, and tell each number before it is begun."""
    maker = Maker(topic, seed)
    for number in range(first, end):
        os.write(told, number.to_bytes(4, "big"))
        maker.make(number)
    maker.finish()
    os._exit(0)


def main() -> None:
    """Fork until all are made: a process that was killed is followed by one that goes on behind it."""
    topic, seed, first, count = sys.argv[1], *map(int, sys.argv[2:5])
    django.setup()
    import broker.outbox.transaction_block  # noqa: F401 - loaded before the forks

    end = first + count
    while first < end:
        hear, tell = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(hear)
            run(topic, seed, first, end, tell)
        os.close(tell)
        with os.fdopen(hear, "rb") as heard:
            numbers = heard.read()
        _, status = os.waitpid(child, 0)
        if status and not os.WIFSIGNALED(status):
            raise SystemExit(f"a process ended with {status}")
        first = int.from_bytes(numbers[-4:], "big") + 1 if numbers else first
    sys.stdout.write(f"made {count}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
