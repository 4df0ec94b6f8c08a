"""Where producers that use REST are asked what became of a half."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    """One table."""

    dependencies = [
        ("console", "0005_transactions"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="CheckAddress",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("group", models.CharField(max_length=127, unique=True, verbose_name="producer group")),
                ("url", models.CharField(max_length=500, verbose_name="address")),
                ("salt", models.CharField(editable=False, max_length=32)),
                ("digest", models.CharField(editable=False, max_length=64)),
                ("is_enabled", models.BooleanField(default=True, verbose_name="asked")),
                ("actor", models.CharField(editable=False, max_length=150, verbose_name="by")),
                ("created_at", models.DateTimeField(auto_now_add=True, verbose_name="created")),
                ("changed_at", models.DateTimeField(auto_now=True, verbose_name="changed")),
                ("asked_at", models.DateTimeField(editable=False, null=True, verbose_name="last asked")),
                ("outcome", models.CharField(blank=True, editable=False, max_length=200, verbose_name="last answer")),
                ("failures", models.IntegerField(default=0, editable=False, verbose_name="failures")),
                ("resting_until", models.DateTimeField(editable=False, null=True, verbose_name="not asked until")),
                (
                    "created_by",
                    models.ForeignKey(
                        blank=True,
                        editable=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "verbose_name": "check-back address",
                "verbose_name_plural": "check-back addresses",
                "ordering": ["group"],
            },
        ),
    ]
