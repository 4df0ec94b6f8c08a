"""The timetable computes all dashboards, one batch at a time; a window counts what was stored in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from django.conf import settings

from console.features.dashboards import DASHBOARDS
from console.features.dashboards import runs as dashboards_runs
from console.features.dashboards.models import DashboardRun
from console.site.celery import app
from spark.run import run
from tests.spark.conftest import Make
from tests.spark.count import count_all
from tests.spark.plain import messages
from tests.spark.randomlog import SIZE, RandomLog
from tests.spark.test_run import queued

HOUR_MS = 3_600_000


def test_the_timetable_names_a_task_that_there_is() -> None:
    app.loader.import_default_modules()
    entry = settings.CELERY_BEAT_SCHEDULE["dashboards"]
    assert entry["task"] in app.tasks
    assert 0 < entry["options"]["expires"] <= entry["schedule"] <= 600


def test_its_turn_computes_all_nine_of_a_store_that_is_there(
    transactional_db: None, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "BROKER_STORE", tmp_path)
    dashboards_runs.renew()
    assert DashboardRun.objects.count() == 0  # no log: nothing to compute, and no failure to show
    (tmp_path / "commitlog").mkdir()
    dashboards_runs.renew()
    rows = DashboardRun.objects.all()
    assert sorted(row.dashboard for row in rows) == sorted(DASHBOARDS)
    assert {(row.window, row.actor, row.source) for row in rows} == {("all", "", str(tmp_path))}
    assert {row.state for row in rows} == {"done"}
    assert len({row.batch for row in rows}) == 1
    batch = dashboards_runs.queue(tuple(DASHBOARDS), "all")
    with psycopg.connect(database_url, autocommit=True) as other:
        other.execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", (f"escapement-batch/{batch}",))
        dashboards_runs.renew()  # this one is not done yet
        other.execute("SELECT pg_advisory_unlock_all()")
    assert set(DashboardRun.objects.filter(state="queued").values_list("batch", flat=True)) == {batch}
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    monkeypatch.setattr(settings, "DASHBOARDS_ENGINE", "spark")
    dashboards_runs.renew()
    assert DashboardRun.objects.count() == 2 * len(DASHBOARDS)


def test_a_window_counts_what_was_stored_in_it(
    make: Make, store: Callable[[dict[int, bytes]], Path], transactional_db: None, database_url: str
) -> None:
    log = RandomLog(13).fill(200)
    run(queued(store(log.segments), database_url, log.now_ms, ("flow",), "6h"), make())
    late = [message for message in messages(log.segments) if message.store_ms >= log.now_ms - 6 * HOUR_MS]
    assert 0 < len(late) < len(list(messages(log.segments)))
    current = DashboardRun.objects.get(is_current=True)
    found = {(p.series, p.topic, p.label, p.part, p.at_ms): p.value for p in current.points.all() if p.value}
    assert found == {key: value for key, value in count_all(late, log.now_ms, [], SIZE)["flow"].items() if value}
    assert (current.window, current.rows_read, current.start_position) == ("6h", len(late), late[0].position)
