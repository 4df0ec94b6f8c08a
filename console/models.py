"""Rows that the console itself owns (the broker's tables are in broker.mirror.models)."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from console.features.alerts.models import Alert, AlertRule, Delivery, Silence
from console.features.checkback.models import CheckAddress
from console.features.dashboards.models import DashboardPoint, DashboardRun
from console.operations.models import AuditEntry, Operation, OperationItem
from console.security.models import Identity, MaskRule, TopicPermission
from console.ui.saved_views.models import SavedView
from console.ui.snapshots.models import Snapshot

__all__ = [
    "Alert",
    "AlertRule",
    "ApiToken",
    "AuditEntry",
    "CheckAddress",
    "DashboardPoint",
    "DashboardRun",
    "Delivery",
    "Identity",
    "MaskRule",
    "Operation",
    "OperationItem",
    "SavedView",
    "Silence",
    "Snapshot",
    "TopicPermission",
]  # fmt: skip


class ApiToken(models.Model):
    """A token of the REST interface. Only a hash is kept; the token itself is shown once, when it is made.

    `scopes` is a list of ``{"prefix": topic prefix, "actions": ["publish", "read"]}``; an empty prefix is every topic.
    `access_user` is the user of the brokers' access control that the token is bound to; "" for none.
    """

    name = models.CharField(_("name"), max_length=100)
    prefix = models.CharField(_("prefix"), max_length=16, unique=True, editable=False)
    digest = models.CharField(_("SHA-256"), max_length=64, editable=False)
    scopes = models.JSONField(_("scopes"), default=list)
    access_user = models.CharField(_("user of access control"), max_length=128, blank=True, default="")
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, verbose_name=_("created by"), related_name="+"
    )
    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    expires_at = models.DateTimeField(_("expires"), null=True, blank=True)
    revoked_at = models.DateTimeField(_("revoked"), null=True, blank=True)
    last_used_at = models.DateTimeField(_("last used"), null=True, blank=True, editable=False)

    class Meta:
        verbose_name = _("API token")
        verbose_name_plural = _("API tokens")
        ordering = ["name", "prefix"]

    def __str__(self) -> str:
        return f"{self.name} (esc_{self.prefix}_...)"
