"""Memory after many messages, and how soon a broker with such a store is ready."""

from __future__ import annotations

import shutil
import sys
import time
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path

from bench.peers import first_answer_s, make, work_directory
from bench.results import Row, Section
from tests.interop.programs import Program
from tests.interop.servers import Server

TITLE = "Memory and recovery"
DEFINITION = (
    "{count:,} messages of 128 bytes, stored by the official client in batches of 100 with 4 threads (flush async), "
    "then the broker is killed with SIGKILL and started, then stopped cleanly and started. The heap of Apache RocketMQ "
    "is 2 GB."
)
TOPIC = "Storage"
FULL, QUICK = 5_000_000, 200_000
MEMORY_MB, KILLED_S, CLEAN_S = 100, 5, 2


@dataclass(frozen=True, slots=True)
class Stored:
    """The figures of what one broker did with the messages."""

    rate_per_s: float
    memory_mb: float
    killed_s: float
    clean_s: float


def measure(options: Namespace, at: str) -> Section:
    """Measure both brokers, one after the other."""
    count = options.messages or (QUICK if options.quick else FULL)
    with work_directory() as base:
        results = {kind: store(make(kind, base, "async"), base, count) for kind in ("escapement", "apache")}
    ours, theirs = results["escapement"], results["apache"]
    rows = [
        row("anonymous memory", ours.memory_mb, theirs.memory_mb, "MB", MEMORY_MB, 0),
        row("ready after kill -9", ours.killed_s, theirs.killed_s, "s", KILLED_S, 2),
        row("ready after a clean stop", ours.clean_s, theirs.clean_s, "s", CLEAN_S, 2),
        Row(
            "stored in batches of 100",
            f"{ours.rate_per_s:,.0f}/s",
            f"{theirs.rate_per_s:,.0f}/s",
            f"{ours.rate_per_s / theirs.rate_per_s:.2f}",
        ),
    ]
    return Section("storage", TITLE, DEFINITION.format(count=count), "python -m bench storage", at, rows, [])


def row(name: str, ours: float, theirs: float, unit: str, limit: float, digits: int) -> Row:
    """Return the row of a figure that must stay under a limit."""
    values = [f"{value:,.{digits}f} {unit}" for value in (ours, theirs)]
    return Row(name, values[0], values[1], f"{ours / theirs:.2f}", f"<= {limit} {unit}", ours <= limit)


def store(server: Server, base: Path, count: int) -> Stored:
    """Fill one broker and take its figures."""
    server.start()
    try:
        arguments = [server.namesrv, TOPIC, str(count), "4", "100", "128", "0"]
        program = Program("Fill", arguments, version="5.5.0", work=base, fast_start=False)
        filled = program.await_event("filled", timeout_s=1_800)
        program.child.kill()
        memory_mb = anonymous_mb(server.pid)
        server.kill()
        killed_s = ready(server)
        memory_mb = max(memory_mb, anonymous_mb(server.pid))
        server.stop()
        clean_s = ready(server)
    finally:
        server.kill()
        shutil.rmtree(server.root, ignore_errors=True)
    result = Stored(filled["count"] / filled["elapsedMs"] * 1_000, memory_mb, killed_s, clean_s)
    print(f"  {server.name}: {result}", file=sys.stderr)
    return result


def ready(server: Server) -> float:
    """Return the seconds from the start of the broker's process to its first answer to a send."""
    server.prepare()
    begin_s = time.monotonic()
    server.launch()
    return first_answer_s(server.address, TOPIC, begin_s=begin_s, timeout_s=120)


def anonymous_mb(pid: int) -> float:
    """Return the RssAnon of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"no RssAnon for {pid}")
