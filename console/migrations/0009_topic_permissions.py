"""Which topics a group of users may see."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    """One table."""

    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
        ("console", "0008_reset_offsets"),
    ]

    operations = [
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
                "constraints": [models.UniqueConstraint(fields=("group", "prefix"), name="one_topic_permission")],
            },
        ),
    ]
