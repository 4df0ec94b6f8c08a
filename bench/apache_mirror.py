"""An idle Apache RocketMQ broker with many topics: what our mirror takes of it."""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from bench.consoles import busy
from bench.furnishing import create_groups, create_topics
from bench.installation import Installation, installed
from bench.peers import running, work_directory
from bench.results import Row, Section
from broker.client import Producer
from tests.interop.servers import Server
from tests.interop.waiting import wait_until

TITLE = "Our mirror beside an Apache RocketMQ broker"
DEFINITION = (
    "An Apache RocketMQ 5.5.0 broker with {topics:,} topics of {queues} queues, a message in each, and {groups} "
    "groups; nobody sends or consumes. Processor time of the broker's process (user and system) in {seconds} s: "
    "*without* a mirror, then *with* an installation (mirror, web, jobs; no page open) that follows it, {turns} times "
    "in turn, and without at the end; medians. Each time begins {rest} s after the last change; with the mirror, when "
    "it has read everything. *More* is with less without."
)
TARGET_PERCENT = 3.0
QUEUES, GROUPS = 4, 50
TOPIC, GROUP = "Idle-{:04}", "idle-{:02}"
CAUGHT_UP_S = 180


def measure(options: Namespace, at: str) -> Section:
    """Measure one broker, in turns."""
    topics, seconds, turns, rest_s = (100, 10, 1, 5) if options.quick else (1_000, 60, 3, 30)
    without: list[float] = []
    beside: list[float] = []
    mirror: list[float] = []
    with work_directory() as base, running("apache", base, "async") as server:
        furnish(server, topics)
        for number in range(turns):
            without.append(share(server.pid, seconds, rest_s))
            with followed(base / f"installation-{number}", server, topics) as one:
                time.sleep(rest_s)
                with busy(server.pid) as of_broker, busy(one.pid_of("--mirror")) as of_mirror:
                    time.sleep(seconds)
            beside.append(of_broker.percent)
            mirror.append(of_mirror.percent)
            print(f"  without {without[-1]:.1f} %, with {beside[-1]:.1f} %, mirror {mirror[-1]:.1f} %", file=sys.stderr)
        without.append(share(server.pid, seconds, rest_s))
    definition = DEFINITION.format(
        topics=topics, queues=QUEUES, groups=GROUPS, seconds=seconds, turns=turns, rest=rest_s
    )
    return Section(
        "apache-mirror", TITLE, definition, "python -m bench apache-mirror", at, rows(without, beside, mirror),
        [f"without: {listed(without)}; with: {listed(beside)}; the mirror itself: {listed(mirror)}"], "",
    )  # fmt: skip


def rows(without: list[float], beside: list[float], mirror: list[float]) -> list[Row]:
    """Return the broker's shares of a core and their difference."""
    alone, followed_ = statistics.median(without), statistics.median(beside)
    more = followed_ - alone
    return [
        Row("broker without our mirror, of a core", f"{alone:.1f} %"),
        Row("broker with our mirror, of a core", f"{followed_:.1f} %"),
        Row("... more", f"{more:.1f} %", "", "", f"<= {TARGET_PERCENT:g} %", more <= TARGET_PERCENT),
        Row("the mirror itself, of a core", f"{statistics.median(mirror):.1f} %"),
    ]


def listed(shares: list[float]) -> str:
    """Return all shares as they were measured, for a note."""
    return ", ".join(f"{share:.1f} %" for share in shares)


def furnish(server: Server, topics: int) -> None:
    """Make topics, groups, and a message in each topic; one by one: its broker tells name servers of each."""
    names = [TOPIC.format(number) for number in range(topics)]
    asyncio.run(create_topics(server.namesrv, names, QUEUES, window=1))
    asyncio.run(create_groups(server.namesrv, [GROUP.format(number) for number in range(GROUPS)], window=1))
    with Producer("furnish", server.namesrv) as producer:
        for name in names:
            producer.send(name, b"first")


@contextmanager
def followed(base: Path, server: Server, topics: int) -> Iterator[Installation]:
    """Yield an installation that has read the whole broker."""
    base.mkdir()
    newest = f"/topics/{TOPIC.format(topics - 1)}/"
    with installed(base, server.namesrv) as one:
        with closing(one.signed_in()) as client:
            if not wait_until(lambda: client.get(newest).status_code == 200, timeout_s=CAUGHT_UP_S):
                raise RuntimeError(f"the mirror did not catch up in {CAUGHT_UP_S} s")
        yield one


def share(pid: int, seconds: int, rest_s: int) -> float:
    """Return what a process takes of a core once it has come to rest, in percent."""
    time.sleep(rest_s)
    with busy(pid) as found:
        time.sleep(seconds)
    return found.percent
