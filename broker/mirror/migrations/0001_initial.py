"""The tables of the mirror, as three migrations had made them (docs/decisions/0019)."""

from __future__ import annotations

import django.contrib.postgres.fields
import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    """Creates all of them."""

    initial = True

    replaces = [
        ("broker", "0001_first_light"),
        ("broker", "0002_transactions"),
        ("broker", "0003_flaws"),
    ]

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Broker",
            fields=[
                ("name", models.CharField(max_length=255, primary_key=True, serialize=False)),
                ("cluster", models.CharField(blank=True, max_length=255)),
                ("address", models.CharField(blank=True, max_length=255)),
                ("version", models.CharField(blank=True, max_length=64)),
                ("state", models.CharField(default="UNKNOWN", max_length=16)),
                ("reasons", models.JSONField(default=list)),
                ("damaged", models.JSONField(default=list)),
                ("started_ms", models.BigIntegerField(null=True)),
                ("log_min_position", models.BigIntegerField(null=True)),
                ("log_end_position", models.BigIntegerField(null=True)),
                ("disk_used_ratio", models.FloatField(null=True)),
                ("rss_bytes", models.BigIntegerField(null=True)),
                ("as_of_ms", models.BigIntegerField(null=True)),
            ],
            options={
                "abstract": False,
                "default_permissions": ("view",),
                "default_manager_name": "objects",
            },
        ),
        migrations.CreateModel(
            name="MirrorState",
            fields=[
                (
                    "broker",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="mirror",
                        serialize=False,
                        to="broker.broker",
                    ),
                ),
                ("token", models.TextField(blank=True)),
                ("sequence", models.BigIntegerField(default=0)),
                ("polling", models.BooleanField(default=False)),
                ("as_of_ms", models.BigIntegerField(null=True)),
                ("following_since_ms", models.BigIntegerField(null=True)),
                ("full_ms", models.BigIntegerField(null=True)),
                ("took_ms", models.FloatField(null=True)),
                ("error", models.TextField(blank=True)),
                ("flaws", models.JSONField(default=list)),
            ],
            options={
                "abstract": False,
                "default_permissions": ("view",),
                "default_manager_name": "objects",
            },
        ),
        migrations.CreateModel(
            name="OpMessage",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("offset", models.BigIntegerField(verbose_name="offset")),
                ("position", models.BigIntegerField(verbose_name="position")),
                ("store_ms", models.BigIntegerField(verbose_name="stored")),
                (
                    "half_offsets",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.BigIntegerField(), size=None, verbose_name="decides"
                    ),
                ),
                ("commits", models.IntegerField(verbose_name="commits")),
                ("rollbacks", models.IntegerField(verbose_name="rollbacks")),
                (
                    "broker",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="ops", to="broker.broker"
                    ),
                ),
            ],
            options={
                "verbose_name": "op message",
                "verbose_name_plural": "op messages",
                "abstract": False,
                "default_permissions": ("view",),
                "default_manager_name": "objects",
            },
        ),
        migrations.CreateModel(
            name="HalfMessage",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("offset", models.BigIntegerField(verbose_name="offset")),
                ("position", models.BigIntegerField(null=True, verbose_name="position")),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("open", "undecided"),
                            ("due", "to be asked about"),
                            ("ending", "being decided"),
                            ("parked", "parked"),
                            ("committed", "committed"),
                            ("rolled back", "rolled back"),
                            ("decided", "decided"),
                        ],
                        max_length=16,
                        verbose_name="state",
                    ),
                ),
                ("group", models.CharField(blank=True, max_length=255, verbose_name="producer group")),
                ("topic", models.CharField(blank=True, max_length=255, verbose_name="real topic")),
                ("queue_id", models.IntegerField(null=True)),
                ("transaction_id", models.CharField(blank=True, max_length=255, verbose_name="transaction id")),
                (
                    "keys",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.TextField(), default=list, size=None, verbose_name="keys"
                    ),
                ),
                ("tag", models.TextField(blank=True, verbose_name="tag")),
                ("store_ms", models.BigIntegerField(null=True, verbose_name="stored")),
                ("checks", models.IntegerField(null=True, verbose_name="checks")),
                ("next_check_ms", models.BigIntegerField(null=True, verbose_name="next check")),
                ("parked_ms", models.BigIntegerField(null=True)),
                ("decided_ms", models.BigIntegerField(null=True, verbose_name="decided")),
                ("decided_by", models.TextField(blank=True, verbose_name="decided by")),
                ("reason", models.TextField(blank=True, verbose_name="reason")),
                ("delivered_queue_id", models.IntegerField(null=True)),
                ("delivered_offset", models.BigIntegerField(null=True, verbose_name="delivered as")),
                ("delivered_position", models.BigIntegerField(null=True)),
                (
                    "broker",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="halves", to="broker.broker"
                    ),
                ),
                (
                    "op",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="halves",
                        to="broker.opmessage",
                        verbose_name="op message",
                    ),
                ),
            ],
            options={
                "verbose_name": "half message",
                "verbose_name_plural": "half messages",
                "abstract": False,
                "default_permissions": ("view",),
                "default_manager_name": "objects",
            },
        ),
        migrations.CreateModel(
            name="Queue",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("topic", models.CharField(max_length=255)),
                ("queue_id", models.IntegerField()),
                ("min_offset", models.BigIntegerField(null=True)),
                ("max_offset", models.BigIntegerField(null=True)),
                ("last_ms", models.BigIntegerField(null=True)),
                (
                    "broker",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="queues", to="broker.broker"
                    ),
                ),
            ],
            options={
                "abstract": False,
                "default_permissions": ("view",),
                "default_manager_name": "objects",
            },
        ),
        migrations.CreateModel(
            name="RateHistory",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "kind",
                    models.CharField(
                        choices=[("topic", "Topic"), ("group", "Group"), ("level", "Level"), ("flow", "Flow")],
                        max_length=8,
                    ),
                ),
                ("name", models.CharField(max_length=255)),
                ("slot", models.BigIntegerField()),
                (
                    "counts",
                    django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(null=True), size=None),
                ),
                (
                    "broker",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="histories", to="broker.broker"
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "rate histories",
                "abstract": False,
                "default_permissions": ("view",),
                "default_manager_name": "objects",
            },
        ),
        migrations.CreateModel(
            name="ScheduleLevel",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("level", models.IntegerField()),
                ("delay_ms", models.BigIntegerField()),
                ("min_offset", models.BigIntegerField(null=True)),
                ("delay_offset", models.BigIntegerField(null=True)),
                ("max_offset", models.BigIntegerField(null=True)),
                ("persisted_offset", models.BigIntegerField(null=True)),
                ("persisted_ms", models.BigIntegerField(null=True)),
                ("next_due_ms", models.BigIntegerField(null=True)),
                ("oldest_store_ms", models.BigIntegerField(null=True)),
                ("released_total", models.BigIntegerField(null=True)),
                ("released_per_s", models.FloatField(null=True)),
                ("lateness_p50_ms", models.FloatField(null=True)),
                ("lateness_p99_ms", models.FloatField(null=True)),
                ("early_total", models.BigIntegerField(null=True)),
                (
                    "marks",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.BigIntegerField(), default=list, size=None
                    ),
                ),
                (
                    "broker",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="levels", to="broker.broker"
                    ),
                ),
            ],
            options={
                "abstract": False,
                "default_permissions": ("view",),
                "default_manager_name": "objects",
            },
        ),
        migrations.CreateModel(
            name="Topic",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=255)),
                ("read_queues", models.IntegerField()),
                ("write_queues", models.IntegerField()),
                ("permission", models.IntegerField()),
                ("filter_type", models.CharField(default="SINGLE_TAG", max_length=32)),
                ("system_flag", models.IntegerField(default=0)),
                ("order", models.BooleanField(default=False)),
                ("attributes", models.JSONField(default=dict)),
                ("is_system", models.BooleanField(default=False)),
                (
                    "broker",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="topics", to="broker.broker"
                    ),
                ),
            ],
            options={
                "abstract": False,
                "default_permissions": ("view",),
                "default_manager_name": "objects",
            },
        ),
        migrations.CreateModel(
            name="ConsumerGroup",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=255)),
                ("retry_max_times", models.IntegerField(default=16)),
                ("retry_queues", models.IntegerField(default=1)),
                ("consume_enable", models.BooleanField(default=True)),
                ("consume_broadcast_enable", models.BooleanField(default=True)),
                ("consume_message_orderly", models.BooleanField(default=False)),
                ("members", models.IntegerField(null=True)),
                ("is_system", models.BooleanField(default=False)),
                (
                    "broker",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="groups", to="broker.broker"
                    ),
                ),
            ],
            options={
                "abstract": False,
                "default_permissions": ("view",),
                "default_manager_name": "objects",
                "constraints": [models.UniqueConstraint(fields=("broker", "name"), name="group_once")],
            },
        ),
        migrations.CreateModel(
            name="ConsumerOffset",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("group", models.CharField(max_length=255)),
                ("topic", models.CharField(max_length=255)),
                ("queue_id", models.IntegerField()),
                ("offset", models.BigIntegerField()),
                (
                    "broker",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="offsets", to="broker.broker"
                    ),
                ),
            ],
            options={
                "abstract": False,
                "default_permissions": ("view",),
                "default_manager_name": "objects",
                "indexes": [models.Index(fields=["broker", "topic"], name="offset_by_topic")],
                "constraints": [
                    models.UniqueConstraint(fields=("broker", "group", "topic", "queue_id"), name="offset_once")
                ],
            },
        ),
        migrations.AddConstraint(
            model_name="opmessage",
            constraint=models.UniqueConstraint(fields=("broker", "offset"), name="op_once"),
        ),
        migrations.AddIndex(
            model_name="halfmessage",
            index=models.Index(fields=["broker", "state"], name="half_by_state"),
        ),
        migrations.AddConstraint(
            model_name="halfmessage",
            constraint=models.UniqueConstraint(fields=("broker", "offset"), name="half_once"),
        ),
        migrations.AddConstraint(
            model_name="queue",
            constraint=models.UniqueConstraint(fields=("broker", "topic", "queue_id"), name="queue_once"),
        ),
        migrations.AddConstraint(
            model_name="ratehistory",
            constraint=models.UniqueConstraint(fields=("broker", "kind", "name"), name="history_once"),
        ),
        migrations.AddConstraint(
            model_name="schedulelevel",
            constraint=models.UniqueConstraint(fields=("broker", "level"), name="level_once"),
        ),
        migrations.AddConstraint(
            model_name="topic",
            constraint=models.UniqueConstraint(fields=("broker", "name"), name="topic_once"),
        ),
    ]
