"""Rules in the stock Django admin: they are made and changed here; what they raised is only looked at."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from broker.mirror.admin import ReadOnlyAdmin
from console.features.alerts.channels import secret_of_rule
from console.features.alerts.models import Alert, AlertRule, Silence


@admin.register(AlertRule)
class AlertRuleAdmin(admin.ModelAdmin):
    """What is watched, and who is told."""

    list_display = ("what", "subject", "limit", "for_s", "webhook", "is_on")
    list_filter = ("what", "is_on")
    search_fields = ("subject", "emails", "webhook")
    readonly_fields = ("secret",)

    @admin.display(description=_("Secret of the webhook"))
    def secret(self, rule: AlertRule) -> str:
        """With which the webhook checks that it was us."""
        return secret_of_rule(rule) if rule.pk else "-"

    def has_view_permission(self, request: HttpRequest, obj: AlertRule | None = None) -> bool:
        """Who may change a rule: the secret is shown."""
        return bool(request.user.has_perm("console.change_alertrule"))


@admin.register(Alert)
class AlertAdmin(ReadOnlyAdmin):
    """Raised, and over."""

    list_display = ("subject", "rule", "state", "value", "highest", "since", "ended_at", "was_silenced", "told")
    list_filter = ("state", "was_silenced", "rule__what")
    search_fields = ("subject", "told_before", "deliveries__error")
    date_hierarchy = "since"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Alert]:
        """All alerts, with what became of telling."""
        return super().get_queryset(request).prefetch_related("deliveries")


@admin.register(Silence)
class SilenceAdmin(admin.ModelAdmin):
    """Who asked for quiet, and until when."""

    list_display = ("subject", "rule", "until", "reason", "actor")
    search_fields = ("subject", "reason", "actor")
    exclude = ("actor",)

    def save_model(self, request: HttpRequest, obj: Silence, form: object, change: bool) -> None:
        """In the name of who asks."""
        obj.actor = request.user.get_username()
        super().save_model(request, obj, form, change)
