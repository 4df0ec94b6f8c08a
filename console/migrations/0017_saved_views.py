"""Lists with their filters under a name."""

from __future__ import annotations

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    """Adds the table of saved views."""

    dependencies = [
        ("console", "0016_snapshots"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="SavedView",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("page", models.CharField(max_length=64, verbose_name="page")),
                ("path", models.CharField(max_length=1500, verbose_name="path")),
                ("query", models.CharField(blank=True, max_length=1500, verbose_name="filters")),
                ("name", models.CharField(max_length=60, verbose_name="name")),
                ("is_shared", models.BooleanField(default=False, verbose_name="shared with everybody")),
                ("is_default", models.BooleanField(default=False, verbose_name="opens with the page")),
                ("created_at", models.DateTimeField(auto_now_add=True, verbose_name="created")),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="saved_views",
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="owner",
                    ),
                ),
            ],
            options={
                "verbose_name": "saved view",
                "verbose_name_plural": "saved views",
                "ordering": ["page", "name", "pk"],
                "default_permissions": (),
                "permissions": [("share_views", "Can share saved views with everybody")],
                "constraints": [
                    models.UniqueConstraint(fields=("owner", "page", "name"), name="one_view_of_a_name"),
                    models.UniqueConstraint(
                        condition=models.Q(("is_default", True)), fields=("owner", "path"), name="one_default_view"
                    ),
                ],
            },
        ),
    ]
