"""Protobuf descriptors of topics."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    """One table."""

    dependencies = [("console", "0035_finding_marks")]

    operations = [
        migrations.CreateModel(
            name="TopicDescriptor",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("cluster", models.CharField(blank=True, default="", max_length=255)),
                ("topic", models.CharField(max_length=255)),
                ("type_name", models.CharField(max_length=500)),
                ("files", models.BinaryField()),
                ("digest", models.CharField(max_length=32)),
                ("actor", models.CharField(max_length=150)),
                ("reason", models.TextField(blank=True)),
                ("at", models.DateTimeField(auto_now=True)),
            ],
            options={
                "default_permissions": (),
                "constraints": [models.UniqueConstraint(fields=("cluster", "topic"), name="one_descriptor_of_a_topic")],
            },
        )
    ]
