"""A run of dashboards may be over several brokers."""

import django.contrib.postgres.fields
from django.db import migrations, models


class Migration(migrations.Migration):
    """Those that there are were of one broker: they have no parts, and their positions are its."""

    dependencies = [("console", "0024_operation_of_broker")]

    operations = [
        migrations.AddField("dashboardrun", "parts", models.JSONField(default=list)),
        migrations.AlterField("dashboardrun", "broker", models.CharField(blank=True, max_length=255)),
        migrations.AddField(
            "dashboardpoint",
            "brokers",
            django.contrib.postgres.fields.ArrayField(models.CharField(max_length=255), null=True),
        ),
    ]
