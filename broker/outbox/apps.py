"""The app that other Django projects add: `escapement.outbox` (here `broker.outbox`)."""

from __future__ import annotations

from django.apps import AppConfig

from ..django import remember_access


class OutboxConfig(AppConfig):
    """Two small tables, two commands, no mirror."""

    name = __name__.rpartition(".")[0]
    label = "escapement_outbox"
    verbose_name = "Escapement outbox"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Have clients of the configured name server sign and encrypt as ESCAPEMENT_CLIENT says."""
        remember_access()
