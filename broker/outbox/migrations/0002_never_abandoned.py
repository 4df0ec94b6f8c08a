# Rows that earlier versions gave up after 1,000 attempts, most of them of a broker that was away, are sent again.

from django.db import migrations, models


def forget_attempts(apps, schema_editor):
    messages = apps.get_model("escapement_outbox", "OutboxMessage")
    messages.objects.using(schema_editor.connection.alias).filter(refusals__gt=0).update(refusals=0)


class Migration(migrations.Migration):
    dependencies = [
        ("escapement_outbox", "0001_outbox"),
    ]

    operations = [
        migrations.AlterModelOptions(
            name="outboxmessage",
            options={"verbose_name": "outbox message"},
        ),
        # the column keeps its name, and new ones may be left out: an older release goes on writing rows meanwhile
        migrations.AlterField(
            model_name="outboxmessage",
            name="attempts",
            field=models.PositiveIntegerField(db_column="attempts", default=0),
        ),
        migrations.RenameField(
            model_name="outboxmessage",
            old_name="attempts",
            new_name="refusals",
        ),
        migrations.AddField(
            model_name="outboxmessage",
            name="producer_group",
            field=models.CharField(blank=True, db_default="", default="", max_length=120),
        ),
        migrations.AddField(
            model_name="outboxmessage",
            name="queue_id",
            field=models.PositiveIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="outboxmessage",
            name="lane",
            field=models.CharField(blank=True, max_length=40, null=True),
        ),
        migrations.AddField(
            model_name="outboxmessage",
            name="next_attempt_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="outboxmessage",
            name="stuck_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddIndex(
            model_name="outboxmessage",
            index=models.Index(fields=["lane", "id"], name="escapement_outbox_lane"),
        ),
        migrations.RunPython(forget_attempts, migrations.RunPython.noop),
    ]
