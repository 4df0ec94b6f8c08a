"""Rules of what is shown as masked, and the permission to see it all the same."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    """Adds the table; nothing is masked before somebody makes a rule."""

    dependencies = [("console", "0014_second_person")]

    operations = [
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
    ]
