"""RocketMQ's own benchmark of transactions against both brokers, in turn."""

from __future__ import annotations

import re
import statistics
import sys
from argparse import Namespace
from pathlib import Path

from bench.disk import bare_syncs
from bench.peers import running, work_directory
from bench.results import Row, Section, compared
from bench.send import processor_s
from tests.interop import jars
from tests.interop.process import Child
from tests.interop.servers import Server

TITLE = "Transactions: RocketMQ's own benchmark"
DEFINITION = (
    "`org.apache.rocketmq.example.benchmark.TransactionProducer -w 32 -s 128`, everything committed immediately: 32 "
    "threads, a half message and its commit each, binary headers. Both brokers run all the time; the producer goes "
    "A B A B. It reports each 10 s; the first {skip} reports of a turn are warm-up. Flush async, RocketMQ's default, "
    "and flush sync. Processor time is that of the broker's process, user and system."
)
REPORT_MS = 10_000
RATE = re.compile(r"Send TPS:\s*(\d+).*Send Failed:\s*(\d+)")
OPTIONS = ("-w", "32", "-s", "128", "-ri", str(REPORT_MS))


def measure(options: Namespace, at: str) -> Section:
    """Measure transactions a second; `options.quick` makes turns short."""
    turns, skip, take = (1, 1, 1) if options.quick else (2, 2, 3)
    rows: list[Row] = []
    notes: list[str] = []
    for flush in ("async", "sync"):
        taken: dict[str, list[tuple[list[int], float]]] = {"escapement": [], "apache": []}
        with work_directory() as base:
            if flush == "sync":
                notes.append(bare_syncs(base))
            with running("escapement", base, flush) as ours, running("apache", base, flush) as theirs:
                for _ in range(turns):
                    for server in (ours, theirs):
                        taken[server.name].append(turn(server, base, skip, take))
        rate = [statistics.median(rate for rates, _ in taken[name] for rate in rates) for name in taken]
        cost = [statistics.median(us for _, us in taken[name]) for name in taken]
        rows += [
            compared(f"flush {flush}", rate[0], rate[1], "transactions/s", ">= 1.0", lambda ratio: ratio >= 1),
            compared(f"flush {flush}, broker's processor time", cost[0], cost[1], "us/transaction", "", lambda _: True),
        ]
        for name, of_it in taken.items():
            notes.append(f"flush {flush}, {name}: reports {[rate for rates, _ in of_it for rate in rates]}")
    return Section("transactions", TITLE, DEFINITION.format(skip=skip), "python -m bench transactions", at, rows, notes)


def turn(server: Server, base: Path, skip: int, take: int) -> tuple[list[int], float]:
    """Run the producer once; return its reports after the warm-up, and the broker's us a transaction."""
    library = f"{jars.library(jars.APACHE_VERSION)}/*"
    java = ["-Xms512m", "-Xmx512m", f"-Duser.home={base}", "-cp", library]
    main = "org.apache.rocketmq.example.benchmark.TransactionProducer"
    arguments = ["-n", server.namesrv, "-t", "BenchmarkTest", *OPTIONS]
    child = Child([jars.tool("java"), *java, main, *arguments], log=base / "transactions.err")
    try:
        wait_s = (skip + 3) * REPORT_MS / 1000 + 20
        child.wait_for(lambda lines: reports(lines, skip), wait_s, "the warm-up")
        begin_s = processor_s(server.pid)
        rates = child.wait_for(lambda lines: reports(lines, skip + take), wait_s + take * REPORT_MS / 1000, "reports")
        used_s = processor_s(server.pid) - begin_s
    finally:
        child.kill()
    done = rates[skip:], used_s * 1e6 / max(sum(rates[skip:]) * REPORT_MS / 1000, 1)
    print(f"  {server.name}: {done}", file=sys.stderr)
    return done


def reports(lines: list[str], wanted: int) -> list[int] | None:
    """Return the first rates that the producer reported, once there are so many."""
    found = [int(match[1]) for match in map(RATE.search, lines) if match]
    return found[:wanted] if len(found) >= wanted else None
