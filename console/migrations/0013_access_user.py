"""The user of the brokers' access control that a token is bound to."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    """Adds the column; tokens that are there are bound to nobody."""

    dependencies = [("console", "0012_change_settings")]

    operations = [
        migrations.AddField(
            model_name="apitoken",
            name="access_user",
            field=models.CharField(blank=True, default="", max_length=128, verbose_name="user of access control"),
        ),
    ]
