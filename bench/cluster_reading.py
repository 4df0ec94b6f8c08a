"""`python -m bench.cluster_reading backlog NAMESRV COUNT ROUNDS`, or `stream NAMESRV CHECKPOINT`: figures as JSON.

The stream says `reading` when it begins, and ends when it has as many messages as standard input says at last.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.cluster import FOLLOWED, TOPIC
from spark.session import open_session

HEAP_MB = 896


def main() -> int:
    """Read as the arguments say, and print the figures."""
    name, namesrv, *rest = sys.argv[1:]
    session = open_session(master="local[2]", memory_mb=HEAP_MB, log_bytes=1 << 30)
    try:
        found = _backlog(session, namesrv, *map(int, rest)) if name == "backlog" else _stream(session, namesrv, *rest)
    finally:
        session.stop()
    print(json.dumps(found))
    return 0


def _backlog(session: SparkSession, namesrv: str, count: int, rounds: int) -> dict[str, list[float]]:
    frame = session.read.format("rocketmq").option("namesrv", namesrv)
    # the first query of a session also starts the Python workers and warms Java up
    frame.option("split", "1000").options(end=json.dumps({TOPIC: {"broker-a": {"0": 1000}}})).load(TOPIC).limit(
        9
    ).count()
    frame = session.read.format("rocketmq").option("namesrv", namesrv)
    sums = [F.count("*"), F.sum("size"), F.count("unique_key"), F.max("store_ms")]
    messages = [_timed(frame.option("columns", "names").load(TOPIC), count, sums) for _ in range(rounds)]
    frame = session.read.format("rocketmq").option("namesrv", namesrv)
    sums += [F.sum(F.length("body")), F.count("properties")]
    return {"messages": messages, "bodies": [_timed(frame.load(TOPIC), count, sums) for _ in range(rounds)]}


def _timed(frame: DataFrame, count: int, sums: list[Any]) -> float:
    started_s = time.perf_counter()
    (row,) = frame.agg(*sums).collect()
    took_s = time.perf_counter() - started_s
    if row[0] != count:
        raise RuntimeError(f"{row[0]} messages were read instead of {count}")
    return took_s


def _stream(session: SparkSession, namesrv: str, checkpoint: str) -> dict[str, list[Any]]:
    batches: list[tuple[int, int, float]] = []
    seen = threading.Condition()

    def add(batch: DataFrame, _: int) -> None:
        (row,) = batch.agg(F.count("*"), F.min("store_ms")).collect()
        with seen:
            if row[0]:
                batches.append((row[0], row[1], time.time() * 1_000))
            seen.notify()

    frame = session.readStream.format("rocketmq").option("namesrv", namesrv).load(FOLLOWED)
    writer = frame.writeStream.foreachBatch(add).option("checkpointLocation", checkpoint)
    query = writer.trigger(processingTime="1 second").start()
    print("reading", flush=True)
    wanted = int(sys.stdin.read())
    with seen:
        seen.wait_for(lambda: sum(count for count, _, _ in batches) >= wanted, timeout=60)
    query.stop()
    return {"batches": batches}


if __name__ == "__main__":
    sys.exit(main())
