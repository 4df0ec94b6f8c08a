"""People for tests: in one of the roles, or with single permissions."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.test import Client

from console.security.gate import VIEWER


def person(name: str, *permissions: str, role: str = VIEWER) -> Any:
    """A user with a password, in a role ("" for none), with these permissions of the console on top."""
    user = get_user_model().objects.create_user(name, password="a long secret")
    if role:
        user.groups.add(Group.objects.get(name=role))
    user.user_permissions.set(Permission.objects.filter(content_type__app_label="console", codename__in=permissions))
    return user


def browser_of(user: Any) -> Client:
    """A client that is signed in."""
    browser = Client()
    browser.force_login(user)
    return browser
