"""Permissions of a database that is there are called what administrators of a new one read."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import Permission
from django.db import connection


@pytest.mark.django_db
def test_permissions_that_are_there_get_their_new_names() -> None:
    words: Any = import_module("console.migrations.0032_words")
    there = Permission.objects.filter(content_type__app_label="console", codename__in=words.PERMISSIONS)
    assert there.update(name="as an older release called it") == len(words.PERMISSIONS)
    words.rename(apps, SimpleNamespace(connection=connection))
    declared = {name: text for model in apps.get_models() for name, text in model._meta.permissions}
    assert {each.codename: each.name for each in there} == {name: declared[name] for name in words.PERMISSIONS}
