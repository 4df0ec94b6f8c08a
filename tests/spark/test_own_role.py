"""Every dashboard, computed by Spark and written by its own role of PostgreSQL, which may nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import connection
from pyspark.sql import SparkSession

from console.features.dashboards import runs as dashboards_runs
from console.features.dashboards.models import DashboardRun
from console.run.database_roles import SPARK, Role, give
from spark.by_spark import SparkEngine
from spark.jobs import JOBS
from spark.order import Order
from spark.run import run
from tests.spark.count import count_all
from tests.spark.plain import messages
from tests.spark.randomlog import SIZE, RandomLog

NAME, PASSWORD = "spark_of_this_test", "it's secret"


@pytest.fixture
def own_role(transactional_db: None, settings: Any) -> Iterator[None]:
    """Settings of a house whose dashboards are written by a role of their own."""
    give([Role(SPARK, NAME, PASSWORD)], "default")
    settings.SPARK_DATABASE = settings.DATABASES["default"] | {"USER": NAME, "PASSWORD": PASSWORD}
    yield
    with connection.cursor() as cursor:
        cursor.execute(f"DROP OWNED BY {NAME}")
        cursor.execute(f"DROP ROLE {NAME}")


@pytest.mark.parametrize("names", [("flow",), pytest.param(tuple(JOBS), marks=pytest.mark.soak)], ids=["one", "all"])
def test_dashboards_are_completed_by_sparks_own_role(
    own_role: None, session: SparkSession, store: Callable[[dict[int, bytes]], Path], names: tuple[str, ...]
) -> None:
    log = RandomLog(3).fill(60)
    path = store(log.segments)
    url = dashboards_runs.database_url()
    with psycopg.connect(url) as spark:
        assert spark.execute("SELECT current_user").fetchone() == (NAME,)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            spark.execute("TABLE auth_user")
    # the second run takes the place of the first: it deletes, too
    for _ in range(2):
        batch = dashboards_runs.queue(names, "all", store=str(path))
        rows = {row.dashboard: str(row.id) for row in DashboardRun.objects.filter(batch=batch)}
        counts = run(
            Order(str(path), url, DashboardRun.objects.all()[0].broker, rows, log.now_ms, "all"), SparkEngine(session)
        )
        done = DashboardRun.objects.filter(batch=batch, state="done", is_current=True, error="")
        assert set(done.values_list("dashboard", flat=True)) == set(names) == set(counts)
    expected = count_all(messages(log.segments), log.now_ms, [], SIZE)["flow"]
    found = DashboardRun.objects.get(dashboard="flow", is_current=True).points.all()
    told = {(p.series, p.topic, p.label, p.part, p.at_ms): p.value for p in found if p.value}
    assert told == {key: value for key, value in expected.items() if value}
