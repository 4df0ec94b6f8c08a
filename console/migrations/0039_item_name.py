"""An index: what operations did to a thing is found by its name."""

from __future__ import annotations

from django.db import migrations, models
from django.db.models.fields.json import KeyTextTransform


class Migration(migrations.Migration):
    """One index."""

    dependencies = [("console", "0038_delay_level")]

    operations = [
        migrations.AddIndex(
            model_name="operationitem",
            index=models.Index(KeyTextTransform("name", "label"), name="item_name"),
        ),
    ]
