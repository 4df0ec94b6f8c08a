"""Brokers of further clusters, and the processes of a broker."""

from __future__ import annotations

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    """Adds the entry of a broker, and replicas."""

    dependencies = [("broker", "0001_initial")]

    operations = [
        migrations.AddField(
            model_name="broker",
            name="entry",
            field=models.CharField(blank=True, default="", max_length=64),
        ),
        migrations.AddField(
            model_name="mirrorstate",
            name="slave_number",
            field=models.BigIntegerField(null=True),
        ),
        migrations.CreateModel(
            name="Replica",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.BigIntegerField()),
                (
                    "role",
                    models.CharField(
                        choices=[("master", "master"), ("slave", "slave")], max_length=8, verbose_name="role"
                    ),
                ),
                ("epoch", models.BigIntegerField(null=True)),
                ("address", models.CharField(blank=True, max_length=255)),
                ("version", models.CharField(blank=True, max_length=64)),
                ("log_end_position", models.BigIntegerField(null=True)),
                ("as_of_ms", models.BigIntegerField(null=True)),
                ("error", models.TextField(blank=True)),
                (
                    "broker",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="replicas", to="broker.broker"
                    ),
                ),
            ],
            options={
                "abstract": False,
                "default_permissions": ("view",),
                "default_manager_name": "objects",
                "constraints": [models.UniqueConstraint(fields=("broker", "number"), name="replica_once")],
            },
        ),
    ]
