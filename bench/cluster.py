"""Spark over a cluster by its name servers: how fast a broker's messages are read, and how late a stream is."""

from __future__ import annotations

import json
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

from bench.peers import running, work_directory
from bench.results import REPOSITORY, Row, Section
from broker.client import Admin, Producer
from tests.interop.servers import Server

TITLE = "Spark over a cluster"
DEFINITION = (
    "{count:,} messages with bodies of 128 bytes in four queues of one broker (flush async, its other settings as they "
    'are: 32 messages a pull), read by `format("rocketmq")` in a local session of two tasks; broker and Spark share '
    "two cores. *Messages*: count, sum of sizes, ids and the latest time; *with properties and bodies*: the columns "
    "that there are where nobody chooses any, sum of the bodies' lengths too; median of {rounds}, from the query's "
    "start to its answer. *Stream*: one process sends {rate:,} messages a second (batches of {batch}) for {seconds} s, "
    "a query with `foreachBatch` counts them; the delay is from when a batch's oldest message was "
    "stored to when its count is there, the first {warm} s left out."
)
FULL, QUICK = 1_000_000, 100_000
ROUNDS, RATE, BATCH, SECONDS, WARM_S = 3, 5_000, 50, 40, 10
READ_PER_S, DELAY_S = 100_000, 10.0
TOPIC, FOLLOWED = "Backlog", "Followed"
BODY = bytes(range(128))
BODY_BATCH = 200


def measure(options: Namespace, at: str) -> Section:
    """Fill one broker after the other, and read it."""
    count = options.messages or (QUICK if options.quick else FULL)
    seconds = 20 if options.quick else SECONDS
    found: dict[str, dict[str, Any]] = {}
    with work_directory() as base:
        for kind in ("escapement", "apache"):
            with running(kind, base, "async") as server:
                _fill(server, count)
                found[kind] = _read("backlog", server, str(count), str(ROUNDS))
                if kind == "escapement":
                    found["stream"] = _followed(server, base, seconds)
    definition = DEFINITION.format(count=count, rounds=ROUNDS, rate=RATE, batch=BATCH, seconds=seconds, warm=WARM_S)
    rows = _rows(count, found["escapement"], found["apache"], found["stream"])
    notes = [f"{kind}: {_rounds(found[kind])}" for kind in ("escapement", "apache")]
    return Section("cluster", TITLE, definition, "python -m bench cluster", at, rows, notes, "Apache RocketMQ")


def _rows(count: int, ours: dict[str, Any], theirs: dict[str, Any], stream: dict[str, Any]) -> list[Row]:
    rates = {name: (count / _median(ours[name]), count / _median(theirs[name])) for name in ("messages", "bodies")}
    found = [
        Row(label, f"{mine:,.0f}/s", f"{other:,.0f}/s", f"{mine / other:.2f}", ">= 100,000/s", mine >= READ_PER_S)
        for label, (mine, other) in zip(("messages", "with properties and bodies"), rates.values(), strict=True)
    ]
    delays = sorted(stream["delays"])
    return [
        *found,
        Row("stream, sent", f"{stream['sent']:,.0f}/s"),
        Row("stream, delay median", f"{_median(delays):.1f} s"),
        Row("stream, delay max", f"{delays[-1]:.1f} s", "", "", "<= 10 s", delays[-1] <= DELAY_S),
        Row("... lost or twice", f"{stream['wrong']}", "", "", "0", stream["wrong"] == 0),
    ]


def _rounds(found: dict[str, Any]) -> str:
    return ", ".join(f"{name} {' '.join(f'{each:.1f}' for each in values)} s" for name, values in found.items())


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def _fill(server: Server, count: int) -> None:
    with Admin(server.namesrv) as admin:
        for topic in (TOPIC, FOLLOWED):
            admin.create_topic(topic, queues=4)
    with Producer("filling", server.namesrv) as producer:
        for _ in range(count // BODY_BATCH):
            producer.send_batch(TOPIC, [BODY] * BODY_BATCH)


def _read(name: str, server: Server, *arguments: str) -> dict[str, Any]:
    """Run one reading in a process of its own."""
    command = [sys.executable, "-m", "bench.cluster_reading", name, server.namesrv, *arguments]
    done = subprocess.run(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(f"  {server.name} {name}: {found}", file=sys.stderr)
    return found


def _followed(server: Server, base: Path, seconds: int) -> dict[str, Any]:
    """Send at a steady rate while a stream reads, once it has begun."""
    command = [sys.executable, "-m", "bench.cluster_reading", "stream", server.namesrv, str(base / "checkpoint")]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None
        for line in reader.stdout:
            if line.startswith("reading"):
                break
        sending = [sys.executable, "-m", "bench.following_send", server.namesrv, FOLLOWED]
        numbers = [str(RATE), str(seconds), str(BATCH)]
        sent = subprocess.run([*sending, *numbers], cwd=REPOSITORY, stdout=subprocess.PIPE, check=True)
        said, _ = reader.communicate(str(RATE * seconds + 1))
    answered = [moment for moment, _ in json.loads(sent.stdout)["answered"]]
    begin_ms = (answered[0] + WARM_S) * 1_000
    batches = json.loads(said.splitlines()[-1])["batches"]
    found = {
        "sent": len(answered) * BATCH / (answered[-1] - answered[0]),
        "delays": [(shown - oldest) / 1_000 for _, oldest, shown in batches if oldest >= begin_ms],
        "wrong": abs(sum(count for count, _, _ in batches) - len(answered) * BATCH - 1),
    }
    print(f"  stream: {found}", file=sys.stderr)
    return found
