"""What people call things: labels, choices and permissions; nothing of a table changes but the names of permissions."""

from typing import Any

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

#: codename -> what administrators read where they give it
PERMISSIONS = {
    "steer_timers": "Can cancel, reschedule and deliver timers",
    "resend_dead_letters": "Can resend dead letters",
    "reset_offsets": "Can reset offsets of consumer groups",
    "change_settings": "Can create, change and delete topics and groups",
    "steer_transactions": "Can decide and check transactions",
    "change_access": "Can create, change and delete broker users, secrets and policies",
    "unmask": "Can view masked content, each time with a reason that is kept",
}


def rename(apps: Any, schema_editor: Any) -> None:
    """Give the permissions that are there their new names; `migrate` names only those that it makes."""
    permissions = apps.get_model("auth", "Permission").objects.using(schema_editor.connection.alias)
    for codename, name in PERMISSIONS.items():
        permissions.filter(content_type__app_label="console", codename=codename).update(name=name)


class Migration(migrations.Migration):
    """Who goes back to an older release keeps the new names: they say the same."""

    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
        ("console", "0031_send_messages"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AlterModelOptions(
            name="maskrule",
            options={
                "ordering": ["prefix", "pk"],
                "permissions": [("unmask", "Can view masked content, each time with a reason that is kept")],
                "verbose_name": "masking rule",
                "verbose_name_plural": "masking rules",
            },
        ),
        migrations.AlterModelOptions(
            name="operation",
            options={
                "ordering": ["-created_at"],
                "permissions": [
                    ("steer_timers", "Can cancel, reschedule and deliver timers"),
                    ("pause_timers", "Can pause and resume all timers"),
                    ("steer_delayed_queues", "Can act on Redisson's delayed queues"),
                    ("resend_dead_letters", "Can resend dead letters"),
                    ("send_messages", "Can send messages"),
                    ("reset_offsets", "Can reset offsets of consumer groups"),
                    ("change_settings", "Can create, change and delete topics and groups"),
                    ("steer_transactions", "Can decide and check transactions"),
                    ("change_access", "Can create, change and delete broker users, secrets and policies"),
                ],
                "verbose_name": "operation",
                "verbose_name_plural": "operations",
            },
        ),
        migrations.AlterField(
            model_name="alert",
            name="ended_at",
            field=models.DateTimeField(null=True, verbose_name="resolved"),
        ),
        migrations.AlterField(
            model_name="alert",
            name="raised_at",
            field=models.DateTimeField(null=True, verbose_name="firing since"),
        ),
        migrations.AlterField(
            model_name="alert",
            name="state",
            field=models.CharField(
                choices=[("pending", "above threshold, not firing yet"), ("firing", "firing"), ("ended", "resolved")],
                default="pending",
                max_length=8,
                verbose_name="state",
            ),
        ),
        migrations.AlterField(
            model_name="alert",
            name="told_before",
            field=models.TextField(blank=True, editable=False, verbose_name="notified"),
        ),
        migrations.AlterField(
            model_name="alertrule",
            name="emails",
            field=models.TextField(blank=True, verbose_name="e-mail recipients, one per line"),
        ),
        migrations.AlterField(
            model_name="alertrule",
            name="for_s",
            field=models.PositiveIntegerField(default=60, verbose_name="for at least (s)"),
        ),
        migrations.AlterField(
            model_name="alertrule",
            name="is_on",
            field=models.BooleanField(default=True, verbose_name="enabled"),
        ),
        migrations.AlterField(
            model_name="alertrule",
            name="limit",
            field=models.FloatField(verbose_name="threshold"),
        ),
        migrations.AlterField(
            model_name="alertrule",
            name="subject",
            field=models.CharField(default="*", max_length=255, verbose_name="subject (name, * for any)"),
        ),
        migrations.AlterField(
            model_name="alertrule",
            name="what",
            field=models.CharField(
                choices=[
                    ("broker-down", "broker unreachable for (s)"),
                    ("backlog", "lag of a group (messages)"),
                    ("still", "group with lag consumes nothing for (s)"),
                    ("dead-letters", "messages dead-lettered by a group in 5 min"),
                    ("lateness", "timer lateness p99 (ms)"),
                    ("lane-late", "lane overdue by (ms)"),
                    ("half-age", "age of the oldest undecided half message (s)"),
                    ("stuck-queue", "due value of a Redisson queue not transferred for (s)"),
                ],
                max_length=16,
                verbose_name="metric",
            ),
        ),
        migrations.AlterField(
            model_name="apitoken",
            name="created_at",
            field=models.DateTimeField(auto_now_add=True, verbose_name="created at"),
        ),
        migrations.AlterField(
            model_name="apitoken",
            name="requests_per_s",
            field=models.PositiveIntegerField(
                db_default=0, default=0, verbose_name="requests per second (0: as in the settings)"
            ),
        ),
        migrations.AlterField(
            model_name="auditentry",
            name="actor",
            field=models.CharField(max_length=150, verbose_name="actor"),
        ),
        migrations.AlterField(
            model_name="auditentry",
            name="at",
            field=models.DateTimeField(auto_now_add=True, verbose_name="time"),
        ),
        migrations.AlterField(
            model_name="auditentry",
            name="reason",
            field=models.TextField(blank=True, verbose_name="reason"),
        ),
        migrations.AlterField(
            model_name="auditentry",
            name="what",
            field=models.CharField(
                choices=[
                    ("confirmed", "confirmed"),
                    ("finished", "finished"),
                    ("aborted", "stop requested"),
                    ("continued", "continue requested"),
                    ("denied", "denied"),
                    ("approved", "approved"),
                    ("declined", "declined"),
                    ("expired", "not approved in time"),
                    ("done", "done"),
                    ("failed", "failed"),
                ],
                max_length=16,
                verbose_name="action",
            ),
        ),
        migrations.AlterField(
            model_name="checkaddress",
            name="actor",
            field=models.CharField(editable=False, max_length=150, verbose_name="created by"),
        ),
        migrations.AlterField(
            model_name="checkaddress",
            name="asked_at",
            field=models.DateTimeField(editable=False, null=True, verbose_name="last checked"),
        ),
        migrations.AlterField(
            model_name="checkaddress",
            name="created_at",
            field=models.DateTimeField(auto_now_add=True, verbose_name="created at"),
        ),
        migrations.AlterField(
            model_name="checkaddress",
            name="is_enabled",
            field=models.BooleanField(default=True, verbose_name="enabled"),
        ),
        migrations.AlterField(
            model_name="checkaddress",
            name="resting_until",
            field=models.DateTimeField(editable=False, null=True, verbose_name="not checked until"),
        ),
        migrations.AlterField(
            model_name="dashboardrun",
            name="state",
            field=models.CharField(
                choices=[
                    ("queued", "queued"),
                    ("running", "running"),
                    ("done", "done"),
                    ("cancelled", "stopped"),
                    ("failed", "failed"),
                ],
                default="queued",
                max_length=16,
            ),
        ),
        migrations.AlterField(
            model_name="maskrule",
            name="fields",
            field=models.TextField(default="body", verbose_name="masked fields: body, or property names, one per line"),
        ),
        migrations.AlterField(
            model_name="maskrule",
            name="is_on",
            field=models.BooleanField(default=True, verbose_name="enabled"),
        ),
        migrations.AlterField(
            model_name="maskrule",
            name="why",
            field=models.CharField(max_length=100, verbose_name="reason, shown in place of the content"),
        ),
        migrations.AlterField(
            model_name="operation",
            name="actor",
            field=models.CharField(max_length=150, verbose_name="created by"),
        ),
        migrations.AlterField(
            model_name="operation",
            name="created_at",
            field=models.DateTimeField(auto_now_add=True, verbose_name="created at"),
        ),
        migrations.AlterField(
            model_name="operation",
            name="state",
            field=models.CharField(
                choices=[
                    ("draft", "previewed"),
                    ("queued", "queued"),
                    ("running", "running"),
                    ("done", "done"),
                    ("aborted", "stopped"),
                    ("failed", "failed"),
                    ("waiting", "waiting for approval"),
                    ("declined", "declined"),
                    ("expired", "not approved in time"),
                ],
                default="draft",
                max_length=16,
                verbose_name="state",
            ),
        ),
        migrations.AlterField(
            model_name="savedview",
            name="created_at",
            field=models.DateTimeField(auto_now_add=True, verbose_name="created at"),
        ),
        migrations.AlterField(
            model_name="savedview",
            name="is_default",
            field=models.BooleanField(default=False, verbose_name="default of its page"),
        ),
        migrations.AlterField(
            model_name="silence",
            name="actor",
            field=models.CharField(max_length=150, verbose_name="created by"),
        ),
        migrations.AlterField(
            model_name="silence",
            name="created_at",
            field=models.DateTimeField(auto_now_add=True, verbose_name="created at"),
        ),
        migrations.AlterField(
            model_name="silence",
            name="rule",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                to="console.alertrule",
                verbose_name="rule (empty: all)",
            ),
        ),
        migrations.AlterConstraint(
            model_name="apitoken",
            name="one_token_of_a_name",
            constraint=models.UniqueConstraint(
                condition=models.Q(("replaced_by", None), ("revoked_at", None)),
                fields=("name",),
                name="one_token_of_a_name",
                violation_error_message="A token with this name already exists.",
            ),
        ),
        migrations.RunPython(rename, migrations.RunPython.noop),
    ]
