"""The broker as a Django app: it owns the mirror tables."""

from __future__ import annotations

from django.apps import AppConfig


class BrokerConfig(AppConfig):
    """Mirror models, their admin, and the Celery tasks of the broker."""

    name = "broker"
    label = "broker"
    default_auto_field = "django.db.models.BigAutoField"
