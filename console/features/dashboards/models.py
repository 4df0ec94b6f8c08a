"""Rows of dashboards: a run of one dashboard over a stretch of the log, and the points that it found.

A run is of one broker, or of several in total: `broker` is what an address chooses them by then ("" for all of the
first cluster), and `parts` says of each what was read.

The process that computes writes both (``spark/sink.py``): all points of a run and the word that they are the current
ones in one transaction, so a killed run leaves nothing.
"""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.utils.translation import gettext_lazy as _


class DashboardRun(models.Model):
    """A dashboard computed once. Of a broker, dashboard and window one run is current: its points are shown."""

    class State(models.TextChoices):
        """The stages of a run, from queued to its end."""

        QUEUED = "queued", _("queued")
        RUNNING = "running", _("running")
        DONE = "done", _("done")
        CANCELLED = "cancelled", _("stopped")
        FAILED = "failed", _("failed")

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    #: runs that share one scan of the log
    batch = models.UUIDField(default=uuid.uuid4, db_index=True)
    broker = models.CharField(max_length=255, blank=True)
    #: name of the job (spark/jobs)
    dashboard = models.CharField(max_length=32)
    #: "all", or how far back from its moment: "24h", "7d"
    window = models.CharField(max_length=16, default="all")
    state = models.CharField(max_length=16, choices=State.choices, default=State.QUEUED)
    is_current = models.BooleanField(default=False)
    is_abort_wanted = models.BooleanField(default=False)
    #: who asked for it; empty for the timetable
    actor = models.CharField(max_length=150, blank=True)
    #: the store that was read
    source = models.CharField(max_length=1024)
    queued_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    #: when its process was last alive
    beat_at = models.DateTimeField(null=True)
    #: how much of the batch is done, 0 to 1
    progress = models.FloatField(default=0)
    #: the moment that counted as now
    as_of_ms = models.BigIntegerField(null=True)
    #: records below the first and from the second on were not looked at
    start_position = models.BigIntegerField(null=True)
    end_position = models.BigIntegerField(null=True)
    rows_read = models.BigIntegerField(null=True)
    #: rows that stand for bytes without a readable record
    damaged_rows = models.BigIntegerField(null=True)
    duration_ms = models.BigIntegerField(null=True)
    #: who computes it: duckdb or spark (spark/engines.py); empty before it begins, and where there was but one
    engine = models.CharField(max_length=16, blank=True)
    error = models.TextField(blank=True)
    #: of a run over several brokers each of them: broker, source; once it is done start_position, end_position,
    #: rows_read, damaged_rows, and error, why it was left out (spark/sink.py)
    parts = models.JSONField(default=list)

    class Meta:
        verbose_name = _("run of a dashboard")
        verbose_name_plural = _("runs of dashboards")
        ordering = ["-queued_at"]
        indexes = [models.Index(fields=["dashboard", "-queued_at"], name="dashboard_run_newest")]
        constraints = [
            models.UniqueConstraint(
                fields=["broker", "dashboard", "window"], condition=models.Q(is_current=True), name="one_current_run"
            )
        ]
        permissions = [("run_dashboards", _("Can run and stop dashboards"))]

    def __str__(self) -> str:
        return f"{self.dashboard} of {self.whose}, {self.window}"

    @property
    def whose(self) -> str:
        """The broker, or all of them."""
        return ", ".join(part["broker"] for part in self.parts) or self.broker

    @property
    def engine_name(self) -> str:
        """The engine as it calls itself, empty where it is not known."""
        return {"duckdb": "DuckDB", "spark": "Spark"}.get(self.engine, self.engine)

    @property
    def lacking(self) -> list[dict[str, Any]]:
        """The brokers that were left out, with the reason."""
        return [part for part in self.parts if part.get("error")]


class DashboardPoint(models.Model):
    """A figure of a run; the columns are those of ``spark/points.py``."""

    run = models.ForeignKey(DashboardRun, models.CASCADE, related_name="points")
    series = models.CharField(max_length=32)
    topic = models.CharField(max_length=255)
    label = models.TextField()
    part = models.TextField()
    at_ms = models.BigIntegerField(null=True)
    value = models.FloatField()
    #: records behind the figure, where there are few
    positions = ArrayField(models.BigIntegerField(), null=True)
    #: in whose log each of them is, in a run over several brokers
    brokers = ArrayField(models.CharField(max_length=255), null=True)

    class Meta:
        default_permissions = ("view",)
        indexes = [models.Index(fields=["run", "series", "topic", "at_ms"], name="dashboard_point_found")]

    def __str__(self) -> str:
        return f"{self.series} {self.topic} {self.label} = {self.value}"
