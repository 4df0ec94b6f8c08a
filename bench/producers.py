"""RocketMQ's own benchmark producers on one broker: plain messages, and transactions that are committed immediately."""

from __future__ import annotations

import os
import re
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.peers import Measured
from tests.interop import jars
from tests.interop.process import Child

REPORT_MS = 5_000
#: Reports of a turn that are warm-up, and those that count.
SKIP, TAKE = 2, 3


@dataclass(frozen=True, slots=True)
class Producer:
    """A program of `org.apache.rocketmq.example.benchmark`, its arguments, and how it reports."""

    main: str
    arguments: tuple[str, ...]
    report: re.Pattern[str]


PLAIN = Producer(
    "Producer", ("-w", "64", "-s", "128"), re.compile(r"Send TPS: (\d+).*Send Failed: (\d+).*Response Failed: (\d+)")
)
TRANSACTIONS = Producer(
    "TransactionProducer", ("-w", "32", "-s", "128"), re.compile(r"Send TPS:\s*(\d+).*Send Failed:\s*(\d+)")
)


@dataclass(frozen=True, slots=True)
class Turn:
    """The figures of one run of a producer after its warm-up: a second, failures, processor time of one message."""

    rates: list[float]
    failed: int
    #: of the broker's process
    processor_us: float
    #: of the producer's or consumer's
    client_us: float


def turn(
    producer: Producer, server: Measured, base: Path, *, skip: int = SKIP, take: int = TAKE,
    more: Sequence[str] = (), java: Sequence[str] = (),
) -> Turn:  # fmt: skip
    """Run a producer once; `more` are arguments of it, `java` of its Java."""
    library = f"{jars.library(jars.APACHE_VERSION)}/*"
    options = ["-Xms512m", "-Xmx512m", f"-Duser.home={base}", *java]
    arguments = ["-n", server.namesrv, "-t", "BenchmarkTest", *producer.arguments, "-ri", str(REPORT_MS), *more]
    main = f"org.apache.rocketmq.example.benchmark.{producer.main}"
    child = Child([jars.tool("java"), *options, "-cp", library, main, *arguments], log=base / "producer.err")

    def reports(lines: list[str], wanted: int) -> list[re.Match[str]] | None:
        found = [match for match in map(producer.report.search, lines) if match]
        return found[:wanted] if len(found) >= wanted else None

    wait_s = (skip + 3) * REPORT_MS / 1000 + 30
    try:
        before = child.wait_for(lambda lines: reports(lines, skip), wait_s, "the warm-up")
        begin_s = [processor_s(pid) for pid in (server.pid, child.pid)]
        after = child.wait_for(lambda lines: reports(lines, skip + take), wait_s + take * REPORT_MS / 1000, "reports")
        used_s = [processor_s(pid) - at_s for pid, at_s in zip((server.pid, child.pid), begin_s, strict=True)]
    finally:
        child.kill()
    rates = [float(match[1]) for match in after[skip:]]
    failed = sum(sum(map(int, match.groups()[1:])) * sign for match, sign in ((after[-1], 1), (before[-1], -1)))
    done = Turn(rates, failed, *(each_s * 1e6 / max(sum(rates) * REPORT_MS / 1000, 1) for each_s in used_s))
    print(f"  {server.name} {server.shape.flush}: {done}", file=sys.stderr)
    return done


def rate_of(turns: Sequence[Turn]) -> float:
    """Return the median of all reports."""
    return statistics.median(rate for one in turns for rate in one.rates)


def processor_us_of(turns: Sequence[Turn]) -> float:
    """Return the median of what one costs the broker's process, user and system."""
    return statistics.median(one.processor_us for one in turns)


def client_us_of(turns: Sequence[Turn]) -> float:
    """Return the median of what one costs the client's process."""
    return statistics.median(one.client_us for one in turns)


def processor_s(pid: int) -> float:
    """Return the user and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
