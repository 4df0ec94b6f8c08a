"""Administrators of older installations may administer broker users, as those of new ones do."""

from typing import Any

from django.db import migrations

#: what shows that the role is still the one that was made here: the owner may have made another one of it
_KNOWN_BY = "change_settings"


def give(apps: Any, schema_editor: Any) -> None:
    """Give the role `administrator` the permission `change_access`; permissions come behind migrations, so it is made
    where it is not there yet."""
    using = schema_editor.connection.alias
    group = apps.get_model("auth", "Group").objects.using(using).filter(name="administrator").first()
    permissions = apps.get_model("auth", "Permission").objects.using(using)
    of_console = {"content_type__app_label": "console"}
    if group is None or not group.permissions.filter(codename=_KNOWN_BY, **of_console).exists():
        return
    kind, _is_new = (
        apps.get_model("contenttypes", "ContentType")
        .objects.using(using)
        .get_or_create(app_label="console", model="operation")
    )
    permission, _is_new = permissions.get_or_create(
        codename="change_access",
        content_type=kind,
        defaults={"name": "Can make, change and delete broker users, secrets and policies"},
    )
    group.permissions.add(permission)


class Migration(migrations.Migration):
    """Roles are made once and are the owner's from then on: nothing else would give it to them."""

    dependencies = [
        ("console", "0029_sealed_secrets"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
    ]

    operations = [migrations.RunPython(give, migrations.RunPython.noop)]
