"""`SPARK_MASTER` moves the jobs to a cluster: a master and a worker of Spark's own, in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyspark
import pytest

from console.features.dashboards.models import DashboardRun
from tests.spark.count import count_all
from tests.spark.plain import messages
from tests.spark.randomlog import SIZE, RandomLog
from tests.spark.test_run import queued
from tests.waiting import until

SPARK_CLASS = str(Path(pyspark.__file__).parent / "bin" / "spark-class")


@pytest.fixture
def cluster(tmp_path: Path, free_port: int) -> Iterator[str]:
    """A master and one worker; what they start knows nothing of this project."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    env |= {"SPARK_DAEMON_MEMORY": "256m", "SPARK_WORKER_DIR": str(tmp_path / "work"), "SPARK_LOCAL_IP": "127.0.0.1"}
    env |= {"SPARK_LOG_DIR": str(tmp_path), "PYTHONSAFEPATH": "1"}
    address = f"spark://127.0.0.1:{free_port}"
    where = ["--host", "127.0.0.1", "--webui-port", "0"]
    master, worker = "org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"
    with (tmp_path / "cluster.log").open("wb") as log:
        started = [
            subprocess.Popen([SPARK_CLASS, *command], env=env, cwd=tmp_path, stdout=log, stderr=log)
            for command in (
                [master, *where, "--port", str(free_port)],
                [worker, *where, "--cores", "2", "--memory", "1g", address],
            )
        ]
        registered = b"Successfully registered with master"
        try:
            until(lambda: registered in (tmp_path / "cluster.log").read_bytes(), 60, every_s=0.1)
            yield address
        finally:
            for process in started:
                process.terminate()
            for process in started:
                process.wait(20)


def test_the_same_run_on_a_cluster_finds_the_same(
    cluster: str, store: Callable[[dict[int, bytes]], Path], transactional_db: None, database_url: str, tmp_path: Path
) -> None:
    log = RandomLog(9).fill(150)
    order = queued(store(log.segments), database_url, log.now_ms, ("flow", "ledger"))
    said = {name: getattr(order, name) for name in ("store", "database_url", "broker", "runs", "as_of_ms")}
    env = os.environ | {"SPARK_MASTER": cluster, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [sys.executable, "-m", "spark.run"], input=json.dumps(said | {"scratch": str(tmp_path / "scratch")}),
        env=env, text=True, capture_output=True, check=False, timeout=480,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    expected = count_all(messages(log.segments), log.now_ms, [], SIZE)
    for name in ("flow", "ledger"):
        points = DashboardRun.objects.get(dashboard=name, is_current=True).points.all()
        found = {(p.series, p.topic, p.label, p.part, p.at_ms): p.value for p in points if p.value}
        assert found == {key: value for key, value in expected[name].items() if value}
    assert b"Launching executor" in (tmp_path / "cluster.log").read_bytes()
