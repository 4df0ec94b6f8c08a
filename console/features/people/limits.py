"""The topics that a role, or one user alone, is limited to: checked, read and written.

A user who is limited alone has a role that nobody else has (own_role.py), made here and gone with its last topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.contrib.auth.models import Group

from console.operations.errors import InvalidParameter, NotPossible
from console.security.models import TopicPermission
from console.security.name_patterns import EVERY, is_well_formed
from console.security.own_role import LONGEST_ROLE, own_name, own_roles

MOST_TOPICS, LONGEST_PATTERN = 100, 256


def checked_topics(parameters: Mapping[str, Any]) -> list[str]:
    """Return the topics, names or beginnings of names, each once; raises InvalidParameter."""
    given = parameters.get("topics", ())
    if isinstance(given, str) or len(given) > MOST_TOPICS:
        raise InvalidParameter("topics", f"topics is a list of at most {MOST_TOPICS}.")
    if not all(isinstance(each, str) and 0 < len(each) <= LONGEST_PATTERN for each in given):
        raise InvalidParameter("topics", f"A topic has 1 to {LONGEST_PATTERN} characters.")
    if wrong := [each for each in given if not is_well_formed(each)]:
        raise InvalidParameter("topics", f"A star stands at the end only, as in orders*: {wrong[0]!r} is no name.")
    return sorted(set(given))


def write_topics(group: Group, patterns: Iterable[str]) -> None:
    """Write the rows that are wanted, one by one, so that the audit has each."""
    known = {row.pattern: row for row in TopicPermission.objects.filter(group=group)}
    for pattern in known.keys() - set(patterns):
        known[pattern].delete()
    for pattern in sorted(set(patterns) - known.keys()):
        TopicPermission.objects.create(group=group, pattern=pattern)


def own_topics(user: Any) -> list[str]:
    """Return the topics that one user is limited to beside those of roles."""
    rows = TopicPermission.objects.filter(group__in=own_roles(user))
    return sorted(set(rows.values_list("pattern", flat=True)))


def seen_with(roles: Iterable[Group], own: Iterable[str]) -> list[str]:
    """Return what somebody sees who has these roles, and is limited to `own` beside them: every topic if none names
    any."""
    of_roles = TopicPermission.objects.filter(group__in=list(roles)).values_list("pattern", flat=True)
    return sorted({*of_roles, *own}) or [EVERY]


def limit_alone(user: Any, patterns: Iterable[str]) -> None:
    """Write the topics to the user's own role; without any it is gone. Raises NotPossible."""
    patterns = list(patterns)
    name = own_name(user)
    if len(name) > LONGEST_ROLE:
        raise NotPossible("The user's name is too long for a role of its own: limit one of the user's roles.")
    for former in own_roles(user).exclude(name=name):
        user.groups.remove(former)
    group = Group.objects.filter(name=name).first()
    if group is not None and (group.permissions.exists() or group.user_set.exclude(pk=user.pk).exists()):
        raise NotPossible(f"The role {name} has permissions or other users: it is no role of this user alone.")
    if patterns:
        group = group or Group.objects.create(name=name)
        write_topics(group, patterns)
        user.groups.add(group)
    elif group is not None:
        group.delete()
