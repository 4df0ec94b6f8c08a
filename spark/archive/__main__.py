"""Does one thing to the archive: ``python -m spark.archive``, with one JSON object on standard input.

    {"do": "keep", "root": directory, "bodies": false, "keep_days": n (0: for ever), "now_ms": n,
     "logs": [{"broker": name, "store": directory, "levels": "1s 5s …", "broker_address": "host:port" or ""}]}
    {"do": "list", "root": directory}
    {"do": "check", "root": directory}
    {"do": "find", "root": directory, "name": text, "topic": "", "broker": "", "from_ms": null, "to_ms": null,
     "count": 200, "with_content": false, "prefixes": null, "names": []: of topics that may be found; null: all}

It answers with lines of JSON on standard output; of what takes long, one for each file that is done. The last line is
the result. Exit code 0: done; 1: it could not be, and the last line is ``{"error": why}``.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from broker import log_lines
from spark.priority import give_way
from spark.scan import ScanEnded
from spark.store import DashboardError

from .files import Archive, gaps
from .search import Sought, search
from .writing import Log, archive_log, segments_of

logger = logging.getLogger(__name__)

_DAY_MS = 86_400_000
#: Of a search, for which somebody waits, beside a broker.
_NICENESS = 5
_ended = threading.Event()

Answer = dict[str, Any]


def keep(order: Mapping[str, Any]) -> Answer:
    """Write what is closed, and remove what is too old."""
    give_way()
    archive = Archive(Path(order["root"]))
    with archive.locked():
        logs = [Log(**{name: value for name, value in each.items() if value}) for each in order["logs"]]
        outcomes = [
            archive_log(archive, log, bodies=order["bodies"], is_wanted=lambda: not _ended.is_set(), tell=_tell_written)
            for log in logs
        ]
        days, there = order["keep_days"], {log.broker: segments_of(log) for log in logs}
        removed = archive.remove_older(order["now_ms"] - int(days * _DAY_MS), there) if days else 0
    return {"logs": [asdict(outcome) for outcome in outcomes], "removed": removed}


def listed(order: Mapping[str, Any]) -> Answer:
    """Say of each broker what there is."""
    archive = Archive(Path(order["root"]))
    return {"brokers": [_of_broker(archive, name) for name in archive.brokers()]}


def _of_broker(archive: Archive, name: str) -> Answer:
    entries = archive.entries(name)
    records, unreadable = 0, []
    for entry in entries:
        try:
            records += pq.read_metadata(entry.path).num_rows
        except (OSError, pa.ArrowException):
            unreadable.append(str(entry.path))
    return {
        "broker": name,
        "segments": len(entries),
        "records": records,
        "bytes": sum(entry.path.stat().st_size for entry in entries),
        "log_bytes": sum(entry.end - entry.start for entry in entries),
        "start": min((entry.start for entry in entries), default=None),
        "end": max((entry.end for entry in entries), default=None),
        "first_ms": min((entry.first_ms for entry in entries), default=None),
        "last_ms": max((entry.last_ms for entry in entries), default=None),
        "gaps": [[gap.start, gap.end] for gap in gaps(entries)],
        "unreadable": unreadable,
    }


def check(order: Mapping[str, Any]) -> Answer:
    """Compare each file with the checksum in its name."""
    give_way()
    archive = Archive(Path(order["root"]))
    damaged, count = [], 0
    for broker in archive.brokers():
        for entry in archive.entries(broker):
            if _ended.is_set():
                raise ScanEnded("Somebody ended the check.")
            count += 1
            if not entry.is_sound:
                damaged.append(str(entry.path))
            _tell({"checked": str(entry.path)})
    return {"checked": count, "damaged": damaged}


def find(order: Mapping[str, Any]) -> Answer:
    """Find messages by a name, beside the broker but not as a scan: somebody waits."""
    os.nice(_NICENESS)
    sought = Sought(**{name: value for name, value in order.items() if name not in ("do", "root")})
    found = search(Archive(Path(order["root"])), sought)
    return {
        "records": [{name: _as_json(value) for name, value in row.items()} for row in found.records],
        "is_cut": found.is_cut,
        "unreadable": found.unreadable,
    }


def _as_json(value: Any) -> Any:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


_THINGS: Mapping[str, Callable[[Mapping[str, Any]], Answer]] = {
    "keep": keep,
    "list": listed,
    "check": check,
    "find": find,
}


def _tell(line: Answer) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def _tell_written(path: Path) -> None:
    _tell({"written": str(path)})


def main() -> int:
    """Do what standard input says. Returns the exit code."""
    os.umask(0o077)
    log_lines.begin(level=logging.WARNING)
    signal.signal(signal.SIGTERM, lambda *_: _ended.set())
    order = json.load(sys.stdin)
    try:
        _tell(_THINGS[order["do"]](order))
    except (DashboardError, OSError, duckdb.Error) as error:
        _tell({"error": str(error)})
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
