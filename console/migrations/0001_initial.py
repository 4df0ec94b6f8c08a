"""The tables of the console, as 21 migrations had made them (docs/decisions/0019)."""

from __future__ import annotations

import uuid

import django.contrib.postgres.fields
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import console.features.checkback.models as checkback


class Migration(migrations.Migration):
    """Creates all of them."""

    initial = True

    replaces = [
        ("console", "0001_api_token"),
        ("console", "0002_operations"),
        ("console", "0003_dashboards"),
        ("console", "0004_delayed_queues"),
        ("console", "0005_transactions"),
        ("console", "0006_check_addresses"),
        ("console", "0007_dead_letters"),
        ("console", "0008_reset_offsets"),
        ("console", "0009_topic_permissions"),
        ("console", "0010_view_console"),
        ("console", "0011_alerts"),
        ("console", "0012_change_settings"),
        ("console", "0013_access_user"),
        ("console", "0014_second_person"),
        ("console", "0015_mask_rules"),
        ("console", "0016_snapshots"),
        ("console", "0017_saved_views"),
        ("console", "0018_forget_operations"),
        ("console", "0019_identities"),
        ("console", "0020_alert_deliveries"),
        ("console", "0021_alert_rule_name"),
    ]

    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="AlertRule",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(blank=True, default="", max_length=80, verbose_name="name")),
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
                    models.CharField(default=checkback.new_salt, editable=False, max_length=32),
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
            name="MaskRule",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("prefix", models.CharField(blank=True, max_length=255, verbose_name="prefix of topics")),
                (
                    "fields",
                    models.TextField(
                        default="body", verbose_name="what is masked: body, or names of properties, one a line"
                    ),
                ),
                ("why", models.CharField(max_length=100, verbose_name="why, as it is shown in its place")),
                ("is_on", models.BooleanField(default=True, verbose_name="on")),
            ],
            options={
                "verbose_name": "masking rule",
                "verbose_name_plural": "masking rules",
                "ordering": ["prefix", "pk"],
                "permissions": [("unmask", "Can see what is masked, each time with a reason that is kept")],
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
            },
        ),
        migrations.CreateModel(
            name="ApiToken",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=100, verbose_name="name")),
                ("prefix", models.CharField(editable=False, max_length=16, unique=True, verbose_name="prefix")),
                ("digest", models.CharField(editable=False, max_length=64, verbose_name="SHA-256")),
                ("scopes", models.JSONField(default=list, verbose_name="scopes")),
                (
                    "access_user",
                    models.CharField(blank=True, default="", max_length=128, verbose_name="user of access control"),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True, verbose_name="created")),
                ("expires_at", models.DateTimeField(blank=True, null=True, verbose_name="expires")),
                ("revoked_at", models.DateTimeField(blank=True, null=True, verbose_name="revoked")),
                ("last_used_at", models.DateTimeField(blank=True, editable=False, null=True, verbose_name="last used")),
                (
                    "created_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="created by",
                    ),
                ),
            ],
            options={
                "verbose_name": "API token",
                "verbose_name_plural": "API tokens",
                "ordering": ["name", "prefix"],
            },
        ),
        migrations.CreateModel(
            name="AuditEntry",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("at", models.DateTimeField(auto_now_add=True, verbose_name="when")),
                ("actor", models.CharField(max_length=150, verbose_name="who")),
                (
                    "what",
                    models.CharField(
                        choices=[
                            ("confirmed", "confirmed"),
                            ("finished", "finished"),
                            ("aborted", "asked to stop"),
                            ("continued", "asked to go on"),
                            ("denied", "was not allowed"),
                            ("approved", "approved"),
                            ("declined", "declined"),
                            ("expired", "was not approved in time"),
                        ],
                        max_length=16,
                        verbose_name="what",
                    ),
                ),
                ("kind", models.CharField(max_length=64, verbose_name="kind")),
                ("operation", models.UUIDField(db_index=True, null=True)),
                ("reason", models.TextField(blank=True, verbose_name="why")),
                ("result", models.JSONField(default=dict, verbose_name="result")),
                (
                    "user",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "verbose_name": "audit entry",
                "verbose_name_plural": "audit entries",
                "ordering": ["-at", "-id"],
                "default_permissions": ("view",),
            },
        ),
        migrations.CreateModel(
            name="CheckAddress",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("group", models.CharField(max_length=127, unique=True, verbose_name="producer group")),
                ("url", models.CharField(max_length=500, verbose_name="address")),
                ("salt", models.CharField(editable=False, max_length=32)),
                ("digest", models.CharField(editable=False, max_length=64)),
                ("is_enabled", models.BooleanField(default=True, verbose_name="asked")),
                ("actor", models.CharField(editable=False, max_length=150, verbose_name="by")),
                ("created_at", models.DateTimeField(auto_now_add=True, verbose_name="created")),
                ("changed_at", models.DateTimeField(auto_now=True, verbose_name="changed")),
                ("asked_at", models.DateTimeField(editable=False, null=True, verbose_name="last asked")),
                ("outcome", models.CharField(blank=True, editable=False, max_length=200, verbose_name="last answer")),
                ("failures", models.IntegerField(default=0, editable=False, verbose_name="failures")),
                ("resting_until", models.DateTimeField(editable=False, null=True, verbose_name="not asked until")),
                (
                    "created_by",
                    models.ForeignKey(
                        blank=True,
                        editable=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "verbose_name": "check-back address",
                "verbose_name_plural": "check-back addresses",
                "ordering": ["group"],
            },
        ),
        migrations.CreateModel(
            name="DashboardRun",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("batch", models.UUIDField(db_index=True, default=uuid.uuid4)),
                ("broker", models.CharField(max_length=255)),
                ("dashboard", models.CharField(max_length=32)),
                ("window", models.CharField(default="all", max_length=16)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("queued", "waiting to run"),
                            ("running", "running"),
                            ("done", "done"),
                            ("cancelled", "stopped"),
                            ("failed", "failed"),
                        ],
                        default="queued",
                        max_length=16,
                    ),
                ),
                ("is_current", models.BooleanField(default=False)),
                ("is_abort_wanted", models.BooleanField(default=False)),
                ("actor", models.CharField(blank=True, max_length=150)),
                ("source", models.CharField(max_length=1024)),
                ("queued_at", models.DateTimeField(auto_now_add=True)),
                ("started_at", models.DateTimeField(null=True)),
                ("finished_at", models.DateTimeField(null=True)),
                ("beat_at", models.DateTimeField(null=True)),
                ("progress", models.FloatField(default=0)),
                ("as_of_ms", models.BigIntegerField(null=True)),
                ("start_position", models.BigIntegerField(null=True)),
                ("end_position", models.BigIntegerField(null=True)),
                ("rows_read", models.BigIntegerField(null=True)),
                ("damaged_rows", models.BigIntegerField(null=True)),
                ("duration_ms", models.BigIntegerField(null=True)),
                ("error", models.TextField(blank=True)),
            ],
            options={
                "verbose_name": "run of a dashboard",
                "verbose_name_plural": "runs of dashboards",
                "ordering": ["-queued_at"],
                "permissions": [("run_dashboards", "Can run and stop dashboards")],
                "indexes": [models.Index(fields=["dashboard", "-queued_at"], name="dashboard_run_newest")],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("is_current", True)),
                        fields=("broker", "dashboard", "window"),
                        name="one_current_run",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="DashboardPoint",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("series", models.CharField(max_length=32)),
                ("topic", models.CharField(max_length=255)),
                ("label", models.TextField()),
                ("part", models.TextField()),
                ("at_ms", models.BigIntegerField(null=True)),
                ("value", models.FloatField()),
                (
                    "positions",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.BigIntegerField(), null=True, size=None
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="points", to="console.dashboardrun"
                    ),
                ),
            ],
            options={
                "default_permissions": ("view",),
            },
        ),
        migrations.CreateModel(
            name="Delivery",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("body", models.TextField()),
                ("tries", models.PositiveSmallIntegerField(default=0)),
                ("created_at", models.DateTimeField()),
                ("next_at", models.DateTimeField(db_index=True, null=True)),
                ("told_at", models.DateTimeField(null=True)),
                (
                    "alert",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="deliveries", to="console.alert"
                    ),
                ),
            ],
            options={
                "verbose_name": "delivery",
                "verbose_name_plural": "deliveries",
                "ordering": ["created_at"],
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="Identity",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("issuer", models.CharField(max_length=255)),
                ("subject", models.CharField(max_length=255)),
                (
                    "user",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="identity",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="Operation",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("kind", models.CharField(max_length=64, verbose_name="kind")),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("draft", "previewed"),
                            ("queued", "waiting to run"),
                            ("running", "running"),
                            ("done", "done"),
                            ("aborted", "stopped"),
                            ("failed", "failed"),
                            ("waiting", "waits for a second person"),
                            ("declined", "declined"),
                            ("expired", "was not approved in time"),
                        ],
                        default="draft",
                        max_length=16,
                        verbose_name="state",
                    ),
                ),
                ("parameters", models.JSONField(default=dict, verbose_name="parameters")),
                ("preview", models.JSONField(default=dict, verbose_name="preview")),
                ("previewed_at", models.DateTimeField(null=True, verbose_name="previewed")),
                ("reason", models.TextField(blank=True, verbose_name="reason")),
                ("actor", models.CharField(max_length=150, verbose_name="by")),
                ("created_at", models.DateTimeField(auto_now_add=True, verbose_name="created")),
                ("started_at", models.DateTimeField(null=True, verbose_name="started")),
                ("finished_at", models.DateTimeField(null=True, verbose_name="finished")),
                ("beat_at", models.DateTimeField(null=True)),
                ("total", models.IntegerField(null=True)),
                ("done", models.IntegerField(default=0)),
                ("results", models.JSONField(default=dict)),
                ("is_abort_wanted", models.BooleanField(default=False)),
                ("waits_until", models.DateTimeField(null=True)),
                ("second_actor", models.CharField(blank=True, default="", max_length=150)),
                ("second_reason", models.TextField(blank=True, default="")),
                ("error", models.TextField(blank=True)),
                (
                    "created_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "second_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "verbose_name": "operation",
                "verbose_name_plural": "operations",
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
            },
        ),
        migrations.CreateModel(
            name="OperationItem",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.IntegerField()),
                ("target", models.JSONField()),
                ("label", models.JSONField(default=dict)),
                ("outcome", models.CharField(blank=True, max_length=32)),
                ("result", models.JSONField(default=dict)),
                (
                    "operation",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="items", to="console.operation"
                    ),
                ),
            ],
            options={
                "ordering": ["number"],
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="SavedView",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("page", models.CharField(max_length=64, verbose_name="page")),
                ("path", models.CharField(max_length=1500, verbose_name="path")),
                ("query", models.CharField(blank=True, max_length=1500, verbose_name="filters")),
                ("name", models.CharField(max_length=60, verbose_name="name")),
                ("is_shared", models.BooleanField(default=False, verbose_name="shared with everybody")),
                ("is_default", models.BooleanField(default=False, verbose_name="opens with the page")),
                ("created_at", models.DateTimeField(auto_now_add=True, verbose_name="created")),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="saved_views",
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="owner",
                    ),
                ),
            ],
            options={
                "verbose_name": "saved view",
                "verbose_name_plural": "saved views",
                "ordering": ["page", "name", "pk"],
                "permissions": [("share_views", "Can share saved views with everybody")],
                "default_permissions": (),
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
            name="Snapshot",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("broker", models.CharField(max_length=255)),
                ("slot_ms", models.BigIntegerField()),
                ("at_ms", models.BigIntegerField()),
                ("why", models.JSONField(default=dict)),
                ("lanes", models.BinaryField(null=True)),
                ("timers", models.BinaryField(null=True)),
                ("transactions", models.BinaryField(null=True)),
                ("groups", models.BinaryField(null=True)),
                ("lanes_pending", models.BigIntegerField(null=True)),
                ("timers_pending", models.BigIntegerField(null=True)),
                ("lag", models.BigIntegerField(null=True)),
            ],
            options={
                "default_permissions": (),
                "indexes": [models.Index(fields=["broker", "at_ms"], name="snapshot_nearest")],
                "constraints": [models.UniqueConstraint(fields=("broker", "slot_ms"), name="one_snapshot_a_slot")],
            },
        ),
        migrations.CreateModel(
            name="TopicPermission",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("prefix", models.CharField(blank=True, max_length=255, verbose_name="prefix of topics")),
                (
                    "group",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="topic_permissions",
                        to="auth.group",
                        verbose_name="group",
                    ),
                ),
            ],
            options={
                "verbose_name": "topic permission",
                "verbose_name_plural": "topic permissions",
                "ordering": ["group__name", "prefix"],
                "permissions": [("view_console", "Can see the console")],
            },
        ),
        migrations.AddConstraint(
            model_name="alert",
            constraint=models.UniqueConstraint(
                condition=models.Q(("state", "ended"), _negated=True), fields=("rule", "subject"), name="one_open_alert"
            ),
        ),
        migrations.AddIndex(
            model_name="dashboardpoint",
            index=models.Index(fields=["run", "series", "topic", "at_ms"], name="dashboard_point_found"),
        ),
        migrations.AddConstraint(
            model_name="identity",
            constraint=models.UniqueConstraint(fields=("issuer", "subject"), name="one_identity"),
        ),
        migrations.AddIndex(
            model_name="operation",
            index=models.Index(fields=["-created_at"], name="operation_newest"),
        ),
        migrations.AddIndex(
            model_name="operation",
            index=models.Index(condition=models.Q(("state", "draft")), fields=["created_at"], name="operation_drafts"),
        ),
        migrations.AddIndex(
            model_name="operationitem",
            index=models.Index(
                condition=models.Q(("outcome", "")), fields=["operation", "number"], name="item_untouched"
            ),
        ),
        migrations.AddConstraint(
            model_name="operationitem",
            constraint=models.UniqueConstraint(fields=("operation", "number"), name="item_once"),
        ),
        migrations.AddConstraint(
            model_name="savedview",
            constraint=models.UniqueConstraint(fields=("owner", "page", "name"), name="one_view_of_a_name"),
        ),
        migrations.AddConstraint(
            model_name="savedview",
            constraint=models.UniqueConstraint(
                condition=models.Q(("is_default", True)), fields=("owner", "path"), name="one_default_view"
            ),
        ),
        migrations.AddConstraint(
            model_name="topicpermission",
            constraint=models.UniqueConstraint(fields=("group", "prefix"), name="one_topic_permission"),
        ),
    ]
