"""The mirror as a Django app: it owns the tables that repeat what brokers have."""

from __future__ import annotations

from django.apps import AppConfig


class MirrorConfig(AppConfig):
    """Mirror models, their admin, and the commands of the broker. Its label is from before it had a folder."""

    name = "broker.mirror"
    label = "broker"
    default_auto_field = "django.db.models.BigAutoField"
