"""A run of a dashboard says which engine computed it."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    """One column."""

    dependencies = [("console", "0039_item_name")]

    operations = [
        migrations.AddField(
            model_name="dashboardrun",
            name="engine",
            field=models.CharField(blank=True, default="", max_length=16),
            preserve_default=False,
        ),
    ]
