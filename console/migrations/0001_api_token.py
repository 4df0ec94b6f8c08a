"""The table of API tokens."""

from __future__ import annotations

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    """Creates ApiToken."""

    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="ApiToken",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=100, verbose_name="name")),
                ("prefix", models.CharField(editable=False, max_length=16, unique=True, verbose_name="prefix")),
                ("digest", models.CharField(editable=False, max_length=64, verbose_name="SHA-256")),
                ("scopes", models.JSONField(default=list, verbose_name="scopes")),
                ("created_at", models.DateTimeField(auto_now_add=True, verbose_name="created")),
                ("expires_at", models.DateTimeField(blank=True, null=True, verbose_name="expires")),
                ("revoked_at", models.DateTimeField(blank=True, null=True, verbose_name="revoked")),
                ("last_used_at", models.DateTimeField(blank=True, editable=False, null=True, verbose_name="last used")),
                (
                    "created_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="created by",
                    ),
                ),
            ],
            options={
                "verbose_name": "API token",
                "verbose_name_plural": "API tokens",
                "ordering": ["name", "prefix"],
            },
        ),
    ]
