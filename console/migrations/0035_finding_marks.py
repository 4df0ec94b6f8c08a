"""Webhooks in the formats of services, with their secrets; findings that are put off."""

from __future__ import annotations

from django.db import migrations, models

_WHAT = [
    ("broker-down", "broker unreachable"),
    ("backlog", "lag of a group"),
    ("still", "group with lag consumes nothing"),
    ("dead-letters", "messages dead-lettered by a group in 5 min"),
    ("lateness", "timer lateness p99"),
    ("lane-late", "lane overdue"),
    ("half-age", "age of the oldest undecided half message"),
    ("stuck-queue", "due value of a Redisson queue not transferred"),
    ("disk-used", "disk used on a broker"),
    ("slave-behind", "slave behind its master"),
]
_WHY = [
    ("ended", "its time is over"),
    ("worse", "the finding got worse"),
    ("gone", "the finding was gone"),
    ("lifted", "lifted"),
]


class Migration(migrations.Migration):
    """Webhooks that there are stay what they were: signed JSON, with the secret that follows from their rule."""

    dependencies = [("console", "0034_letter_marks")]

    operations = [
        migrations.AlterField(
            "alertrule", "what", models.CharField(choices=_WHAT, max_length=16, verbose_name="metric")
        ),
        migrations.AddField(
            "alertrule",
            "webhook_format",
            models.CharField(default="plain", max_length=16, verbose_name="webhook format"),
        ),
        migrations.AddField(
            "alertrule",
            "webhook_secret",
            models.TextField(blank=True, default="", editable=False, verbose_name="webhook secret"),
        ),
        migrations.CreateModel(
            name="FindingMark",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("kind", models.CharField(max_length=32)),
                ("subject", models.CharField(max_length=255)),
                ("place", models.CharField(max_length=255)),
                ("until", models.DateTimeField(null=True)),
                ("figure", models.BigIntegerField(null=True)),
                ("detail", models.TextField(blank=True)),
                ("reason", models.CharField(max_length=500)),
                ("actor", models.CharField(max_length=150)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("lifted_at", models.DateTimeField(null=True)),
                ("lifted_why", models.CharField(blank=True, choices=_WHY, max_length=8)),
            ],
            options={
                "default_permissions": (),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("kind", "subject", "place"),
                        condition=models.Q(("lifted_at", None)),
                        name="one_mark_of_a_finding",
                    )
                ],
            },
        ),
    ]
