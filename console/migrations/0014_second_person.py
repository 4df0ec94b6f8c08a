"""A second person above a limit: until when an operation waits, who approved or declined it, and why."""

from __future__ import annotations

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

_STATES = [
    ("draft", "previewed"), ("queued", "waiting to run"), ("running", "running"), ("done", "done"),
    ("aborted", "stopped"), ("failed", "failed"), ("waiting", "waits for a second person"), ("declined", "declined"),
    ("expired", "was not approved in time"),
]  # fmt: skip
_WHATS = [
    ("confirmed", "confirmed"), ("finished", "finished"), ("aborted", "asked to stop"), ("continued", "asked to go on"),
    ("denied", "was not allowed"), ("approved", "approved"), ("declined", "declined"),
    ("expired", "was not approved in time"),
]  # fmt: skip


class Migration(migrations.Migration):
    """Adds the columns; operations that are there need nobody."""

    dependencies = [
        ("console", "0013_access_user"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField("operation", "waits_until", models.DateTimeField(null=True)),
        migrations.AddField("operation", "second_actor", models.CharField(blank=True, default="", max_length=150)),
        migrations.AddField("operation", "second_reason", models.TextField(blank=True, default="")),
        migrations.AddField(
            "operation",
            "second_by",
            models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+", to=settings.AUTH_USER_MODEL
            ),
        ),
        migrations.AlterField(
            "auditentry", "what", models.CharField(choices=_WHATS, max_length=16, verbose_name="what")
        ),
        migrations.AlterField(
            "operation",
            "state",
            models.CharField(choices=_STATES, default="draft", max_length=16, verbose_name="state"),
        ),
    ]
