"""Who may see the console; everybody who could until now still may."""

from typing import Any

from django.db import migrations


def let_users_stay(apps: Any, editor: Any) -> None:
    """Until now every user saw the console."""
    users = apps.get_model("auth", "User").objects.filter(is_superuser=False)
    if not users.exists():
        return
    kind, _ = apps.get_model("contenttypes", "ContentType").objects.get_or_create(
        app_label="console", model="topicpermission"
    )
    permission, _ = apps.get_model("auth", "Permission").objects.get_or_create(
        content_type=kind, codename="view_console", defaults={"name": "Can see the console"}
    )
    for user in users:
        user.user_permissions.add(permission)


class Migration(migrations.Migration):
    """One permission more."""

    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
        ("console", "0009_topic_permissions"),
    ]

    operations = [
        migrations.AlterModelOptions(
            name="topicpermission",
            options={
                "ordering": ["group__name", "prefix"],
                "permissions": [("view_console", "Can see the console")],
                "verbose_name": "topic permission",
                "verbose_name_plural": "topic permissions",
            },
        ),
        migrations.RunPython(let_users_stay, migrations.RunPython.noop),
    ]
