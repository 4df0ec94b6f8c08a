"""What people call the states of a half message."""

from django.db import migrations, models


class Migration(migrations.Migration):
    """Labels alone: nothing of the table changes."""

    dependencies = [
        ("broker", "0002_several_brokers"),
    ]

    operations = [
        migrations.AlterField(
            model_name="halfmessage",
            name="state",
            field=models.CharField(
                choices=[
                    ("open", "undecided"),
                    ("due", "check due"),
                    ("ending", "being decided"),
                    ("parked", "parked"),
                    ("committed", "committed"),
                    ("rolled back", "rolled back"),
                    ("decided", "decided"),
                ],
                max_length=16,
                verbose_name="state",
            ),
        ),
    ]
