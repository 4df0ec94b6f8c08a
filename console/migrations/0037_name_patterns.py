"""Rights on names: what was a beginning without saying so is written with a star, since a bare name is that name alone.

Topics of roles and scopes of tokens keep their meaning, and so do operations that wait to be confirmed or approved.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db import migrations, models

#: operations whose parameters name topics, with the names that these had and have
_LIMITS = ("people.add_role", "people.limit_role", "people.limit")
_BEFORE, _AFTER = "prefixes", "topics"
_MAKES_TOKEN = "tokens.make"  # noqa: S105 - the name of an operation
_RIGHTS = ("publish", "read", "admin", "consume", "configure", "unmask", "access", "people")


def _forwards(apps: Any, editor: Any) -> None:
    def change(scopes: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{"pattern": f"{each['prefix']}*", "actions": each["actions"]} for each in scopes]

    _rewrite(apps, editor, change, lambda prefix: f"{prefix}*", _BEFORE, _AFTER)
    alias = editor.connection.alias
    for row in apps.get_model("console", "TopicPermission").objects.using(alias).all():
        row.pattern = f"{row.pattern}*"
        row.save(update_fields=["pattern"])
    for row in _operations(apps, editor, (_MAKES_TOKEN,)):
        for right in _RIGHTS:
            # a star behind a beginning was taken, and meant nothing more
            row.parameters[right] = [f"{each.removesuffix('*')}*" for each in row.parameters.get(right, [])]
        row.save(update_fields=["parameters"])


def _backwards(apps: Any, editor: Any) -> None:
    """Write beginnings as they were; a name alone cannot be written, and would open more as a beginning."""
    alias = editor.connection.alias
    patterns = set(apps.get_model("console", "TopicPermission").objects.using(alias).values_list("pattern", flat=True))
    for scopes in apps.get_model("console", "ApiToken").objects.using(alias).values_list("scopes", flat=True):
        patterns |= {each["pattern"] for each in scopes}
    exact = sorted(pattern for pattern in patterns if not pattern.endswith("*"))
    if exact:
        raise ValueError(f"Before this version a right was on all names that begin so; take away those on {exact}.")

    def change(scopes: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{"prefix": each["pattern"].removesuffix("*"), "actions": each["actions"]} for each in scopes]

    waiting = _operations(apps, editor, (*_LIMITS, _MAKES_TOKEN))
    waiting.filter(state="draft").delete()
    waiting.filter(state="waiting").update(state="expired")
    _rewrite(apps, editor, change, lambda pattern: pattern.removesuffix("*"), _AFTER, _BEFORE)
    for row in apps.get_model("console", "TopicPermission").objects.using(alias).all():
        row.pattern = row.pattern.removesuffix("*")
        row.save(update_fields=["pattern"])


def _rewrite(
    apps: Any,
    editor: Any,
    change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]],
    name: Callable[[str], str],
    before: str,
    after: str,
) -> None:
    """Change the scopes of all tokens, and the parameters of operations that limit somebody to topics."""
    for token in apps.get_model("console", "ApiToken").objects.using(editor.connection.alias).all():
        token.scopes = change(token.scopes)
        token.save(update_fields=["scopes"])
    for row in _operations(apps, editor, _LIMITS):
        if before in row.parameters:
            row.parameters[after] = [name(each) for each in row.parameters.pop(before)]
            row.save(update_fields=["parameters"])


def _operations(apps: Any, editor: Any, kinds: tuple[str, ...]) -> Any:
    rows = apps.get_model("console", "Operation").objects.using(editor.connection.alias)
    return rows.filter(kind__in=kinds)


class Migration(migrations.Migration):
    """One column has another name; between two rows of a role nothing is the same, before and after."""

    dependencies = [("console", "0036_topic_descriptors")]

    operations = [
        migrations.RemoveConstraint("topicpermission", "one_topic_permission"),
        migrations.RenameField("topicpermission", "prefix", "pattern"),
        migrations.AlterModelOptions(
            "topicpermission",
            options={
                "verbose_name": "topic permission",
                "verbose_name_plural": "topic permissions",
                "ordering": ["group__name", "pattern"],
                "permissions": [("view_console", "Can see the console")],
            },
        ),
        migrations.AlterField(
            "topicpermission",
            "pattern",
            models.CharField(
                help_text="orders is the topic of that name, orders* are all that begin so, * is every topic.",
                max_length=256,
                verbose_name="topics",
            ),
        ),
        migrations.RunPython(_forwards, _backwards, elidable=True),
        migrations.AddConstraint(
            "topicpermission",
            models.UniqueConstraint(fields=("group", "pattern"), name="one_topic_permission"),
        ),
    ]
