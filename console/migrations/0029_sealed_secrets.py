"""Secrets of authenticators are sealed with SECRET_KEY."""

from typing import Any

from django.db import migrations, models

from console.security import keys


def seal(apps: Any, schema_editor: Any) -> None:
    """Seal those that were kept in clear."""
    _each(apps, schema_editor, lambda purpose, kept: keys.seal(purpose, keys.unseal(purpose, kept)))


def unseal(apps: Any, schema_editor: Any) -> None:
    """Keep them in clear again, as the version before expects them."""
    _each(apps, schema_editor, keys.unseal)


def _each(apps: Any, schema_editor: Any, changed: Any) -> None:
    factors = apps.get_model("console", "SecondFactor").objects.using(schema_editor.connection.alias)
    for row in factors.select_for_update():
        factors.filter(pk=row.pk).update(secret=changed(f"second factor {row.pk}", row.secret))


class Migration(migrations.Migration):
    """Older processes that still run cannot read what is sealed; who signs in there meanwhile is refused."""

    dependencies = [("console", "0028_people")]

    operations = [
        migrations.AlterField("secondfactor", "secret", models.CharField(max_length=255)),
        migrations.RunPython(seal, unseal),
    ]
