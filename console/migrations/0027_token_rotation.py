"""Tokens: one name each, another one in their place, and a limit of requests."""

from typing import Any

import django.db.models.deletion
from django.db import migrations, models


def name_apart(apps: Any, schema_editor: Any) -> None:
    """Give tokens that count, and have the name of another one, their prefix as well."""
    tokens = apps.get_model("console", "ApiToken").objects.using(schema_editor.connection.alias)
    seen = set()
    for row in tokens.filter(revoked_at=None).order_by("pk"):
        if row.name in seen:
            row.name = f"{row.name[:80]} ({row.prefix})"
            row.save(update_fields=["name"])
        seen.add(row.name)


class Migration(migrations.Migration):
    """Tokens that have the same name get their prefix behind it; how long they last stays as it is."""

    dependencies = [("console", "0026_audit_chain")]

    operations = [
        migrations.AddField(
            "apitoken",
            "replaced_by",
            models.ForeignKey(
                "console.apitoken",
                django.db.models.deletion.SET_NULL,
                null=True,
                blank=True,
                editable=False,
                related_name="+",
                verbose_name="replaced by",
            ),
        ),
        migrations.AddField(
            "apitoken",
            "requests_per_s",
            models.PositiveIntegerField("requests a second (0: as the settings say)", default=0, db_default=0),
        ),
        migrations.RunPython(name_apart, migrations.RunPython.noop),
        migrations.AddConstraint(
            "apitoken",
            models.UniqueConstraint(
                fields=["name"],
                condition=models.Q(revoked_at=None, replaced_by=None),
                name="one_token_of_a_name",
                violation_error_message="There is a token with this name already.",
            ),
        ),
    ]
