"""The mirror as a Django app: it owns the tables that repeat what brokers have."""

from __future__ import annotations

import os

from django.apps import AppConfig
from django.conf import settings

from ..client.credentials import Access
from .entries import remember_access


class MirrorConfig(AppConfig):
    """Mirror models, their admin, and the commands of the broker. Its label is from before it had a folder."""

    name = "broker.mirror"
    label = "broker"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Have clients of further clusters sign and encrypt as the settings say."""
        remember_access(
            getattr(settings, "ESCAPEMENT_CLUSTERS", {}), getattr(settings, "ESCAPEMENT_CLIENT", Access()), os.environ
        )
