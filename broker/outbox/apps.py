"""The app that other Django projects add: `escapement.outbox` (here `broker.outbox`)."""

from __future__ import annotations

from django.apps import AppConfig
from django.conf import settings

from ..client.credentials import Access, remember
from .configuration import namesrv


class OutboxConfig(AppConfig):
    """Two small tables, two commands, no mirror."""

    name = __name__.rpartition(".")[0]
    label = "escapement_outbox"
    verbose_name = "Escapement outbox"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Have clients of the configured name server sign and encrypt as ESCAPEMENT_CLIENT says."""
        access: Access = getattr(settings, "ESCAPEMENT_CLIENT", Access())
        remember(namesrv(), access)
