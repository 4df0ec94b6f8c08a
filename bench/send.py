"""RocketMQ's own benchmark producer against both brokers, in turn, both flush modes, and with access control."""

from __future__ import annotations

import os
import re
import statistics
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.peers import running, work_directory
from bench.results import Row, Section, compared
from tests.interop import jars
from tests.interop.guarded import GUARDED, ROOT
from tests.interop.process import Child
from tests.interop.servers import SERVERS, Server

TITLE = "Sends: RocketMQ's own benchmark producer"
DEFINITION = (
    "`org.apache.rocketmq.example.benchmark.Producer -w 64 -s 128`: 64 threads, one message of 128 bytes a request, "
    "one connection, binary headers. Both brokers run all the time; the producer goes A B A B. It reports each 10 s; "
    "the first {skip} reports of a turn are warm-up. sync: answered after the data is on disk. Processor time is that "
    "of the broker's process, user and system. With access control every send is signed by one who may do everything."
)
REPORT_MS = 10_000
RATE = re.compile(r"Send TPS: (\d+).*Send Failed: (\d+).*Response Failed: (\d+)")
Look = Callable[[list[str]], list[re.Match[str]] | None]


@dataclass(frozen=True, slots=True)
class Case:
    """A way in which both brokers run, and the arguments that tell the producer of it."""

    name: str
    flush: str
    servers: Mapping[str, Callable[..., Server]]
    arguments: tuple[str, ...] = ()


CASES = (
    Case("flush sync", "sync", SERVERS),
    Case("flush async", "async", SERVERS),
    Case("flush async, with access control", "async", GUARDED, ("-a", "true", "-ak", ROOT[0], "-sk", ROOT[1])),
)


@dataclass(frozen=True, slots=True)
class Turn:
    """The figures of one run of the producer after its warm-up."""

    rates: list[int]
    failed: int
    processor_us: float


def measure(options: Namespace, at: str) -> Section:
    """Measure all cases; `options.quick` makes turns short."""
    turns, skip, take = (1, 1, 1) if options.quick else (2, 2, 3)
    rows: list[Row] = []
    notes: list[str] = []
    for case in CASES:
        ours, theirs = measured(case, turns, skip, take)
        rows += compare(case.name, ours, theirs)
        notes += [f"{case.name}, escapement: {describe(ours)}", f"{case.name}, apache: {describe(theirs)}"]
    return Section("send", TITLE, DEFINITION.format(skip=skip), "python -m bench send", at, rows, notes)


def measured(case: Case, turns: int, skip: int, take: int) -> tuple[list[Turn], list[Turn]]:
    """Return turns of our broker and of Apache RocketMQ, one after the other while both run."""
    taken: dict[str, list[Turn]] = {"escapement": [], "apache": []}
    with (
        work_directory() as base,
        running("escapement", base, case.flush, case.servers) as ours,
        running("apache", base, case.flush, case.servers) as theirs,
    ):
        for _ in range(turns):
            for server in (ours, theirs):
                taken[server.name].append(turn(server, base, skip, take, case.arguments))
    return taken["escapement"], taken["apache"]


def compare(name: str, ours: list[Turn], theirs: list[Turn]) -> list[Row]:
    """Return the ratio of the medians of all reports, and the processor time a send costs each broker."""
    rate = [statistics.median(rate for one in turns for rate in one.rates) for turns in (ours, theirs)]
    cost = [statistics.median(one.processor_us for one in turns) for turns in (ours, theirs)]
    return [
        compared(name, rate[0], rate[1], "sends/s", ">= 1.0", lambda ratio: ratio >= 1),
        compared(f"{name}, broker's processor time", cost[0], cost[1], "us/send", "", lambda _: True),
    ]


def describe(turns: list[Turn]) -> str:
    """Tell all reports, and failures if there were any."""
    failed = sum(one.failed for one in turns)
    return f"reports {[rate for one in turns for rate in one.rates]}" + (f", {failed} sends failed" if failed else "")


def turn(server: Server, base: Path, skip: int, take: int, more: tuple[str, ...] = ()) -> Turn:
    """Run the producer once."""
    library = f"{jars.library(jars.APACHE_VERSION)}/*"
    arguments = ["-n", server.namesrv, "-t", "BenchmarkTest", "-w", "64", "-s", "128", "-ri", str(REPORT_MS), *more]
    options = ["-Xms512m", "-Xmx512m", f"-Duser.home={base}"]
    main = "org.apache.rocketmq.example.benchmark.Producer"
    child = Child([jars.tool("java"), *options, "-cp", library, main, *arguments], log=base / "producer.err")
    try:
        before = child.wait_for(reports(skip), (skip + 3) * REPORT_MS / 1000 + 20, "the warm-up")
        begin_s = processor_s(server.pid)
        after = child.wait_for(reports(skip + take), (take + 3) * REPORT_MS / 1000, "the reports")
        used_s = processor_s(server.pid) - begin_s
    finally:
        child.kill()
    rates = [int(match[1]) for match in after[skip:]]
    done = Turn(rates, failures(after[-1]) - failures(before[-1]), used_s * 1e6 / (sum(rates) * REPORT_MS / 1000))
    print(f"  {server.name} {server.shape.flush}: {done}", file=sys.stderr)
    return done


def reports(wanted: int) -> Look:
    """Return the first reports of the producer, once there are so many."""

    def look(lines: list[str]) -> list[re.Match[str]] | None:
        found = [match for match in map(RATE.search, lines) if match]
        return found[:wanted] if len(found) >= wanted else None

    return look


def failures(report: re.Match[str]) -> int:
    """Return the counts of failed sends and failed answers since the producer's start."""
    return int(report[2]) + int(report[3])


def processor_s(pid: int) -> float:
    """Return the user and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
