"""The tables of dashboards."""

from __future__ import annotations

import uuid

import django.contrib.postgres.fields
import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    """Creates DashboardRun and DashboardPoint."""

    dependencies = [
        ("console", "0002_operations"),
    ]

    operations = [
        migrations.CreateModel(
            name="DashboardRun",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("batch", models.UUIDField(db_index=True, default=uuid.uuid4)),
                ("broker", models.CharField(max_length=255)),
                ("dashboard", models.CharField(max_length=32)),
                ("window", models.CharField(default="all", max_length=16)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("queued", "waiting to run"),
                            ("running", "running"),
                            ("done", "done"),
                            ("cancelled", "stopped"),
                            ("failed", "failed"),
                        ],
                        default="queued",
                        max_length=16,
                    ),
                ),
                ("is_current", models.BooleanField(default=False)),
                ("is_abort_wanted", models.BooleanField(default=False)),
                ("actor", models.CharField(blank=True, max_length=150)),
                ("source", models.CharField(max_length=1024)),
                ("queued_at", models.DateTimeField(auto_now_add=True)),
                ("started_at", models.DateTimeField(null=True)),
                ("finished_at", models.DateTimeField(null=True)),
                ("beat_at", models.DateTimeField(null=True)),
                ("progress", models.FloatField(default=0)),
                ("as_of_ms", models.BigIntegerField(null=True)),
                ("start_position", models.BigIntegerField(null=True)),
                ("end_position", models.BigIntegerField(null=True)),
                ("rows_read", models.BigIntegerField(null=True)),
                ("damaged_rows", models.BigIntegerField(null=True)),
                ("duration_ms", models.BigIntegerField(null=True)),
                ("error", models.TextField(blank=True)),
            ],
            options={
                "verbose_name": "run of a dashboard",
                "verbose_name_plural": "runs of dashboards",
                "ordering": ["-queued_at"],
                "permissions": [("run_dashboards", "Can run and stop dashboards")],
                "indexes": [models.Index(fields=["dashboard", "-queued_at"], name="dashboard_run_newest")],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("is_current", True)),
                        fields=("broker", "dashboard", "window"),
                        name="one_current_run",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="DashboardPoint",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("series", models.CharField(max_length=32)),
                ("topic", models.CharField(max_length=255)),
                ("label", models.TextField()),
                ("part", models.TextField()),
                ("at_ms", models.BigIntegerField(null=True)),
                ("value", models.FloatField()),
                (
                    "positions",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.BigIntegerField(), null=True, size=None
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="points", to="console.dashboardrun"
                    ),
                ),
            ],
            options={
                "default_permissions": ("view",),
                "indexes": [models.Index(fields=["run", "series", "topic", "at_ms"], name="dashboard_point_found")],
            },
        ),
    ]
