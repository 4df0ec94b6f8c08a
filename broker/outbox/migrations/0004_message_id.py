from django.db import migrations, models


class Migration(migrations.Migration):
    """The name that everything else gives to this id. The column keeps its own: older releases write and read it."""

    dependencies = [("escapement_outbox", "0003_named_broker")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RenameField("outboxmessage", "unique_id", "message_id"),
                migrations.AlterField(
                    "outboxmessage", "message_id", models.CharField(db_column="unique_id", max_length=64)
                ),
            ]
        )
    ]
