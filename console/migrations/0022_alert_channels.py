"""Deliveries of alerts by each channel, with what became of them; what alerts said of it until now stays as it was."""

from __future__ import annotations

from django.db import migrations, models

_CHANNELS = [("mail", "mail"), ("webhook", "webhook")]


class Migration(migrations.Migration):
    """Adds the columns; deliveries that are there are of webhooks."""

    dependencies = [("console", "0001_initial")]

    operations = [
        migrations.RenameField("alert", "told", "told_before"),
        migrations.AlterField(
            "alert", "told_before", models.TextField(blank=True, editable=False, verbose_name="told")
        ),
        migrations.AddField(
            "delivery",
            "channel",
            models.CharField(choices=_CHANNELS, default="webhook", max_length=16),
            preserve_default=False,
        ),
        migrations.AddField("delivery", "receivers", models.PositiveSmallIntegerField(null=True)),
        migrations.AddField("delivery", "error", models.TextField(blank=True, default="")),
        migrations.AddField("delivery", "changed_at", models.DateTimeField(null=True)),
    ]
