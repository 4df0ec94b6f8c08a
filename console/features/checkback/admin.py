"""Check-back addresses in the stock Django admin: the same checks and the same audit as by REST."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from console.features.checkback import registry
from console.features.checkback.models import CheckAddress
from console.operations.actor import Actor
from console.operations.errors import InvalidParameter

_FIELDS = {"producer_group": "group", "url": "url"}


class CheckAddressForm(forms.ModelForm):
    """The form of an address: its fields, the reason, and whether a new secret is wanted."""

    reason = forms.CharField(
        label=gettext_lazy("Reason"),
        max_length=registry.REASON_LENGTH,
        help_text=gettext_lazy("Kept in the audit log."),
    )
    is_new_secret_wanted = forms.BooleanField(
        label=gettext_lazy("New secret"), required=False, help_text=gettext_lazy("The old one is no longer valid.")
    )

    class Meta:
        model = CheckAddress
        fields = ("group", "url", "is_enabled")

    def clean(self) -> dict[str, Any]:
        """Check group and address as REST does."""
        given: dict[str, Any] = super().clean() or {}
        group = given.get("group") or self.instance.group
        if group and given.get("url"):
            try:
                registry.check(group, given["url"], is_new=self.instance.pk is None)
            except InvalidParameter as error:
                named = _FIELDS.get(error.field or "", "url")
                raise ValidationError({named if named in self.fields else "url": str(error)}) from None
        return given


@admin.register(CheckAddress)
class CheckAddressAdmin(admin.ModelAdmin):
    """The addresses in the admin. A secret is shown in the message after it was made, and never again."""

    form = CheckAddressForm
    list_display = ("group", "url", "is_enabled", "outcome", "failures", "asked_at", "resting_until", "actor")
    list_filter = ("is_enabled",)
    search_fields = ("group", "url")
    fields = (
        "group",
        "url",
        "is_enabled",
        "reason",
        "is_new_secret_wanted",
        "outcome",
        "failures",
        "asked_at",
        "resting_until",
        "actor",
        "created_at",
        "changed_at",
    )

    def get_readonly_fields(self, request: HttpRequest, obj: CheckAddress | None = None) -> tuple[str, ...]:
        """Return the fields that the worker writes; of an existing address also the group, the source of its secret."""
        found = ("outcome", "failures", "asked_at", "resting_until", "actor", "created_at", "changed_at")
        return found if obj is None else ("group", *found)

    def save_model(self, request: HttpRequest, obj: CheckAddress, form: Any, change: bool) -> None:
        """Register or change the address, with an entry in the audit."""
        given, actor = form.cleaned_data, Actor.of(request.user)
        secret: str | None
        if change:
            row, secret = registry.change(
                obj.group,
                actor,
                reason=given["reason"],
                url=given["url"],
                is_enabled=given["is_enabled"],
                is_new_secret_wanted=given["is_new_secret_wanted"],
            )
        else:
            row, secret = registry.register(
                given["group"], given["url"], actor, reason=given["reason"], is_enabled=given["is_enabled"]
            )
        obj.pk = row.pk
        if secret is not None:
            text = _("The secret of %(group)s, shown this once: %(secret)s") % {"group": row.group, "secret": secret}
            self.message_user(request, text, messages.WARNING)

    def delete_model(self, request: HttpRequest, obj: CheckAddress) -> None:
        """Remove the address, with an entry in the audit."""
        self._remove(request, [obj])

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[CheckAddress]) -> None:
        """Remove the chosen addresses, with an entry in the audit for each."""
        self._remove(request, queryset)

    def _remove(self, request: HttpRequest, rows: Iterable[CheckAddress]) -> None:
        for row in list(rows):
            registry.remove(row.group, Actor.of(request.user), reason="removed in Django's admin")
