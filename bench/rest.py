"""REST sends with wrk: single durable ones, and batches of 100."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

from bench.installation import installed
from bench.peers import work_directory
from bench.results import Row, Section

TITLE = "REST sends"
DEFINITION = (
    "`wrk` with 32 connections and 2 threads against the one public port of the whole installation (PostgreSQL, "
    "Valkey, broker, mirror, web on the same machine), every message on disk before its answer (201). Bodies of "
    "128 bytes. {seconds} s after a warm-up of {warm} s."
)
SCRIPT = """wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Authorization"] = "Bearer {token}"
wrk.body = [==[{body}]==]
"""
RATE = re.compile(r"Requests/sec:\s+([\d.]+)")
P99 = re.compile(r"99%\s+(\S+)")
BATCH = 100
SINGLE_TARGET, BATCH_TARGET = 15_000, 120_000


def measure(options: Namespace, at: str) -> Section:
    """Measure both on one installation."""
    warm, seconds = (2, 4) if options.quick else (5, 20)
    body = {"body": "x" * 128}
    with work_directory() as base, installed(base) as one:
        token = one.manage("token", "create", "bench", "--publish", "*").splitlines()[-1]
        topic = f"{one.base}/api/v1/topics/Rest/messages"
        single, single_p99 = wrk(base, topic, token, body, warm, seconds)
        batches, batch_p99 = wrk(base, f"{topic}:batch", token, {"messages": [body] * BATCH}, warm, seconds)
    rows = [
        row("single sends", single, single_p99, SINGLE_TARGET),
        row(f"messages in batches of {BATCH}", batches * BATCH, batch_p99, BATCH_TARGET),
    ]
    definition = DEFINITION.format(seconds=seconds, warm=warm)
    return Section("rest", TITLE, definition, "python -m bench rest", at, rows, [])


def row(name: str, rate: float, p99: str, target: int) -> Row:
    """Return the row of a rate that must be reached."""
    return Row(name, f"{rate:,.0f}/s (p99 {p99})", target=f">= {target:,}/s", holds=rate >= target)


def wrk(base: Path, url: str, token: str, body: object, warm_s: int, seconds: int) -> tuple[float, str]:
    """Return requests/s and p99 latency; raise when any answer was not 2xx."""
    program = shutil.which("wrk")
    if program is None:
        raise RuntimeError("wrk is not on the PATH: install it (apt-get install wrk)")
    script = base / "send.lua"
    script.write_text(SCRIPT.format(token=token, body=json.dumps(body)))
    output = ""
    for duration in (warm_s, seconds):
        command = [program, "-t2", "-c32", f"-d{duration}s", "--latency", "--timeout", "10s", "-s", str(script), url]
        output = subprocess.run(command, capture_output=True, text=True, timeout=duration + 60, check=True).stdout
    print(f"  {url}\n{output}", file=sys.stderr)
    rate, p99 = RATE.search(output), P99.search(output)
    if rate is None or p99 is None or "Non-2xx" in output or "Socket errors" in output:
        raise RuntimeError(f"wrk: {output}")
    return float(rate[1]), p99[1]
