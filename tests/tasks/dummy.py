"""A backend that is not ours."""

from __future__ import annotations

try:
    from django.tasks.backends.dummy import DummyBackend as DummyBackend
except ModuleNotFoundError:
    from django_tasks.backends.dummy import DummyBackend as DummyBackend
