"""The lateness of delayed messages that arrive at a steady rate, and whether any is early."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

from bench.peers import running, work_directory
from bench.results import Row, Section, share
from broker.client import Admin
from tests.interop.programs import Program
from tests.interop.servers import Server

TITLE = "Delay levels: lateness"
DEFINITION = (
    "One Java program sends {rate:,} messages a second at delay level 1 (1 s) for {seconds} s with "
    "`DefaultMQProducer` and receives them with `DefaultMQPushConsumer`. Due is what the level's own queue entry says "
    "(request 321). The first {skip} s are warm-up."
)
TOPIC, LANE = "Lateness", "SCHEDULE_TOPIC_XXXX"
RATE, SKIP_S, LEVEL = 2_000, 10, 1
PAGE = 1_000
P99_TARGET_MS = 10


def measure(options: Namespace, at: str) -> Section:
    """Measure both brokers one after the other, the disk flushed before each answer."""
    seconds = 15 if options.quick else 40
    late: dict[str, list[int]] = {}
    for kind in ("escapement", "apache"):
        with work_directory() as base, running(kind, base, "sync") as server:
            late[kind] = lateness(server, base, seconds)
            print(f"  {kind}: p99 {share(late[kind], 0.99)} ms of {len(late[kind])}", file=sys.stderr)
    ours, theirs = late["escapement"], late["apache"]
    rows = [row(f"p{int(part * 100)}", share(ours, part), share(theirs, part)) for part in (0.5, 0.99)]
    rows.append(row("max", ours[-1], theirs[-1]))
    early = [sum(1 for each in values if each < 0) for values in (ours, theirs)]
    rows.append(Row("early", str(early[0]), str(early[1]), "", "0", early[0] == 0))
    notes = [f"messages counted: ours {len(ours):,}, theirs {len(theirs):,}; flush sync on both"]
    definition = DEFINITION.format(rate=RATE, seconds=seconds, skip=SKIP_S)
    return Section("lateness", TITLE, definition, "python -m bench lateness", at, rows, notes)


def row(name: str, ours: int, theirs: int) -> Row:
    """Return a row of one figure in ms; only p99 has a target."""
    aim = name == "p99"
    ratio = f"{ours / theirs:.2f}" if theirs else ""
    target = f"<= {P99_TARGET_MS} ms" if aim else ""
    return Row(f"lateness {name}", f"{ours} ms", f"{theirs} ms", ratio, target, ours <= P99_TARGET_MS if aim else None)


def lateness(server: Server, base: Path, seconds: int) -> list[int]:
    """Return arrival minus due of every message after the warm-up, in ms, sorted; raise if one never arrived."""
    arguments = [server.namesrv, TOPIC, str(LEVEL), str(RATE), str(seconds)]
    program = Program("Lateness", arguments, version="5.5.0", work=base, fast_start=False)
    program.await_event("end", timeout_s=seconds + 90)
    arrivals = {event["offset"]: event["arrivedMs"] for event in program.events("late")}
    program.close()
    due = due_times(server)
    begin_ms = min(due[offset] for offset in arrivals) + SKIP_S * 1_000
    counted = {offset: arrived for offset, arrived in arrivals.items() if due[offset] >= begin_ms}
    missing = [offset for offset, arrived in counted.items() if not arrived]
    if missing:
        raise RuntimeError(f"{server.name}: {len(missing)} messages never arrived, first {missing[:3]}")
    return sorted(arrived - due[offset] for offset, arrived in counted.items())


def due_times(server: Server) -> dict[int, int]:
    """Return the due time in ms by offset in the lane, as the lane's queue entries say."""
    due: dict[int, int] = {}
    with Admin(server.namesrv) as admin:
        while True:
            page = admin.queue_entries(LANE, LEVEL - 1, len(due), PAGE)
            due.update({entry.offset: entry.tags_code for entry in page.entries})
            if not page.entries or len(due) >= page.max_offset:
                return due
