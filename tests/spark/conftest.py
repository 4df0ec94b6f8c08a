"""One Spark session for all tests that need it, and stores on disk for it to read."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.utils.translation import override
from pyspark.sql import SparkSession

from spark.by_duckdb import DuckdbEngine
from spark.by_spark import SparkEngine
from spark.engines import Engine
from spark.session import open_session
from tests.crash.golden import folders


@pytest.fixture(autouse=True)
def english() -> Iterator[None]:
    """Whoever read a page in another language before, in the same process, left it."""
    with override("en"):
        yield


@pytest.fixture(scope="session")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session, small and quick to start."""
    scratch = tmp_path_factory.mktemp("spark")
    opened = open_session(
        master="local[2]",
        memory_mb=512,
        **{
            "spark.sql.shuffle.partitions": "1",
            # small data, many plans: making code for each costs more than running it
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
            "spark.sql.adaptive.enabled": "false",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.local.dir": str(scratch),
            "spark.sql.warehouse.dir": str(scratch / "warehouse"),
            "spark.sql.streaming.checkpointLocation": str(scratch / "checkpoints"),
        },
    )
    yield opened
    opened.stop()


Make = Callable[[], Engine]


@pytest.fixture(params=["duckdb", "spark"])
def make(request: pytest.FixtureRequest) -> Make:
    """Makes an engine of each kind, for one run after the other."""
    if request.param == "duckdb":
        return lambda: DuckdbEngine(cores=2, memory_mb=256)
    session: SparkSession = request.getfixturevalue("session")
    return lambda: SparkEngine(session)


@pytest.fixture
def store(tmp_path: Path) -> Callable[[dict[int, bytes]], Path]:
    """Write segments to disk as a store; returns its directory."""

    def write(segments: dict[int, bytes]) -> Path:
        (tmp_path / "store" / "commitlog").mkdir(parents=True, exist_ok=True)
        for start, data in segments.items():
            (tmp_path / "store" / "commitlog" / f"{start:020d}").write_bytes(data)
        return tmp_path / "store"

    return write


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Unpack a store that Apache RocketMQ wrote; returns its directory."""

    def unpack(name: str) -> Path:
        target = tmp_path_factory.mktemp(name)
        shutil.unpack_archive(folders()[name] / "store.tar.xz", target)
        return next(target.rglob("commitlog")).parent

    return unpack
