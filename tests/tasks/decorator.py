"""`task` of Django 6 where it is, else that of django-tasks, as users import it."""

from __future__ import annotations

try:
    from django.tasks import task as task
except ModuleNotFoundError:
    from django_tasks import task as task
