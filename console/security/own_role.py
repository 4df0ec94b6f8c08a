"""The role of one user's own: it has no permissions, only the topics that this user is limited to.

Topics belong to roles (models.py); a user who is limited directly gets a role that nobody else has. Its name is the
user's behind a mark, and lists of roles leave it out. A role that allows something is none of these, whatever its name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib.auth.models import Group
from django.db.models import QuerySet

#: who has it administers users, tokens and Django's own pages, too
ADMINISTRATOR = "administrator"
_MARK = "@"
#: of a role's name (Django's own)
LONGEST_ROLE = 150


def own_name(user: Any) -> str:
    """Return the name of a user's own role."""
    return f"{_MARK}{user.get_username()}"


def is_own(name: str) -> bool:
    """Tell whether the name is kept for a role of one user's own."""
    return name.startswith(_MARK)


def all_own_roles() -> QuerySet[Group]:
    """Return the roles of single users."""
    return Group.objects.filter(name__startswith=_MARK, permissions=None)


def own_roles(user: Any) -> QuerySet[Group]:
    """Return the user's own role: one, or none; what is left of a former name of the user as well."""
    return all_own_roles().filter(user=user)


def shared_roles() -> QuerySet[Group]:
    """Return the roles that any user can have, by name."""
    return Group.objects.exclude(pk__in=all_own_roles()).order_by("name")


def take_roles(user: Any, groups: Iterable[Group]) -> None:
    """Give a user exactly these roles beside an own one, and with the administrator's what is for administrators."""
    groups = list(groups)
    was, is_now = (ADMINISTRATOR in {group.name for group in each} for each in (user.groups.all(), groups))
    user.groups.set([*groups, *own_roles(user)])
    if is_now or (was and not user.is_superuser):
        user.is_staff = is_now
        user.save(update_fields=["is_staff"])
