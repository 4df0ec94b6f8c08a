"""The console as a Django app."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from django.apps import AppConfig, apps
from django.conf import settings
from django.db.models.signals import post_migrate, pre_delete


class ConsoleConfig(AppConfig):
    """Pages, live sockets, REST and management commands."""

    name = "console"
    label = "console"

    def ready(self) -> None:
        """Make the project's Celery app the current one, so that every process sends tasks to the right broker.

        The kinds of operations are loaded, too: they register themselves.
        """
        import_module("console.site.celery")
        import_module("console.operations.registry").discover()
        import_module("console.site.database_check")
        # behind auth: by then the permissions that the groups get are there
        post_migrate.connect(_make_roles, sender=apps.get_app_config("sessions"), dispatch_uid="console.roles")
        pre_delete.connect(_end_tokens, sender=settings.AUTH_USER_MODEL, dispatch_uid="console.tokens")


def _make_roles(using: str, **kwargs: Any) -> None:
    import_module("console.security.roles").ensure_roles(using)


def _end_tokens(instance: Any, **kwargs: Any) -> None:
    import_module("console.security.tokens").revoke_all_of(instance)
