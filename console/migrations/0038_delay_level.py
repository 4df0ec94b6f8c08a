"""An alert rule's metric is called by the one name of the delay levels."""

from __future__ import annotations

from django.db import migrations, models

_WHAT = [
    ("broker-down", "broker unreachable"),
    ("backlog", "lag of a group"),
    ("still", "group with lag consumes nothing"),
    ("dead-letters", "messages dead-lettered by a group in 5 min"),
    ("lateness", "timer lateness p99"),
    ("lane-late", "delay level overdue"),
    ("half-age", "age of the oldest undecided half message"),
    ("stuck-queue", "due value of a Redisson queue not transferred"),
    ("disk-used", "disk used on a broker"),
    ("slave-behind", "slave behind its master"),
]


class Migration(migrations.Migration):
    """No row changes."""

    dependencies = [("console", "0037_name_patterns")]

    operations = [
        migrations.AlterField(
            "alertrule", "what", models.CharField(choices=_WHAT, max_length=16, verbose_name="metric")
        ),
    ]
