"""RocketMQ's own benchmark producer against both brokers, in turn, both flush modes."""

from __future__ import annotations

import re
import statistics
import sys
from argparse import Namespace
from pathlib import Path

from bench.peers import running, work_directory
from bench.rows import Row, Section, compared
from tests.interop import jars
from tests.interop.process import Child
from tests.interop.servers import Server

TITLE = "Sends: RocketMQ's own benchmark producer"
DEFINITION = (
    "`org.apache.rocketmq.example.benchmark.Producer -w 64 -s 128`: 64 threads, one message of 128 bytes a request, "
    "one connection, binary headers. Both brokers run all the time; the producer goes A B A B. It reports each 10 s; "
    "the first {skip} reports of a turn are warm-up. sync: answered after the data is on disk."
)
REPORT_MS = 10_000
RATE = re.compile(r"Send TPS: (\d+).*Send Failed: (\d+).*Response Failed: (\d+)")


def measure(options: Namespace, at: str) -> Section:
    """Both flush modes; `options.quick` makes turns short."""
    turns, skip, take = (1, 1, 1) if options.quick else (2, 2, 3)
    rows: list[Row] = []
    notes: list[str] = []
    for flush in ("sync", "async"):
        rates: dict[str, list[int]] = {"escapement": [], "apache": []}
        with work_directory() as base:
            with running("escapement", base, flush) as ours, running("apache", base, flush) as theirs:
                for _ in range(turns):
                    for server in (ours, theirs):
                        rates[server.name] += turn(server, base, skip, take)
        medians = {name: statistics.median(values) for name, values in rates.items()}
        rows.append(
            compared(f"flush {flush}", medians["escapement"], medians["apache"], "sends/s", ">= 1.0", lambda r: r >= 1)
        )
        notes.append(f"flush {flush}, reports: ours {rates['escapement']}, theirs {rates['apache']}")
    return Section("send", TITLE, DEFINITION.format(skip=skip), "python -m bench send", at, rows, notes)


def turn(server: Server, base: Path, skip: int, take: int) -> list[int]:
    """Sends/s of the reports after the warm-up."""
    library = f"{jars.library(jars.APACHE_VERSION)}/*"
    arguments = ["-n", server.namesrv, "-t", "BenchmarkTest", "-w", "64", "-s", "128", "-ri", str(REPORT_MS)]
    options = ["-Xms512m", "-Xmx512m", f"-Duser.home={base}"]
    main = "org.apache.rocketmq.example.benchmark.Producer"
    child = Child([jars.tool("java"), *options, "-cp", library, main, *arguments], log=base / "producer.err")
    wanted = skip + take

    def look(lines: list[str]) -> list[re.Match[str]] | None:
        found = [match for match in map(RATE.search, lines) if match]
        return found if len(found) >= wanted else None

    try:
        reports = child.wait_for(look, (wanted + 3) * REPORT_MS / 1000 + 20, f"{wanted} reports")
    finally:
        child.kill()
    failed = sum(int(number) for match in reports for number in match.groups()[1:])
    print(f"  {server.name} {server.shape.flush}: {[int(m[1]) for m in reports]}, {failed} failed", file=sys.stderr)
    if failed:
        raise RuntimeError(f"{server.name}: {failed} sends failed")
    return [int(match[1]) for match in reports[skip:]]
