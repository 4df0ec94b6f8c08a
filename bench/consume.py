"""POP and the way through with RocketMQ's Java client on both brokers, then our client."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from argparse import Namespace
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.peers import running, work_directory
from bench.results import REPOSITORY, Row, Section, compared
from tests.interop.programs import Program
from tests.interop.servers import Server

TITLE = "POP, the way through, our client"
DEFINITION = (
    "One Java program with `DefaultMQProducer` and `DefaultMQPushConsumer` of 5.5.0 (their default settings, 4 queues, "
    "bodies of 128 bytes, flush async, RocketMQ's default). *POP*: {popped:,} messages taken by a new group that pops, "
    "from the first arrival in a handler to the last, acknowledgements included. "
    "Medians of {rounds}, the first {warm_ups} rounds are warm-up. *The way through*: {rate:,} single messages a "
    "second for {seconds} s, from when each ought to leave to its arrival, the first {warm} s left out; medians of "
    "{throughs} such runs after {through_warm_ups} that are warm-up (the compiler of the client's Java still works "
    "then). *Our client*: one Python process, {python:,} messages of 128 bytes, sends at most {window} at a time. "
    "Brokers run one after the other."
)
BATCH, THREADS, RATE, WARM_S, WINDOW = 50, 16, 5_000, 5, 256
POP_WARM_UPS, THROUGH_WARM_UPS = 2, 2
POP_RATIO, P99_MS, SENDS_PER_S, RECEIVED_PER_S = 2.5, 3, 60_000, 100_000
Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of a full or a quick run."""

    popped: int
    rounds: int
    throughs: int
    seconds: int
    python: int


FULL = Sizes(100_000, 7, 5, 15, 100_000)
QUICK = Sizes(10_000, 3, 3, 8, 10_000)


@dataclass(slots=True)
class Taken:
    """The figures of one broker: messages a second by round, and the way through."""

    pops: list[float] = field(default_factory=list)
    throughs: list[Event] = field(default_factory=list)
    python: Event = field(default_factory=dict)
    wrong: int = 0

    @property
    def pop(self) -> float:
        """The median of the rounds that count."""
        return statistics.median(self.pops[POP_WARM_UPS:])

    def through_ms(self, figure: str) -> float:
        """The median of a figure of the way through."""
        return float(statistics.median(each[figure] for each in self.throughs[THROUGH_WARM_UPS:])) / 1_000


def measure(options: Namespace, at: str) -> Section:
    """Measure both brokers, part by part."""
    sizes = QUICK if options.quick else FULL
    taken: dict[str, Taken] = {}
    for kind in ("escapement", "apache"):
        with work_directory() as base, running(kind, base, "async") as server:
            taken[kind] = take(server, base, sizes)
    ours, theirs = taken["escapement"], taken["apache"]
    rows = [
        compared(
            "backlog by POP", ours.pop, theirs.pop, "messages/s", f">= {POP_RATIO}", lambda ratio: ratio >= POP_RATIO
        )
    ]
    rows.append(Row("lost or twice", str(ours.wrong), str(theirs.wrong), "", "0", ours.wrong == 0))
    for figure in ("p50Us", "p99Us", "maxUs"):
        a, b = (one.through_ms(figure) for one in (ours, theirs))
        aim = figure == "p99Us"
        rows.append(
            Row(
                f"way through, {figure[:-2]}", f"{a:.1f} ms", f"{b:.1f} ms", f"{a / b:.2f}",
                f"<= {P99_MS} ms" if aim else "", a <= P99_MS if aim else None,
            )
        )  # fmt: skip
    for figure, target in (("sent", SENDS_PER_S), ("received", RECEIVED_PER_S)):
        a, b = (one.python[figure] for one in (ours, theirs))
        words = f"our client, {figure}"
        rows.append(Row(words, f"{a:,.0f} /s", f"{b:,.0f} /s", f"{a / b:.2f}", f">= {target:,}/s", a >= target))
    definition = DEFINITION.format(
        popped=sizes.popped, rounds=sizes.rounds - POP_WARM_UPS, warm_ups=POP_WARM_UPS, rate=RATE,
        throughs=sizes.throughs - THROUGH_WARM_UPS, through_warm_ups=THROUGH_WARM_UPS,
        seconds=sizes.seconds, warm=WARM_S, python=sizes.python, window=WINDOW,
    )  # fmt: skip
    return Section("consume", TITLE, definition, "python -m bench consume", at, rows)


def take(server: Server, base: Path, sizes: Sizes) -> Taken:
    """Measure all parts on one broker."""
    found = Taken()
    program = Program("FlowLoad", [server.namesrv, server.address], version="5.5.0", work=base, fast_start=False)

    def ask(until: str, *fields: object) -> Event:
        told: Event = program.ask(*fields, until=until, timeout_s=600)[-1]
        print(f"  {server.name} {fields}: {told}", file=sys.stderr)
        found.wrong += told.get("lost", 0) + told.get("twice", 0)
        return told

    try:
        for number in range(sizes.rounds):
            topic = f"Popped{number}"
            ask("sent", "batch", topic, sizes.popped, BATCH, THREADS)
            told = ask("drained", "drain", topic, f"poppers-{number}", sizes.popped, "pop")
            found.pops.append((told["count"] - told.get("failed", 0)) / told["elapsedMs"] * 1_000)
        for number in range(sizes.throughs):
            topic = f"Through{number}"
            found.throughs.append(ask("through", "through", topic, f"through-{number}", RATE, sizes.seconds, WARM_S))
    finally:
        program.child.kill()
    found.python = python_client(server, sizes.python)
    return found


def python_client(server: Server, count: int) -> Event:
    """Return messages a second that our client sends, then receives."""
    command = [sys.executable, "-m", "bench.consume_client", server.namesrv, str(count), str(WINDOW)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True, timeout=600)
    told: Event = json.loads(done.stdout)
    print(f"  {server.name}, our client: {told}", file=sys.stderr)
    return told
