"""Who may act on delayed queues."""

from django.db import migrations


class Migration(migrations.Migration):
    """One permission more."""

    dependencies = [("console", "0003_dashboards")]

    operations = [
        migrations.AlterModelOptions(
            name="operation",
            options={
                "ordering": ["-created_at"],
                "permissions": [
                    ("steer_timers", "Can cancel, move and deliver timers"),
                    ("pause_timers", "Can pause and resume all timers"),
                    ("steer_delayed_queues", "Can act on Redisson's delayed queues"),
                ],
                "verbose_name": "operation",
                "verbose_name_plural": "operations",
            },
        ),
    ]
