"""Spark over a large log: the scan alone, all dashboards, memory; beside a plain loop and a scan of Parquet."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.peers import work_directory
from bench.rows import REPOSITORY, Row, Section
from broker.engine.message import blank, decode, encode, format_properties, pack_host, record_size

TITLE = "Dashboards with Spark"
DEFINITION = (
    "A log of {count:,} records with bodies of 128 bytes (seven of ten plain, one parked on a delay level, one timer, "
    "one release), read on two cores. *Scan*: one aggregate over all rows, from the query's start to its answer. *All "
    "nine dashboards*: from the start of the process to the last result, session start included; memory is the most "
    "that Java and all Python processes held together, counted once where they share it."
)
FULL, QUICK = 5_000_000, 100_000
SEGMENT_BYTES = 256 << 20
START_MS = 1_795_000_000_000
#: Records that the plain loop reads: it takes the same time for each.
LOOP_RECORDS = 200_000
SCAN_PER_S, BODIES_PER_S, JOBS_S, MEMORY_MB = 400_000, 250_000, 90, 2_048


def measure(options: Namespace, at: str) -> Section:
    """Write the log, then let processes of their own read it."""
    count = options.messages or (QUICK if options.quick else FULL)
    with work_directory() as directory:
        store = directory / "store"
        write_log(store, count)
        found = {name: _asked(name, store) for name in ("scan", "bodies", "jobs", "parquet")}
        loop_per_s = _loop(store, min(count, LOOP_RECORDS))
    scan, bodies = count / found["scan"].seconds, count / found["bodies"].seconds
    parquet = count / found["parquet"].seconds
    jobs_s, memory_mb = found["jobs"].process_s, found["jobs"].peak_mb
    rows = [
        Row("scan without bodies", f"{scan:,.0f} records/s", "", "", ">= 400,000/s", scan >= SCAN_PER_S),
        Row("scan with bodies", f"{bodies:,.0f} records/s", "", "", ">= 250,000/s", bodies >= BODIES_PER_S),
        Row("against a plain Python loop", f"{scan:,.0f} /s", f"{loop_per_s:,.0f} /s", f"{scan / loop_per_s:.1f}"),
        Row("against the same columns in Parquet", f"{scan:,.0f} /s", f"{parquet:,.0f} /s", f"{scan / parquet:.2f}"),
        Row("all nine dashboards", f"{jobs_s:.1f} s", "", "", "<= 90 s", jobs_s <= JOBS_S),
        Row("memory", f"{memory_mb:,.0f} MB", "", "", "<= 2 GB", memory_mb <= MEMORY_MB),
    ]
    notes = [f"{name}: {seconds:.1f} s" for name, seconds in found["jobs"].each.items()]
    return Section(
        "spark", TITLE, DEFINITION.format(count=count), "python -m bench spark", at, rows, notes, "another way"
    )


def write_log(store: Path, count: int) -> None:
    """Write segments as the engine would."""
    (store / "commitlog").mkdir(parents=True)
    start, data = 0, bytearray()
    for number, (topic, properties) in enumerate(_records(count)):
        while True:
            record = _record(number, topic, properties, start + len(data))
            if len(data) + len(record) + 8 <= SEGMENT_BYTES:
                break
            data += blank(SEGMENT_BYTES - len(data))
            _close(store, start, data)
            start, data = start + SEGMENT_BYTES, bytearray()
        _POSITIONS[number % 10] = start + len(data)
        data += record
    _close(store, start, data)


#: Where the last ten records stand, so that a release can name what it releases.
_POSITIONS = [0] * 10
_HOST, _BODY = pack_host("127.0.0.1", 10911), bytes(range(128))


def _records(count: int) -> Iterator[tuple[str, dict[str, str]]]:
    for number in range(count):
        found = {"UNIQ_KEY": f"7F000001{number:024X}", "KEYS": f"order-{number // 6}", "TAGS": f"t{number % 5}"}
        found |= {"WAIT": "true", "MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
        topic, turn = f"topic-{number % 8}", number % 10
        if turn == 7:
            yield "SCHEDULE_TOPIC_XXXX", found | {"DELAY": "3", "REAL_TOPIC": topic, "REAL_QID": "0"}
        elif turn == 8:
            due = START_MS + number + 5
            yield "rmq_sys_wheel_timer", found | {"ESC_DUE_MS": str(due), "REAL_TOPIC": topic, "REAL_QID": "0"}
        elif turn == 9:
            yield topic, found | {"ESC_DUE_MS": str(START_MS + number + 4), "ESC_SOURCE": str(_POSITIONS[8])}
        else:
            yield topic, found


def _record(number: int, topic: str, properties: dict[str, str], position: int) -> bytes:
    name, stored, at_ms = topic.encode(), format_properties(properties), START_MS + number
    size = record_size(name, _BODY, stored, _HOST, _HOST)
    return encode(name, 0, number, position, _BODY, stored, 0, 0, at_ms, _HOST, at_ms, _HOST, 0, 0, size)


def _close(store: Path, start: int, data: bytearray) -> None:
    with (store / "commitlog" / f"{start:020d}").open("wb") as file:
        file.write(data)
        file.truncate(SEGMENT_BYTES)


def _loop(store: Path, count: int) -> float:
    """Return records a second that a loop with the engine's codec reads."""
    data = (store / "commitlog" / f"{0:020d}").read_bytes()
    started_s, at, sizes = time.perf_counter(), 0, 0
    for _ in range(count):
        size = int.from_bytes(data[at : at + 4], "big")
        if data[at + 4 : at + 8] == b"\xcb\xd4\x31\x94" or not size:
            break
        sizes += len(decode(data[at : at + size]).body)
        at += size
    return sizes / 128 / (time.perf_counter() - started_s)


@dataclass(frozen=True, slots=True)
class Reading:
    """What one process needed: its own time, the time from start to end, and the memory of it and its children."""

    seconds: float
    process_s: float
    peak_mb: float
    each: dict[str, float]


def _asked(name: str, store: Path) -> Reading:
    """Run one reading in a process of its own."""
    child = subprocess.Popen(
        [sys.executable, "-m", "bench.spark_reading", name, str(store)], cwd=REPOSITORY, stdout=subprocess.PIPE
    )
    peak = [0.0]
    watch = threading.Thread(target=_watch, args=(child, peak), daemon=True)
    started_s = time.perf_counter()
    watch.start()
    said, _ = child.communicate()
    took_s = time.perf_counter() - started_s
    watch.join()
    if child.returncode:
        raise RuntimeError(f"The reading {name!r} ended with {child.returncode}.")
    found = json.loads(said)
    return Reading(found["seconds"], took_s, peak[0], found["each"])


def _watch(child: subprocess.Popen[bytes], peak: list[float]) -> None:
    while child.poll() is None:
        total = 0
        try:
            processes = [psutil.Process(child.pid), *psutil.Process(child.pid).children(recursive=True)]
            total = sum(process.memory_full_info().pss for process in processes)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            pass
        peak[0] = max(peak[0], total / 1e6)
        threading.Event().wait(0.5)
