"""Snapshots of lanes, timers, transactions and groups, for looking back."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    """Adds the table."""

    dependencies = [("console", "0015_mask_rules")]

    operations = [
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
    ]
