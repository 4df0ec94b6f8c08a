"""Rules in the stock Django admin: they are made and changed here; what they raised is only looked at."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from broker.mirror.admin import ReadOnlyAdmin
from console.features.alerts import rule_fields
from console.features.alerts.channels import without_path
from console.features.alerts.models import Alert, AlertRule, Silence
from console.features.alerts.sealed_secret import secret_of_rule
from console.features.alerts.webhooks.plain import Plain

#: a webhook of a service is set on the Alerts page: its address and secret are not shown again
_OF_SERVICES = frozenset({"webhook_format", "webhook_secret"})
SETTINGS = tuple(name for name in rule_fields.DEFAULTS if name not in _OF_SERVICES)


class AlertRuleForm(forms.ModelForm):
    """The form of a rule, with the checks of the console's own."""

    class Meta:
        model = AlertRule
        fields = SETTINGS

    def clean(self) -> dict[str, Any]:
        """Read each setting as the console's form does, before anybody relies on it."""
        values, faults = rule_fields.read(self.cleaned_data, self.instance.what)
        for name, fault in faults.items():
            self.add_error(name, fault)
        return {**self.cleaned_data, **values}


@admin.register(AlertRule)
class AlertRuleAdmin(admin.ModelAdmin):
    """The rules: what is watched, and who is told."""

    form = AlertRuleForm
    list_display = ("what", "subject", "limit", "for_s", "origin", "is_on")
    list_filter = ("what", "is_on")
    search_fields = ("subject", "emails")
    readonly_fields = ("secret",)

    @admin.display(description=_("Webhook secret"))
    def secret(self, rule: AlertRule) -> str:
        """Return the secret by which the webhook's receiver knows that a request is ours."""
        return secret_of_rule(rule) if rule.pk else "-"

    @admin.display(description=_("Webhook"))
    def origin(self, rule: AlertRule) -> str:
        """Return the origin of the webhook alone."""
        return without_path(rule.webhook) or "-"

    def get_fields(self, request: HttpRequest, obj: AlertRule | None = None) -> Any:
        """Return the settings, without the webhook where it is that of a service."""
        is_of_service = obj is not None and obj.webhook_format != Plain.name
        return [name for name in (*SETTINGS, "secret") if not (is_of_service and name in ("webhook", "secret"))]

    def has_view_permission(self, request: HttpRequest, obj: AlertRule | None = None) -> bool:
        """Tell whether the user may change rules: the page shows the secret, so viewing alone does not suffice."""
        return bool(request.user.has_perm("console.change_alertrule"))


@admin.register(Alert)
class AlertAdmin(ReadOnlyAdmin):
    """Alerts that are raised, and that are over."""

    list_display = ("subject", "rule", "state", "value", "highest", "since", "ended_at", "was_silenced", "told")
    list_filter = ("state", "was_silenced", "rule__what")
    search_fields = ("subject", "told_before", "deliveries__error")
    date_hierarchy = "since"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Alert]:
        """Return the alerts with their deliveries, which the list shows."""
        return super().get_queryset(request).prefetch_related("deliveries")


@admin.register(Silence)
class SilenceAdmin(admin.ModelAdmin):
    """Silences: who asked for them, and until when."""

    list_display = ("subject", "rule", "until", "reason", "actor")
    search_fields = ("subject", "reason", "actor")
    exclude = ("actor",)

    def save_model(self, request: HttpRequest, obj: Silence, form: object, change: bool) -> None:
        """Save the silence in the name of whoever asks."""
        obj.actor = request.user.get_username()
        super().save_model(request, obj, form, change)
