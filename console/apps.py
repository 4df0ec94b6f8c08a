"""The console as a Django app."""

from __future__ import annotations

from importlib import import_module

from django.apps import AppConfig


class ConsoleConfig(AppConfig):
    """Pages, live sockets, REST and management commands."""

    name = "console"
    label = "console"

    def ready(self) -> None:
        """Make the project's Celery app the current one, so that every process sends tasks to the right broker."""
        import_module("console.celery")
