"""Who may make, change and delete topics and groups."""

from django.db import migrations


class Migration(migrations.Migration):
    """One permission more."""

    dependencies = [
        ("console", "0011_alerts"),
    ]

    operations = [
        migrations.AlterModelOptions(
            name="operation",
            options={
                "ordering": ["-created_at"],
                "permissions": [
                    ("steer_timers", "Can cancel, move and deliver timers"),
                    ("pause_timers", "Can pause and resume all timers"),
                    ("steer_delayed_queues", "Can act on Redisson's delayed queues"),
                    ("resend_dead_letters", "Can send dead letters again"),
                    ("reset_offsets", "Can move consumer groups to other offsets"),
                    ("change_settings", "Can make, change and delete topics and groups"),
                    ("steer_transactions", "Can decide transactions and have their producers asked"),
                ],
                "verbose_name": "operation",
                "verbose_name_plural": "operations",
            },
        ),
    ]
