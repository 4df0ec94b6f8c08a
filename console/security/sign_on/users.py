"""From what a provider says of somebody to a user of the console, with the groups that are meant for him.

The provider decides at each signing in: groups that he is no longer in there are gone here, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db import transaction

from console.security.roles import ADMINISTRATOR
from console.security.sign_on.models import SUBJECT_LENGTH, Identity

_NAME_LENGTH = 150
_NAMES = ("preferred_username", "email", "name", "sub")


class NotMeant(Exception):
    """The provider knows him, and none of his groups has a place here, or his account here is closed."""


def user_of(claims: Mapping[str, Any]) -> Any:
    """The user, made at the first time; raises NotMeant. One with a password of the same name is somebody else."""
    subject = str(claims["sub"])
    groups = _groups(claims)
    if not groups or len(subject) > SUBJECT_LENGTH:
        raise NotMeant
    with transaction.atomic():
        known = Identity.objects.select_related("user").filter(issuer=settings.OIDC_ISSUER, subject=subject).first()
        user = known.user if known is not None else _new(claims, subject)
        if not user.is_active:
            raise NotMeant
        user.groups.set(groups)
        user.is_staff = any(group.name == ADMINISTRATOR for group in groups)
        user.save(update_fields=["is_staff"])
    return user


def _groups(claims: Mapping[str, Any]) -> list[Group]:
    """Those of ours that his lead to; what is no list of names leads nowhere."""
    said = claims.get(settings.OIDC_GROUPS_CLAIM)
    theirs = said if isinstance(said, list) else [said]
    ours = {settings.OIDC_GROUPS[name] for name in theirs if isinstance(name, str) and name in settings.OIDC_GROUPS}
    return list(Group.objects.filter(name__in=ours))


def _new(claims: Mapping[str, Any], subject: str) -> Any:
    users = get_user_model().objects
    said = (claims.get(name) for name in _NAMES)
    wanted = next(name for name in said if isinstance(name, str) and name.strip() and name.isprintable())
    wanted = " ".join(wanted.split())[: _NAME_LENGTH - 10]
    name, number = wanted, 1
    while users.filter(username__iexact=name).exists():
        number += 1
        name = f"{wanted}-{number}"
    user = users.create_user(name)  # without a password: none is right
    Identity.objects.create(issuer=settings.OIDC_ISSUER, subject=subject, user=user)
    return user
