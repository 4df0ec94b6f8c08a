"""The console's rows in the stock Django admin."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.views.main import ChangeList
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext_lazy as _

from broker.client import ClientError
from broker.mirror.admin import ConsumerGroupAdmin, ReadOnlyAdmin
from broker.mirror.models import ConsumerGroup, HalfMessage
from broker.rocketmq.properties import KEYS, TAGS, UNIQUE_KEY
from console.features.alerts.admin import AlertAdmin, AlertRuleAdmin, SilenceAdmin
from console.features.checkback.admin import CheckAddressAdmin
from console.operations import workflow
from console.operations.actor import RESEND_DEAD_LETTERS, STEER_TRANSACTIONS, Actor
from console.operations.errors import OperationError
from console.operations.models import AuditEntry
from console.operations.reading import masked_result
from console.security import tokens as security_tokens
from console.security.masking import Masks, masks
from console.security.models import ApiToken, MaskRule, TopicPermission

__all__ = [
    "AlertAdmin", "AlertRuleAdmin", "ApiTokenAdmin", "AuditEntryAdmin", "CheckAddressAdmin", "HalfMessageAdmin",
    "MaskRuleAdmin", "SilenceAdmin", "TopicPermissionAdmin",
]  # fmt: skip


#: what stands for the names is as in the help of the command
_CREATE = "manage.py token create NAME --read TOPIC --publish TOPIC --consume NAME --days 90"


@admin.register(ApiToken)
class ApiTokenAdmin(admin.ModelAdmin):
    """Tokens are looked at and revoked here; `manage.py token create` makes them, because they are shown once."""

    list_display = (
        "name", "prefix", "access_user", "created_by", "created_at", "expires_at", "revoked_at", "last_used_at",
        "replaced_by",
    )  # fmt: skip
    list_filter = ("revoked_at",)
    search_fields = ("name", "prefix", "access_user")
    readonly_fields = (
        "prefix", "scopes", "access_user", "created_by", "created_at", "revoked_at", "last_used_at", "replaced_by",
    )  # fmt: skip
    fields = (
        "name", "prefix", "scopes", "access_user", "created_by", "created_at", "expires_at", "revoked_at",
        "last_used_at", "replaced_by", "requests_per_s",
    )  # fmt: skip
    actions = ("revoke_tokens",)

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Refuse: nobody makes a token here."""
        return False

    def add_view(self, request: HttpRequest, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        """Redirect to the list, which says how one is made."""
        return redirect("admin:console_apitoken_changelist")

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """Show the list with a word on how a token is made: who looks for a button finds none."""
        how = _("A token is shown once, where it is created: %(command)s") % {"command": _CREATE}
        return super().changelist_view(request, {"subtitle": how, **(extra_context or {})})

    @admin.action(description=_("Revoke selected tokens"), permissions=["change"])
    def revoke_tokens(self, request: HttpRequest, queryset: QuerySet[ApiToken]) -> None:
        """Refuse these tokens from now on."""
        for row in queryset:
            security_tokens.revoke(row)


@admin.register(AuditEntry)
class AuditEntryAdmin(admin.ModelAdmin):
    """Looked at, searched, never changed."""

    list_display = ("at", "actor", "what", "kind", "reason", "operation")
    list_filter = ("what", "kind")
    search_fields = ("actor", "reason", "operation")
    date_hierarchy = "at"

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> AuditEntry | None:
        """Return the entry, its result masked; None if there is none."""
        row = super().get_object(request, object_id, from_field)
        if row is not None:
            row.result = masked_result(row.kind, row.result)
        return row

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Refuse: the operations write these rows."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: AuditEntry | None = None) -> bool:
        """Refuse: an entry of the audit stays as it was written."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: AuditEntry | None = None) -> bool:
        """Refuse: the audit is shortened by its retention alone."""
        return False


class MaskedList(ChangeList):
    """Rows of messages without what rules of masks hide."""

    def get_results(self, request: HttpRequest) -> None:
        """Read one page and mask its rows."""
        super().get_results(request)
        hide = masks()
        self.result_list = [_masked(row, hide) for row in self.result_list]


def _masked(row: HalfMessage, hide: Masks) -> HalfMessage:
    """Mask the row, which is never saved: these pages change nothing."""
    masked = hide.of(row.topic)
    row.keys = [masked[KEYS]] if row.keys and KEYS in masked else row.keys
    row.tag = masked.get(TAGS, row.tag) if row.tag else row.tag
    row.transaction_id = masked.get(UNIQUE_KEY, row.transaction_id) if row.transaction_id else row.transaction_id
    return row


@admin.register(HalfMessage)
class HalfMessageAdmin(ReadOnlyAdmin):
    """Half messages as the mirror has them. An action leads to its preview; nothing is done before it is confirmed."""

    list_display = (
        "__str__", "state", "topic", "group", "store_ms", "checks", "next_check_ms", "decided_by", "op",
        "delivered_offset",
    )  # fmt: skip
    list_filter = ("state",)
    list_select_related = ("op",)
    search_fields = ("transaction_id", "topic", "group")
    ordering = ("-offset",)
    actions = ("commit", "roll_back", "check_now", "resume")

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> HalfMessage | None:
        """Return the half message, masked; None if there is none."""
        row = super().get_object(request, object_id, from_field)
        return None if row is None else _masked(row, masks())

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        """Return the list as the masks leave it."""
        return MaskedList

    def has_steer_permission(self, request: HttpRequest) -> bool:
        """Tell whether the user may decide transactions."""
        return bool(request.user.has_perm(STEER_TRANSACTIONS))

    @admin.action(description=_("Commit…"), permissions=["steer"])
    def commit(self, request: HttpRequest, queryset: QuerySet[HalfMessage]) -> HttpResponse | None:
        """Preview a commit of the chosen halves."""
        return self._preview(request, "transactions.commit", queryset)

    @admin.action(description=_("Roll back…"), permissions=["steer"])
    def roll_back(self, request: HttpRequest, queryset: QuerySet[HalfMessage]) -> HttpResponse | None:
        """Preview a rollback of the chosen halves."""
        return self._preview(request, "transactions.rollback", queryset)

    @admin.action(description=_("Check now…"), permissions=["steer"])
    def check_now(self, request: HttpRequest, queryset: QuerySet[HalfMessage]) -> HttpResponse | None:
        """Preview having producers asked."""
        return self._preview(request, "transactions.check", queryset)

    @admin.action(description=_("Resume checking…"), permissions=["steer"])
    def resume(self, request: HttpRequest, queryset: QuerySet[HalfMessage]) -> HttpResponse | None:
        """Preview that parked ones are asked about again."""
        return self._preview(request, "transactions.resume", queryset)

    def _preview(self, request: HttpRequest, kind: str, queryset: QuerySet[HalfMessage]) -> HttpResponse | None:
        places = queryset.filter(position__isnull=False).values("offset", "position")
        try:
            row = workflow.draft(kind, {"targets": list(places)}, Actor.of(request.user))
        except (OperationError, ClientError) as error:
            self.message_user(request, str(error), messages.ERROR)
            return None
        return redirect("operation", str(row.pk))


admin.site.unregister(ConsumerGroup)


@admin.register(ConsumerGroup)
class SteeredGroupAdmin(ConsumerGroupAdmin):
    """Consumer groups, with what can be done for one of them."""

    actions = ("send_back", "send_as_new")

    def has_resend_permission(self, request: HttpRequest) -> bool:
        """Tell whether the user may send dead letters again."""
        return bool(request.user.has_perm(RESEND_DEAD_LETTERS))

    @admin.action(description=_("Resend dead letters to their group…"), permissions=["resend"])
    def send_back(self, request: HttpRequest, queryset: QuerySet[ConsumerGroup]) -> HttpResponse | None:
        """Preview one more try."""
        return self._preview(request, "dead_letters.send_back", queryset)

    @admin.action(description=_("Resend dead letters as new messages…"), permissions=["resend"])
    def send_as_new(self, request: HttpRequest, queryset: QuerySet[ConsumerGroup]) -> HttpResponse | None:
        """Preview copies for all groups."""
        return self._preview(request, "dead_letters.send_as_new", queryset)

    def _preview(self, request: HttpRequest, kind: str, queryset: QuerySet[ConsumerGroup]) -> HttpResponse | None:
        chosen = list(queryset[:2])
        if len(chosen) != 1:
            self.message_user(request, _("Choose one group: each is previewed separately."), messages.ERROR)
            return None
        parameters = {"group": chosen[0].name, "filter": {}, "is_all": True}
        try:
            row = workflow.draft(kind, parameters, Actor.of(request.user))
        except (OperationError, ClientError) as error:
            self.message_user(request, str(error), messages.ERROR)
            return None
        return redirect("operation", str(row.pk))


@admin.register(TopicPermission)
class TopicPermissionAdmin(admin.ModelAdmin):
    """The topics that a group of users may see."""

    list_display = ("group", "pattern")
    list_filter = ("group",)
    search_fields = ("pattern",)


@admin.register(MaskRule)
class MaskRuleAdmin(admin.ModelAdmin):
    """The masks: which fields of which topics are masked, and why."""

    list_display = ("prefix", "shown_names", "why", "is_on")
    list_filter = ("is_on",)
    search_fields = ("prefix", "fields", "why")

    @admin.display(description=_("masked fields"))
    def shown_names(self, rule: MaskRule) -> str:
        """Return the masked fields in one line."""
        return ", ".join(rule.names)
