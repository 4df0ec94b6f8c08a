"""`python -m bench.spark_reading scan|bodies|jobs|parquet STORE`: one reading, its figures as JSON."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark.jobs import JOBS
from spark.points import Question
from spark.records import OPTIONS
from spark.session import open_session
from spark.store import LogStore
from spark.view import view_of


def main() -> int:
    """Read as asked."""
    name, store = sys.argv[1:]
    session = open_session(cores=2, memory_mb=1024)
    # the first query of a session also starts the Python workers and warms Java up
    _log(session, store, columns="", end_position=str(1 << 20)).count()
    found = {"scan": _scan, "bodies": _bodies, "jobs": _jobs, "parquet": _parquet}[name](session, store)
    json.dump({"seconds": found.pop("all"), "each": found}, sys.stdout)
    session.stop()
    return 0


def _log(session: SparkSession, store: str, **options: str) -> DataFrame:
    return session.read.format("rocketmq_log").options(**options).load(store)


def _scan(session: SparkSession, store: str) -> dict[str, float]:
    return _timed(_log(session, store, columns="names"))


def _bodies(session: SparkSession, store: str) -> dict[str, float]:
    return _timed(_log(session, store, columns="names,body"), F.sum(F.length("body")))


def _timed(frame: DataFrame, *more: object) -> dict[str, float]:
    started_s = time.perf_counter()
    frame.agg(F.count("*"), F.sum("size"), F.count("unique_key"), F.max("store_ms"), *more).collect()
    return {"all": time.perf_counter() - started_s}


def _parquet(session: SparkSession, store: str) -> dict[str, float]:
    copy = str(Path(store).parent / "copy.parquet")
    _log(session, store, columns="names").write.mode("overwrite").parquet(copy)
    return _timed(session.read.parquet(copy))


def _jobs(session: SparkSession, store: str) -> dict[str, float]:
    started_s = time.perf_counter()
    took = {"all": 0.0}
    view = view_of(_log(session, store, **OPTIONS), keep=True)
    row = view.records.agg(F.max("store_ms")).first()
    assert row is not None
    took["scan"] = time.perf_counter() - started_s
    segments = [(segment.start, segment.size) for segment in LogStore(store).segments()]
    for name, job in JOBS.items():
        begun_s = time.perf_counter()
        sum(1 for _ in job(view, Question(row[0], segments=segments)).toLocalIterator())
        took[name] = time.perf_counter() - begun_s
    took["all"] = time.perf_counter() - started_s
    return took


if __name__ == "__main__":
    sys.exit(main())
