"""Who computes the dashboards: DuckDB in this process, or Spark.

Both read the same columns of the same scan and give the same points; ``queries/`` is the one form of each dashboard,
``jobs/`` the other. DuckDB needs neither Java nor half a minute to begin, and computes on this machine. Spark computes
on a cluster of its own, and where a log is so large that its frames do not fit into the memory of one process.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from .question import Question
from .scan import Scan
from .store import DashboardError

AUTO, DUCKDB, SPARK = "auto", "duckdb", "spark"
ENGINES = (AUTO, DUCKDB, SPARK)
#: More than this is read by Spark, in MiB, where somebody leaves the choice.
SPARK_FROM_MB = 8_192
#: The oldest Java that Spark 4 runs on.
JAVA_VERSION = 17


class JavaMissing(DashboardError):
    """Spark needs Java, and there is none."""


class EngineMissing(DashboardError):
    """An engine was asked for that is none, or is not installed."""


@dataclass(frozen=True, slots=True)
class Extent:
    """The records of one log: how many, the first position, the end of the last, and how many stand for damage."""

    rows: int
    start: int | None
    end: int | None
    damaged: int


class Engine(Protocol):
    """Computes the dashboards of one run. What another thread may call says so."""

    name: str

    @property
    def is_here(self) -> bool:
        """Whether it computes on this machine, by what a scan wrote into a directory of this machine."""

    def scan(self, scan: Scan) -> None:
        """Copy logs into columns. Raises DashboardError, OSError, and what the engine raises."""

    @property
    def scanned(self) -> float:
        """How much of the scan is done, 0 to 1. Another thread may ask."""

    def extents(self, *, several: bool) -> Mapping[int, Extent]:
        """Return what was read, by the number of the log; that of an only one is 0."""

    def begin(self, question: Question) -> None:
        """Take what is asked beside the records; before the first dashboard."""

    def ask(self, dashboard: str) -> Iterator[tuple[Any, ...]]:
        """Yield the points of one dashboard."""

    def cancel(self) -> None:
        """End what is under way; it raises then. Another thread may call it, again and again."""

    def close(self) -> None:
        """Free what it holds."""


def chosen_engine(
    wanted: str, *, master: str, log_mb: float, spark_from_mb: float, has_duckdb: bool, has_java: bool
) -> str:
    """Return who computes: what is wanted, or by the choice of ``auto`` what suits.

    ``master``: that of Spark, empty without a word. ``log_mb``: how much is read. Raises EngineMissing.
    """
    if wanted not in ENGINES:
        raise EngineMissing(f"ESCAPEMENT_DASHBOARDS_ENGINE={wanted!r}: it is one of {', '.join(ENGINES)}.")
    if wanted == DUCKDB and not has_duckdb:
        raise EngineMissing(
            "DuckDB is not installed. `make dashboards` installs it, or pip install 'escapement-mq[console,spark]'; "
            "or set ESCAPEMENT_DASHBOARDS_ENGINE=spark."
        )
    if wanted != AUTO:
        return wanted
    is_cluster = bool(master) and not master.startswith("local")
    is_large = log_mb > spark_from_mb and has_java
    return SPARK if is_cluster or is_large or not has_duckdb else DUCKDB


def engine_here(wanted: str, log_mb: float, spark_from_mb: float) -> str:
    """Return who computes on this machine, with what there is here. Raises EngineMissing."""
    return chosen_engine(
        wanted,
        master=os.environ.get("SPARK_MASTER", ""),
        log_mb=log_mb,
        spark_from_mb=spark_from_mb,
        has_duckdb=find_spec("duckdb") is not None,
        has_java=log_mb > spark_from_mb and _has_java(),
    )


def _has_java() -> bool:
    try:
        java()
    except JavaMissing:
        return False
    return True


def java() -> str:
    """Return the Java that Spark will use. Raises JavaMissing."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if not found or not os.access(found, os.X_OK):
        raise JavaMissing(
            f"Spark needs Java {JAVA_VERSION} or newer, and there is none. Install it (`make dashboards`, or your "
            "system's openjdk-17-jre-headless), or set JAVA_HOME. Dashboards of a log that this machine can hold need "
            "none: leave out ESCAPEMENT_DASHBOARDS_ENGINE and SPARK_MASTER."
        )
    said = subprocess.run([found, "-version"], capture_output=True, text=True, check=False)
    version = said.stderr.partition('version "')[2].partition(".")[0].partition('"')[0]
    if not version.isdigit() or int(version) < JAVA_VERSION:
        raise JavaMissing(f"Spark needs Java {JAVA_VERSION} or newer; {found} says {said.stderr[:60]!r}.")
    return found
