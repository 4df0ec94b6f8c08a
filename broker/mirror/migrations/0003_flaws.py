from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("broker", "0002_transactions"),
    ]

    operations = [
        migrations.AddField(
            model_name="mirrorstate",
            name="flaws",
            field=models.JSONField(default=list),
        ),
    ]
