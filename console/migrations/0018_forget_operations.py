"""What finds previews that nobody confirmed."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    """Adds the index."""

    dependencies = [("console", "0017_saved_views")]

    operations = [
        migrations.AddIndex(
            model_name="operation",
            index=models.Index(condition=models.Q(("state", "draft")), fields=["created_at"], name="operation_drafts"),
        ),
    ]
