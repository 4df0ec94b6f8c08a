"""Operations know the brokers that they are about."""

from django.db import migrations, models


class Migration(migrations.Migration):
    """Those that there are were of the one broker, which is what "" stands for."""

    dependencies = [("console", "0023_snapshots_in_messagepack")]

    operations = [
        migrations.AddField(
            model_name="operation",
            name="broker",
            field=models.CharField(blank=True, default="", max_length=255, verbose_name="broker"),
        ),
    ]
