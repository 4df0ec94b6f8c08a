"""The app that other Django projects add: `escapement.handlers` (here `broker.handlers`)."""

from __future__ import annotations

from django.apps import AppConfig


class HandlingConfig(AppConfig):
    """The app of the command `consume`; it has no tables."""

    name = __name__.rpartition(".")[0]
    label = "escapement_handlers"
    verbose_name = "Escapement handlers"
