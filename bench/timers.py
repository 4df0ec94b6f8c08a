"""Timers: how late at a steady rate, how fast a herd; beside Apache RocketMQ."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

from bench.disk import bare_syncs
from bench.peers import Measured, running, work_directory
from bench.results import Row, Section, compared
from tests.interop.programs import Program

TITLE = "Timers: lateness, the burst"
DEFINITION = (
    "One Java program sends timers (`DELIVER_MS`, bodies of 128 bytes) with `DefaultMQProducer` and receives them "
    "with `DefaultMQPushConsumer`, both of version 5.5.0. Steady: {rate:,} a second for {seconds} s, each due at "
    "random 1 to 10 s later, with flush async, RocketMQ's default, and flush sync; then {more:,} a second, to ours "
    "only. Burst: {herds} timers due in one millisecond, sent by 16 threads before it (Apache RocketMQ: the first "
    "number only), flush async; the rate is their number over the time from then to the last one's arrival. Brokers "
    "run one after the other."
)
TOPIC = "TimerLoad"
RATE, MORE, SPAN_MS, THREADS = 2_000, 5_000, 10_000, 16
P50_MS, P99_ASYNC_MS, P99_MS, MAX_MS = 1, 2, 5, 50
#: of the rate at which Apache RocketMQ delivers what is due together
HERD = 2.5
Event = dict[str, Any]


class Load:
    """The Java program on one broker."""

    def __init__(self, server: Measured, base: Path) -> None:
        self.server = server
        self.program = Program(
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
        told = self.program.ask(*fields, until=event, timeout_s=timeout_s)[-1]
        print(f"  {self.server.name} {fields}: {told}", file=sys.stderr)
        return told

    def end(self) -> None:
        """Stop the program of the client."""
        self.program.child.kill()


def measure(options: Namespace, at: str) -> Section:
    """Measure both brokers, part by part."""
    seconds, warm_s, herds = (5, 2, (20_000,)) if options.quick else (20, 5, (200_000, 500_000))
    late: dict[tuple[str, str], Event] = {}
    more: dict[str, Event] = {}
    notes: list[str] = []
    herd: dict[tuple[str, int], Event] = {}
    for kind in ("escapement", "apache"):
        for flush in ("async", "sync"):
            with work_directory() as base:
                if flush == "sync" and kind == "escapement":
                    notes.append(bare_syncs(base))
                with running(kind, base, flush) as server:
                    load = Load(server, base)
                    load.steady(RATE, warm_s)
                    late[kind, flush] = load.steady(RATE, seconds)
                    if kind == "escapement":
                        more[flush] = load.steady(MORE, seconds)
                    load.end()
        with work_directory() as base, running(kind, base, "async") as server:
            load = Load(server, base)
            load.accept(30_000, 0)  # warm-up
            for count in herds if kind == "escapement" else herds[:1]:
                herd[kind, count] = load.herd(count, 8_000 + count // 11)
            load.end()
    rows = [*steady_rows(late, "async"), *steady_rows(late, "sync"), *more_rows(more), *herd_rows(herd, herds)]
    definition = DEFINITION.format(
        rate=RATE, more=MORE, seconds=seconds, herds=" and ".join(f"{count:,}" for count in herds)
    )
    return Section("timers", TITLE, definition, "python -m bench timers", at, rows, notes)


def steady_rows(late: dict[tuple[str, str], Event], flush: str) -> list[Row]:
    """Return the rows of lateness, and that none was early, lost or delivered twice."""
    ours, theirs = late["escapement", flush], late["apache", flush]
    limits = {"p50": P50_MS, "p99": P99_ASYNC_MS if flush == "async" else P99_MS, "max": MAX_MS}
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


def more_rows(more: dict[str, Event]) -> list[Row]:
    """Return the rows of the higher rate."""
    rows = []
    for flush, each in more.items():
        p99, wrong = each["p99"], each["early"] + each["lost"] + each["twice"]
        words = f"flush {flush}, {MORE:,}/s, lateness p99"
        rows.append(Row(words, f"{p99} ms", target=f"<= {P99_MS} ms", holds=p99 <= P99_MS))
        rows.append(Row("... early, lost or twice", str(wrong), target="0", holds=not wrong))
    return rows


def herd_rows(herd: dict[tuple[str, int], Event], herds: tuple[int, ...]) -> list[Row]:
    """Return the rate at which a herd arrives, each against Apache's first, and that it arrived whole."""
    rows = []
    theirs = herd["apache", herds[0]]
    for count in herds:
        ours = herd["escapement", count]
        ours_per_s, theirs_per_s = (
            each["count"] * 1_000 / max(1, each["lastMs"] - each["dueMs"]) for each in (ours, theirs)
        )
        words, target = f"burst of {count:,}", f">= {HERD}"
        rows.append(compared(words, ours_per_s, theirs_per_s, "messages/s", target, lambda ratio: ratio >= HERD))
        wrong = [str(each["early"] + each["lost"] + each["twice"]) for each in (ours, theirs)]
        rows.append(Row("... early, lost or twice", wrong[0], wrong[1], "", "0", wrong[0] == "0"))
    return rows
