"""The app that other Django projects add: `escapement.handlers` (here `broker.handlers`)."""

from __future__ import annotations

from django.apps import AppConfig
from django.core.checks import Tags, register

from ..django import remember_access


class HandlingConfig(AppConfig):
    """The app of the command `consume`; its one table is the inbox of handlers that do each message once."""

    name = __name__.rpartition(".")[0]
    label = "escapement_handlers"
    verbose_name = "Escapement handlers"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Have clients of the configured name server sign and encrypt as ESCAPEMENT_CLIENT says; add the checks."""
        from .checks import check_handlers, check_migrations, check_name_server

        remember_access()
        register(check_handlers)
        register(check_name_server, deploy=True)
        register(check_migrations, Tags.database)
