"""Rounds of mixed traffic in which somebody is killed with SIGKILL: the offering JVM, our service, or the server."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from broker.redisson import DelayedQueue
from broker.redisson.server import connect
from tests.interop.redis_servers import RedisServer
from tests.interop.redisson import CURRENT, JavaQueues
from tests.interop.redisson_service import ServiceProcess
from tests.interop.redisson_traffic import PythonTraffic, Verdict, judge, settle
from tests.waiting import until

MAX_DELAY_MS = 400
MANY = 1_000_000
#: accepted by Python after the kill, and how long that and what comes before it may take
LITTLE_MORE, ACCEPTED_S = 40, 60
Kill = Callable[["Course"], None]


@dataclass(slots=True)
class Course:
    """One server, our service, a JVM with a live transfer task that offers too, and Python that offers and removes.

    Nobody takes: what is due stays in the target list, where each value can be counted. A value that BLPOP had handed
    to a killed client would be that client's loss, not the queue's.
    """

    work: Path
    seed: int
    server: RedisServer = field(init=False)
    service: ServiceProcess = field(init=False)
    java: JavaQueues = field(init=False)
    verdicts: list[Verdict] = field(default_factory=list)
    stuck: int = 0
    _javas: int = 0

    def __post_init__(self) -> None:
        self.server = RedisServer(self.work / "server", durable=True).start()
        self.service = ServiceProcess(self.server.url, self.work).start()
        self.java = self.new_java()

    def new_java(self) -> JavaQueues:
        """Another JVM."""
        self._javas += 1
        return JavaQueues(self.server.url, version=CURRENT, work=self.work / f"java-{self._javas}")

    def run(self, rounds: int, kill: Kill) -> str:
        """That many rounds; returns a line for people. Each round has a queue of its own."""
        draw = random.Random(self.seed)
        for number in range(rounds):
            self.verdicts.append(self.round(f"round-{number}", kill, draw))
        accepted = sum(verdict.accepted for verdict in self.verdicts)
        faults = [
            sum(len(getattr(verdict, kind)) for verdict in self.verdicts) for kind in ("lost", "doubled", "unknown")
        ]
        return (
            f"{rounds} rounds (seed {self.seed}): {accepted:,} accepted, lost {faults[0]}, doubled {faults[1]}, "
            f"unknown {faults[2]}, stuck {self.stuck}"
        )

    def round(self, name: str, kill: Kill, draw: random.Random) -> Verdict:
        """Traffic, one kill at a random moment, a little more traffic, then every value is counted."""
        queue = DelayedQueue(name, connect(self.server.url))
        self.java.open_live(name)
        java = self.java
        since = java.count()
        traffic = {"prefix": f"{name}-java-", "count": MANY, "rate": 300, "minMs": 0, "maxMs": MAX_DELAY_MS}
        java.begin("traffic.offer", name, live=True, say=True, **traffic)
        python = PythonTraffic(queue, f"{name}-python-", MAX_DELAY_MS, draw.randrange(1 << 30)).start()
        wanted = draw.randrange(40, 200)
        until(lambda: len(python.accepted) >= wanted, ACCEPTED_S)
        kill(self)
        least = len(python.accepted) + LITTLE_MORE
        until(lambda: len(python.accepted) >= least, ACCEPTED_S)
        python.stop()
        # Nothing else tells an offering JVM to stop: what it was asked for never ends.
        java.child.kill()
        accepted = python.accepted | {event["value"] for event in java.events("offered", since)}
        if self.java is java:
            self.java = self.new_java()
        self.stuck += not settle(self.server, queue, python.uncertain)
        with self.server.client() as client:
            arrived = [value.decode() for value in client.lrange(name, 0, -1)]
        tried = [*python.tried, *(value for value in arrived if value.startswith(f"{name}-java-"))]
        return judge(accepted, tried, arrived)

    def close(self) -> None:
        """End all processes."""
        self.java.child.kill()
        self.service.kill()
        self.server.kill()


def offering_java(course: Course) -> None:
    """Kill the JVM that offers and has the live transfer task."""
    course.java.child.kill()
    course.java = course.new_java()


def the_service(course: Course) -> None:
    """Kill our transfer service and start another."""
    course.service.kill()
    course.service.start()


def the_server(course: Course) -> None:
    """Kill the server, which writes each command to disk before it answers, and start it on the same port."""
    course.server.kill()
    course.server.start()


def anybody(course: Course) -> None:
    """One of the three."""
    random.choice([offering_java, the_service, the_server])(course)
