"""Alert rules may have names."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    """One column."""

    dependencies = [("console", "0020_alert_deliveries")]

    operations = [
        migrations.AddField(
            model_name="alertrule",
            name="name",
            field=models.CharField(blank=True, default="", max_length=80, verbose_name="name"),
        ),
    ]
