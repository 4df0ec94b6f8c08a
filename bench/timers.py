"""Timers: how late at a steady rate, how fast a herd, how fast they are taken; beside Apache RocketMQ."""

from __future__ import annotations

import statistics
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

from bench.disk import bare_syncs
from bench.peers import running, work_directory
from bench.results import Row, Section, compared
from tests.interop.programs import Program
from tests.interop.servers import Server

TITLE = "Timers: lateness, the burst, accepting"
DEFINITION = (
    "One Java program sends timers (`DELIVER_MS`, bodies of 128 bytes) with `DefaultMQProducer` and receives them "
    "with `DefaultMQPushConsumer`, both of version 5.5.0. Steady: {rate:,} a second for {seconds} s, each due at "
    "random 1 to 10 s later, with flush async, RocketMQ's default, and flush sync. Burst: {herds} timers due in one "
    "millisecond, sent by 16 threads before it (Apache RocketMQ: the first number only); the rate is their number "
    "over the time from then to the last one's arrival. Accepting: {accepted:,} timers from 16 threads that "
    "wait for each answer, and as many plain messages, in turns, on a topic that nobody consumes, medians of "
    "{rounds}. Burst and accepting with flush async on both, RocketMQ's default. Brokers run one after the other."
)
TOPIC = "TimerLoad"
RATE, SPAN_MS, THREADS = 2_000, 10_000, 16
P50_MS, P99_MS, MAX_MS = 1, 5, 50
Event = dict[str, Any]


class Load:
    """The Java program on one broker."""

    def __init__(self, server: Server, base: Path) -> None:
        self.server = server
        self._program = Program(
            "TimerLoad", [server.namesrv, TOPIC, "readers"], version="5.5.0", work=base, fast_start=False
        )

    def steady(self, rate: int, seconds: int) -> Event:
        """Measure lateness in ms at a steady rate."""
        return self._ask("lateness", "steady", rate, seconds, SPAN_MS, timeout_s=seconds + 120)

    def herd(self, count: int, lead_ms: int) -> Event:
        """Measure how soon all of a herd arrived."""
        return self._ask("lateness", "herd", count, lead_ms, THREADS, timeout_s=lead_ms / 1000 + 300)

    def accept(self, count: int, delay_s: int) -> float:
        """Return messages taken a second; `delay_s` 0: plain ones."""
        told = self._ask("accepted", "accept", count, delay_s, THREADS, timeout_s=900)
        return float(told["count"] - told["failed"]) / float(told["elapsedMs"]) * 1_000

    def fill(self, count: int, from_s: int, until_s: int) -> float:
        """Take timers due evenly between two moments; messages a second."""
        told = self._ask("accepted", "fill", count, from_s, until_s, THREADS, timeout_s=7_200)
        return float(told["count"] - told["failed"]) / float(told["elapsedMs"]) * 1_000

    def _ask(self, event: str, *fields: object, timeout_s: float) -> Event:
        told = self._program.ask(*fields, until=event, timeout_s=timeout_s)[-1]
        print(f"  {self.server.name} {fields}: {told}", file=sys.stderr)
        return told

    def end(self) -> None:
        """Stop the program of the client."""
        self._program.child.kill()


def measure(options: Namespace, at: str) -> Section:
    """Measure both brokers, part by part."""
    quick = options.quick
    seconds, herds, accepted, rounds = (5, (20_000,), 20_000, 1) if quick else (20, (200_000, 500_000), 60_000, 7)
    late: dict[tuple[str, str], Event] = {}
    notes: list[str] = []
    rates: dict[str, dict[str, float]] = {"escapement": {}, "apache": {}}
    herd: dict[tuple[str, int], Event] = {}
    for kind in ("escapement", "apache"):
        for flush in ("async", "sync"):
            with work_directory() as base:
                if flush == "sync" and kind == "escapement":
                    notes.append(bare_syncs(base))
                with running(kind, base, flush) as server:
                    load = Load(server, base)
                    load.steady(RATE, 2 if quick else 5)  # warm-up
                    late[kind, flush] = load.steady(RATE, seconds)
                    load.end()
        with work_directory() as base, running(kind, base, "async") as server:
            load = Load(server, base)
            load.accept(accepted // 2, 0)  # warm-up
            rates[kind] = accepting(load, accepted, rounds)
            for count in herds if kind == "escapement" else herds[:1]:
                herd[kind, count] = load.herd(count, 8_000 + count // 11)
            load.end()
    rows = [*steady_rows(late, "async"), *steady_rows(late, "sync"), *herd_rows(herd, herds), *accepting_rows(rates)]
    definition = DEFINITION.format(
        rate=RATE,
        seconds=seconds,
        herds=" and ".join(f"{count:,}" for count in herds),
        accepted=accepted,
        rounds=rounds,
    )
    return Section("timers", TITLE, definition, "python -m bench timers", at, rows, notes)


def accepting(load: Load, count: int, rounds: int) -> dict[str, float]:
    """Return the medians of timers and plain messages in turns."""
    taken: dict[str, list[float]] = {"timers": [], "plain": []}
    for _ in range(rounds):
        taken["timers"].append(load.accept(count, 86_400))
        taken["plain"].append(load.accept(count, 0))
    return {name: statistics.median(values) for name, values in taken.items()}


def steady_rows(late: dict[tuple[str, str], Event], flush: str) -> list[Row]:
    """Return the rows of lateness, and that none was early, lost or delivered twice."""
    ours, theirs = late["escapement", flush], late["apache", flush]
    limits = {"p50": P50_MS, "p99": P99_MS, "max": MAX_MS}
    rows = [
        Row(
            f"flush {flush}, lateness {name}", f"{ours[name]} ms", f"{theirs[name]} ms",
            f"{ours[name] / theirs[name]:.3f}" if theirs[name] else "", f"<= {limit} ms", ours[name] <= limit,
        )
        for name, limit in limits.items()
    ]  # fmt: skip
    for name in ("early", "lost", "twice"):
        rows.append(Row(f"... {name}", str(ours[name]), str(theirs[name]), "", "0", ours[name] == 0))
    return rows


def herd_rows(herd: dict[tuple[str, int], Event], herds: tuple[int, ...]) -> list[Row]:
    """Return the rate at which a herd arrives, each against Apache's first, and that it arrived whole."""
    rows = []
    theirs = herd["apache", herds[0]]
    for count in herds:
        ours = herd["escapement", count]
        rates = [each["count"] * 1_000 / max(1, each["lastMs"] - each["dueMs"]) for each in (ours, theirs)]
        rows.append(compared(f"burst of {count:,}", *rates, "messages/s", ">= 1.0", lambda ratio: ratio >= 1))
        wrong = [str(each["early"] + each["lost"] + each["twice"]) for each in (ours, theirs)]
        rows.append(Row("... early, lost or twice", wrong[0], wrong[1], "", "0", wrong[0] == "0"))
    return rows


def accepting_rows(rates: dict[str, dict[str, float]]) -> list[Row]:
    """Return the rows of timers against Apache's, and against our own plain sends."""
    ours, theirs = rates["escapement"], rates["apache"]
    share = [each["timers"] / each["plain"] for each in (ours, theirs)]
    return [
        compared("timers accepted", ours["timers"], theirs["timers"], "/s", ">= 1.0", lambda ratio: ratio >= 1),
        compared("plain messages accepted", ours["plain"], theirs["plain"], "/s", "", lambda _: True),
        Row("timers / plain", f"{share[0]:.2f}", f"{share[1]:.2f}", "", ">= 0.9", share[0] >= 0.9),
    ]
