"""`python -m bench.spark_reading NAME STORE SCRATCH`: one reading, its figures as JSON.

Names: scan, bodies, parquet, duckdb; all dashboards: jobs (by Spark), queries (by DuckDB), kept (again, after queries).
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from spark.by_duckdb import DuckdbEngine
from spark.by_spark import SparkEngine
from spark.engines import Engine
from spark.jobs import JOBS
from spark.order import scratch_for
from spark.priority import SPARED, available, chosen, give_way
from spark.question import Question
from spark.scan import Planned, Source, scan_of
from spark.session import open_session
from spark.store import LogStore
from spark.view import OPTIONS

#: What `ESCAPEMENT_DASHBOARDS_MEMORY_MB` is without a word.
HEAP_MB = 896
SQL = "SELECT count(*), sum(size), count(unique_key), max(store_ms) FROM read_parquet('{copy}/*.parquet')"


def main() -> int:
    """Read as the arguments say, and print its figures."""
    name, store, scratch = sys.argv[1:]
    if name in ("queries", "kept"):
        found = _by_duckdb(store, Path(scratch))
    else:
        found = _duckdb(Path(scratch)) if name == "duckdb" else _with_spark(name, store, Path(scratch))
    json.dump({"seconds": found.pop("all"), "each": found}, sys.stdout)
    return 0


def _with_spark(name: str, store: str, scratch: Path) -> dict[str, float]:
    cores = chosen(available(), 0, SPARED if name == "jobs" else 0)
    if name == "jobs":
        # both as spark/run.py does, the first before there is another process
        give_way()
        scratch = scratch_for([store], "", str(scratch))
    session = open_session(cores=len(cores), memory_mb=HEAP_MB, scratch=str(scratch))
    try:
        if name == "jobs":
            return _all_nine(SparkEngine(session), store, scratch, None)
        # the first query of a session also starts the Python workers and warms Java up
        _log(session, store, columns="", end_position=str(1 << 20)).count()
        return {"scan": _scan, "bodies": _bodies, "parquet": _parquet}[name](session, store, scratch)
    finally:
        session.stop()


def _log(session: SparkSession, store: str, **options: str) -> DataFrame:
    return session.read.format("rocketmq_log").options(**options).load(store)


def _scan(session: SparkSession, store: str, scratch: Path) -> dict[str, float]:
    return _timed(_log(session, store, columns="names"))


def _bodies(session: SparkSession, store: str, scratch: Path) -> dict[str, float]:
    return _timed(_log(session, store, columns="names,body"), F.sum(F.length("body")))


def _timed(frame: DataFrame, *more: Column) -> dict[str, float]:
    started_s = time.perf_counter()
    frame.agg(F.count("*"), F.sum("size"), F.count("unique_key"), F.max("store_ms"), *more).collect()
    return {"all": time.perf_counter() - started_s}


def _parquet(session: SparkSession, store: str, scratch: Path) -> dict[str, float]:
    copy, started_s = str(scratch / "export"), time.perf_counter()
    _log(session, store, columns="names").write.mode("overwrite").parquet(copy)
    export_s = time.perf_counter() - started_s
    return {"export": export_s, **_timed(session.read.parquet(copy))}


def _duckdb(scratch: Path) -> dict[str, float]:
    """Ask the Parquet that `parquet` exported."""
    import duckdb

    connection = duckdb.connect(config={"threads": 2})
    started_s = time.perf_counter()
    connection.execute(SQL.format(copy=scratch / "export")).fetchall()
    return {"all": time.perf_counter() - started_s}


def _by_duckdb(store: str, scratch: Path) -> dict[str, float]:
    """Compute all dashboards as ``spark/run.py`` does; what is kept of closed segments stays in ``scratch``."""
    give_way()
    columns = scratch_for([store], "", str(scratch))
    engine = DuckdbEngine(cores=len(chosen(available(), 0, SPARED)), memory_mb=HEAP_MB)
    try:
        return _all_nine(engine, store, columns, scratch / "kept")
    finally:
        engine.close()


def _all_nine(engine: Engine, store: str, scratch: Path, keep: Path | None) -> dict[str, float]:
    """Compute all dashboards as ``spark/run.py`` does, without writing what they say."""
    started_s, took = time.perf_counter(), {"all": 0.0}
    planned = Planned(Source(store, OPTIONS), keep)
    with scan_of([planned], scratch) as scan:
        engine.scan(scan)
        took["scan"] = time.perf_counter() - started_s
        files = [file for _, group in scan.files() for file in group]
        as_of_ms = max(pc.max(pq.read_table(file, columns=["store_ms"]).column(0)).as_py() or 0 for file in files)
        segments = [(segment.start, segment.size) for segment in LogStore(store).segments()]
        engine.begin(Question(as_of_ms, segments=segments))
        for name in JOBS:
            begun_s = time.perf_counter()
            sum(1 for _ in engine.ask(name))
            took[name] = time.perf_counter() - begun_s
    planned.close()
    took["all"] = time.perf_counter() - started_s
    return took


if __name__ == "__main__":
    sys.exit(main())
