"""Marks on dead letters: handled, or hidden."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    """One table."""

    dependencies = [("console", "0033_figures_over_time")]

    operations = [
        migrations.CreateModel(
            name="LetterMark",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("broker", models.CharField(max_length=255)),
                ("group", models.CharField(max_length=255)),
                ("queue_id", models.IntegerField()),
                ("offset", models.BigIntegerField()),
                ("position", models.BigIntegerField()),
                ("state", models.CharField(choices=[("handled", "handled"), ("hidden", "hidden")], max_length=8)),
                ("actor", models.CharField(max_length=150)),
                ("reason", models.TextField(blank=True)),
                ("at", models.DateTimeField(auto_now=True)),
            ],
            options={
                "default_permissions": (),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("broker", "group", "queue_id", "offset"), name="one_mark_of_a_letter"
                    )
                ],
            },
        )
    ]
