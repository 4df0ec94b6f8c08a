"""A large store: how soon a broker is ready after it was killed, and what it holds in memory."""

from __future__ import annotations

import json
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

from bench.peers import make, work_directory
from bench.results import REPOSITORY, Row, Section
from bench.storage import anonymous_mb, ready

TITLE = "Large stores"
DEFINITION = (
    "{messages:,} messages of 128 bytes in 4 queues and {timers:,} timers with a schedule key each, due at random "
    "within 30 days, taken by the engine in a process of its own, which is killed with SIGKILL (`bench.filling`); then "
    "a broker is started on the store, killed, started, killed, started, stopped and started. *Ready* is the first "
    "send that is answered. The page cache is as it comes. Memory is RssAnon, the highest after each start."
)
FULL, QUICK = (50_000_000, 10_000_000), (200_000, 20_000)
READY_S, MEMORY_MB = 3, 120


def measure(options: Namespace, at: str) -> Section:
    """Fill a store, or take the one in `options.store`, and measure our broker on it."""
    messages, timers = QUICK if options.quick else FULL
    with work_directory() as base:
        server = make("escapement", base, "async")
        server.prepare()
        if options.store:
            server.root = Path(options.store)
        else:
            fill(server.root, timers, messages)
        starts: list[float] = []
        memory_mb = 0.0
        try:
            for is_killed in (True, True, False):
                starts.append(ready(server))
                memory_mb = max(memory_mb, anonymous_mb(server.pid))
                server.kill() if is_killed else server.stop()
            starts.append(ready(server))
            memory_mb = max(memory_mb, anonymous_mb(server.pid))
        finally:
            server.kill()
    names = ("ready after the filling process was killed", "ready after kill -9", "... once more", "ready after a stop")
    rows = [
        Row(name, f"{took_s:.2f} s", target=f"<= {READY_S} s", holds=took_s <= READY_S)
        for name, took_s in zip(names, starts, strict=True)
    ]
    rows.append(Row("memory", f"{memory_mb:.0f} MB", target=f"<= {MEMORY_MB} MB", holds=memory_mb <= MEMORY_MB))
    definition = DEFINITION.format(messages=messages, timers=timers)
    return Section("large", TITLE, definition, "python -m bench large", at, rows, peer="")


def fill(root: Path, timers: int, messages: int) -> None:
    """Fill a store in a process that ends by SIGKILL."""
    command = [sys.executable, "-m", "bench.filling", str(root), str(timers), str(messages)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=7_200, check=False)
    if not done.stdout:
        raise RuntimeError(f"the store was not filled: {done.stderr[-2_000:]}")
    print(f"  filled: {json.loads(done.stdout)}", file=sys.stderr)
