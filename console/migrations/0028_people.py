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
    ]
