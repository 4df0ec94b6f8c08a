"""The console's rows in the stock Django admin."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from console import credentials
from console.models import ApiToken, AuditEntry


@admin.register(ApiToken)
class ApiTokenAdmin(admin.ModelAdmin):
    """Tokens are looked at and revoked here; `manage.py token create` makes them, because they are shown once."""

    list_display = ("name", "prefix", "created_by", "created_at", "expires_at", "revoked_at", "last_used_at")
    list_filter = ("revoked_at",)
    search_fields = ("name", "prefix")
    readonly_fields = ("prefix", "scopes", "created_by", "created_at", "revoked_at", "last_used_at")
    fields = ("name", "prefix", "scopes", "created_by", "created_at", "expires_at", "revoked_at", "last_used_at")
    actions = ("revoke_tokens",)

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Nobody makes a token here."""
        return False

    @admin.action(description=_("Revoke the chosen tokens"), permissions=["change"])
    def revoke_tokens(self, request: HttpRequest, queryset: QuerySet[ApiToken]) -> None:
        """Refuse these tokens from now on."""
        for row in queryset:
            credentials.revoke(row)


@admin.register(AuditEntry)
class AuditEntryAdmin(admin.ModelAdmin):
    """Looked at, searched, never changed."""

    list_display = ("at", "actor", "what", "kind", "reason", "operation")
    list_filter = ("what", "kind")
    search_fields = ("actor", "reason", "operation")
    date_hierarchy = "at"

    def has_add_permission(self, request: HttpRequest) -> bool:
        """The operations write them."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: AuditEntry | None = None) -> bool:
        """Never."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: AuditEntry | None = None) -> bool:
        """Never."""
        return False
