"""The Spark session: local by default, a cluster where ``SPARK_MASTER`` names one."""

from __future__ import annotations

import logging
import os
import re
import sys
import tempfile
import zipfile
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from broker import rocketmq

from .cluster_source import ClusterDataSource
from .engines import java
from .scan import scratch_of
from .source import LogDataSource
from .store import DashboardError

#: One scan after the other wants throughput, and short pauses help nobody.
_JAVA_OPTIONS = "-XX:+UseParallelGC -Darrow.enable_unsafe_memory_access=true"
#: What is read in a moment: code that is made for it, and made quick, costs more than it saves. Measured with a log of
#: 56 records and one of 500,000: half of Java's processor time with the first, nothing either way with the second.
_SMALL = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.driver.extraJavaOptions": f"{_JAVA_OPTIONS} -XX:TieredStopAtLevel=1",
}
#: A log below this is small.
SMALL_LOG_BYTES = 32 << 20
#: A local session is nobody else's business; machines of a cluster have to reach the driver.
_LOOPBACK = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
#: What Spark takes for a master (SparkContext, SparkSubmit).
_MASTER = re.compile(r"local(-cluster)?(\[[^\]]+\])?|(spark|k8s)://\S+|yarn")
#: Where this package is found, alone or as a part of another one.
ROOT = Path(__file__).parents[__name__.count(".")]
#: What a worker on another machine needs of this project: this package and the codec.
_CODEC = Path(rocketmq.__file__).parent
_SHIPPED = (_CODEC.parent / "__init__.py", *_CODEC.glob("*.py"), *Path(__file__).parent.rglob("*.py"))


class SparkNotStarted(DashboardError):
    """There is no session of Spark on the master that was named."""


def open_session(
    *,
    master: str | None = None,
    cores: int = 2,
    memory_mb: int = 768,
    scratch: str = "",
    log_bytes: int = SMALL_LOG_BYTES,
    **settings: str,
) -> SparkSession:
    """Start Spark, or return the session that runs. Raises JavaMissing, SparkNotStarted.

    ``cores`` and ``memory_mb`` (of the driver's JVM) count for a local session only. ``scratch``: directory for what
    does not fit into memory; empty: one of the system's. ``log_bytes``: how much will be read, once.
    """
    java()
    logging.getLogger("py4j").setLevel(logging.WARNING)  # it tells of every connection that it closes
    master = master or os.environ.get("SPARK_MASTER") or f"local[{cores}]"
    if not _MASTER.fullmatch(master):
        raise SparkNotStarted(
            f"SPARK_MASTER={master!r} names no master: local[2], spark://host:7077, yarn or k8s://https://host:port. "
            "Without it this machine computes."
        )
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    if master.startswith("local"):
        os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(master).appName("escapement")
    given = _defaults(cores, memory_mb, scratch_of(scratch))
    given |= _SMALL if log_bytes < SMALL_LOG_BYTES else {}
    given |= _LOOPBACK if master.startswith("local") else {}
    for name, value in (given | settings).items():
        builder = builder.config(name, value)
    try:
        session = builder.getOrCreate()
    except (PySparkException, Py4JError) as error:
        said = " ".join(str(error).split())[:300]
        raise SparkNotStarted(f"Spark did not start on {master}: {said}") from error
    session.sparkContext.setLogLevel("ERROR")
    if not master.startswith("local"):
        session.sparkContext.addPyFile(_package())
    session.dataSource.register(LogDataSource)
    session.dataSource.register(ClusterDataSource)
    return session


def _defaults(cores: int, memory_mb: int, scratch: Path) -> dict[str, str]:
    return {
        "spark.local.dir": str(scratch),
        # Arrow asks before each value whether its buffer is still there; Spark's own reader holds it
        "spark.driver.extraJavaOptions": _JAVA_OPTIONS,
        "spark.executor.extraJavaOptions": _JAVA_OPTIONS,
        "spark.driver.memory": f"{memory_mb}m",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(cores * 2),
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "32768",
        "spark.sql.files.maxPartitionBytes": "32m",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
    }


def _package() -> str:
    """Return a zip of what workers on other machines import."""
    path = Path(tempfile.mkdtemp(prefix="escapement-")) / "escapement.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(_SHIPPED):
            archive.write(file, file.relative_to(ROOT))
    return str(path)
