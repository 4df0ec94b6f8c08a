"""The app that other Django projects add: `escapement.handlers` (here `broker.handlers`)."""

from __future__ import annotations

from django.apps import AppConfig

from ..django import remember_access


class HandlingConfig(AppConfig):
    """The app of the command `consume`; it has no tables."""

    name = __name__.rpartition(".")[0]
    label = "escapement_handlers"
    verbose_name = "Escapement handlers"

    def ready(self) -> None:
        """Have clients of the configured name server sign and encrypt as ESCAPEMENT_CLIENT says."""
        remember_access()
