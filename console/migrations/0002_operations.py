"""The tables of operations and of the audit."""

from __future__ import annotations

import uuid

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    """Creates Operation, OperationItem and AuditEntry."""

    dependencies = [
        ("console", "0001_api_token"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="AuditEntry",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("at", models.DateTimeField(auto_now_add=True, verbose_name="when")),
                ("actor", models.CharField(max_length=150, verbose_name="who")),
                (
                    "what",
                    models.CharField(
                        choices=[
                            ("confirmed", "confirmed"),
                            ("finished", "finished"),
                            ("aborted", "asked to stop"),
                            ("continued", "asked to go on"),
                            ("denied", "was not allowed"),
                        ],
                        max_length=16,
                        verbose_name="what",
                    ),
                ),
                ("kind", models.CharField(max_length=64, verbose_name="kind")),
                ("operation", models.UUIDField(db_index=True, null=True)),
                ("reason", models.TextField(blank=True, verbose_name="why")),
                ("result", models.JSONField(default=dict, verbose_name="result")),
                (
                    "user",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "verbose_name": "audit entry",
                "verbose_name_plural": "audit entries",
                "ordering": ["-at", "-id"],
                "default_permissions": ("view",),
            },
        ),
        migrations.CreateModel(
            name="Operation",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("kind", models.CharField(max_length=64, verbose_name="kind")),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("draft", "previewed"),
                            ("queued", "waiting to run"),
                            ("running", "running"),
                            ("done", "done"),
                            ("aborted", "stopped"),
                            ("failed", "failed"),
                        ],
                        default="draft",
                        max_length=16,
                        verbose_name="state",
                    ),
                ),
                ("parameters", models.JSONField(default=dict, verbose_name="parameters")),
                ("preview", models.JSONField(default=dict, verbose_name="preview")),
                ("previewed_at", models.DateTimeField(null=True, verbose_name="previewed")),
                ("reason", models.TextField(blank=True, verbose_name="reason")),
                ("actor", models.CharField(max_length=150, verbose_name="by")),
                ("created_at", models.DateTimeField(auto_now_add=True, verbose_name="created")),
                ("started_at", models.DateTimeField(null=True, verbose_name="started")),
                ("finished_at", models.DateTimeField(null=True, verbose_name="finished")),
                ("beat_at", models.DateTimeField(null=True)),
                ("total", models.IntegerField(null=True)),
                ("done", models.IntegerField(default=0)),
                ("results", models.JSONField(default=dict)),
                ("is_abort_wanted", models.BooleanField(default=False)),
                ("error", models.TextField(blank=True)),
                (
                    "created_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "verbose_name": "operation",
                "verbose_name_plural": "operations",
                "ordering": ["-created_at"],
                "permissions": [
                    ("steer_timers", "Can cancel, move and deliver timers"),
                    ("pause_timers", "Can pause and resume all timers"),
                ],
            },
        ),
        migrations.CreateModel(
            name="OperationItem",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.IntegerField()),
                ("target", models.JSONField()),
                ("label", models.JSONField(default=dict)),
                ("outcome", models.CharField(blank=True, max_length=32)),
                ("result", models.JSONField(default=dict)),
                (
                    "operation",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="items", to="console.operation"
                    ),
                ),
            ],
            options={
                "ordering": ["number"],
                "default_permissions": (),
            },
        ),
        migrations.AddIndex(
            model_name="operation",
            index=models.Index(fields=["-created_at"], name="operation_newest"),
        ),
        migrations.AddIndex(
            model_name="operationitem",
            index=models.Index(
                condition=models.Q(("outcome", "")), fields=["operation", "number"], name="item_untouched"
            ),
        ),
        migrations.AddConstraint(
            model_name="operationitem",
            constraint=models.UniqueConstraint(fields=("operation", "number"), name="item_once"),
        ),
    ]
