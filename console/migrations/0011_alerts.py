"""Rules that watch, what they raised, and silences."""

import django.db.models.deletion
from django.db import migrations, models

import console.features.checkback.signature


class Migration(migrations.Migration):
    """Three tables."""

    dependencies = [
        ("console", "0010_view_console"),
    ]

    operations = [
        migrations.CreateModel(
            name="AlertRule",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "what",
                    models.CharField(
                        choices=[
                            ("broker-down", "broker not reached for, s"),
                            ("backlog", "lag of a group, messages"),
                            ("still", "a group with lag takes nothing for, s"),
                            ("dead-letters", "messages given up by a group within 5 min"),
                            ("lateness", "lateness of timers p99, ms"),
                            ("lane-late", "a lane behind its due times, ms"),
                            ("half-age", "age of the oldest undecided half, s"),
                            ("stuck-queue", "a due value of a Redisson queue not moved for, s"),
                        ],
                        max_length=16,
                        verbose_name="what",
                    ),
                ),
                ("subject", models.CharField(default="*", max_length=255, verbose_name="of which (name, * for any)")),
                ("limit", models.FloatField(verbose_name="above")),
                ("for_s", models.PositiveIntegerField(default=60, verbose_name="for at least, s")),
                ("emails", models.TextField(blank=True, verbose_name="e-mail to, one address a line")),
                ("webhook", models.CharField(blank=True, max_length=500, verbose_name="webhook")),
                (
                    "salt",
                    models.CharField(
                        default=console.features.checkback.signature.new_salt, editable=False, max_length=32
                    ),
                ),
                ("is_on", models.BooleanField(default=True, verbose_name="on")),
            ],
            options={
                "verbose_name": "alert rule",
                "verbose_name_plural": "alert rules",
                "ordering": ["what", "subject", "limit"],
            },
        ),
        migrations.CreateModel(
            name="Silence",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("subject", models.CharField(default="*", max_length=255, verbose_name="subject (* for any)")),
                ("until", models.DateTimeField(verbose_name="until")),
                ("reason", models.CharField(max_length=500, verbose_name="reason")),
                ("actor", models.CharField(max_length=150, verbose_name="by")),
                ("created_at", models.DateTimeField(auto_now_add=True, verbose_name="created")),
                (
                    "rule",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        to="console.alertrule",
                        verbose_name="rule, none for all",
                    ),
                ),
            ],
            options={
                "verbose_name": "silence",
                "verbose_name_plural": "silences",
                "ordering": ["-until"],
            },
        ),
        migrations.CreateModel(
            name="Alert",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("subject", models.CharField(max_length=255, verbose_name="subject")),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("pending", "above its limit, not for long yet"),
                            ("firing", "raised"),
                            ("ended", "over"),
                        ],
                        default="pending",
                        max_length=8,
                        verbose_name="state",
                    ),
                ),
                ("value", models.FloatField(verbose_name="value")),
                ("highest", models.FloatField(verbose_name="highest")),
                ("since", models.DateTimeField(verbose_name="since")),
                ("raised_at", models.DateTimeField(null=True, verbose_name="raised")),
                ("ended_at", models.DateTimeField(null=True, verbose_name="over")),
                ("was_silenced", models.BooleanField(default=False, verbose_name="silenced")),
                ("told", models.TextField(blank=True, verbose_name="told")),
                (
                    "rule",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="alerts",
                        to="console.alertrule",
                        verbose_name="rule",
                    ),
                ),
            ],
            options={
                "verbose_name": "alert",
                "verbose_name_plural": "alerts",
                "ordering": ["-since", "-id"],
                "permissions": [("silence_alerts", "Can silence alerts")],
                "default_permissions": ("view",),
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("state", "ended"), _negated=True),
                        fields=("rule", "subject"),
                        name="one_open_alert",
                    )
                ],
            },
        ),
    ]
