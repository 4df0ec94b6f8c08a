"""The permission to send messages, which roles that send dead letters again have from the beginning."""

from typing import Any

from django.db import migrations


def give(apps: Any, schema_editor: Any) -> None:
    """Give it to the roles that exist and may send dead letters again; in a new database there are none yet."""
    using = schema_editor.connection.alias
    permissions = apps.get_model("auth", "Permission").objects.using(using)
    known = permissions.filter(content_type__app_label="console", codename="resend_dead_letters").first()
    if known is None:
        return
    made, _ = permissions.get_or_create(
        content_type=known.content_type, codename="send_messages", defaults={"name": "Can send messages"}
    )
    for role in known.group_set.all():
        role.permissions.add(made)


class Migration(migrations.Migration):
    """Who could put messages into topics by sending them again may write them as well."""

    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
        ("console", "0030_administrators_access"),
    ]

    operations = [
        migrations.AlterModelOptions(
            "operation",
            {
                "ordering": ["-created_at"],
                "permissions": [
                    ("steer_timers", "Can cancel, move and deliver timers"),
                    ("pause_timers", "Can pause and resume all timers"),
                    ("steer_delayed_queues", "Can act on Redisson's delayed queues"),
                    ("resend_dead_letters", "Can send dead letters again"),
                    ("send_messages", "Can send messages"),
                    ("reset_offsets", "Can move consumer groups to other offsets"),
                    ("change_settings", "Can make, change and delete topics and groups"),
                    ("steer_transactions", "Can decide transactions and have their producers asked"),
                    ("change_access", "Can make, change and delete broker users, secrets and policies"),
                ],
                "verbose_name": "operation",
                "verbose_name_plural": "operations",
            },
        ),
        migrations.RunPython(give, migrations.RunPython.noop),
    ]
