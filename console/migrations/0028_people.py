"""Passwords that are to be changed, second factors, recovery codes."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    """Accounts that are there already keep their passwords and need no second factor."""

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ("console", "0027_token_rotation"),
    ]

    operations = [
        migrations.CreateModel(
            "PasswordDue",
            [
                (
                    "user",
                    models.OneToOneField(
                        settings.AUTH_USER_MODEL,
                        django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="password_due",
                        serialize=False,
                    ),
                ),
                ("since", models.DateTimeField(auto_now_add=True)),
            ],
            {"default_permissions": ()},
        ),
        migrations.CreateModel(
            "SecondFactor",
            [
                (
                    "user",
                    models.OneToOneField(
                        settings.AUTH_USER_MODEL,
                        django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="second_factor",
                        serialize=False,
                    ),
                ),
                ("secret", models.CharField(max_length=64)),
                ("confirmed_at", models.DateTimeField(auto_now_add=True)),
                ("last_step", models.BigIntegerField(default=0)),
                ("wrong", models.PositiveIntegerField(default=0)),
            ],
            {"default_permissions": ()},
        ),
        migrations.CreateModel(
            "RecoveryCode",
            [
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("digest", models.CharField(max_length=64)),
                ("used_at", models.DateTimeField(null=True)),
                (
                    "user",
                    models.ForeignKey(
                        settings.AUTH_USER_MODEL, django.db.models.deletion.CASCADE, related_name="recovery_codes"
                    ),
                ),
            ],
            {
                "default_permissions": (),
                "constraints": [models.UniqueConstraint(fields=["user", "digest"], name="one_recovery_code")],
            },
        ),
        migrations.AlterModelOptions(
            "operation",
            {
                "ordering": ["-created_at"],
                "permissions": [
                    ("steer_timers", "Can cancel, move and deliver timers"),
                    ("pause_timers", "Can pause and resume all timers"),
                    ("steer_delayed_queues", "Can act on Redisson's delayed queues"),
                    ("resend_dead_letters", "Can send dead letters again"),
                    ("reset_offsets", "Can move consumer groups to other offsets"),
                    ("change_settings", "Can make, change and delete topics and groups"),
                    ("steer_transactions", "Can decide transactions and have their producers asked"),
                    ("change_access", "Can make, change and delete broker users, secrets and policies"),
                ],
                "verbose_name": "operation",
                "verbose_name_plural": "operations",
            },
        ),
    ]
