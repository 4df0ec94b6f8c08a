"""The messages that wait for `manage.py outbox`, in the Django admin: to see, send again or delete; never to change.

Bodies and properties are not shown: they are the users' own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from .after_commit import send_again
from .models import OutboxMessage

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[OutboxMessage]
else:  # generic for the type checker only
    ModelAdmin = admin.ModelAdmin


@admin.register(OutboxMessage)
class OutboxMessageAdmin(ModelAdmin):
    """Rows of send_later that were not sent yet. To delete one is to throw its message away."""

    list_display = (
        "message_id", "topic", "is_stuck", "refusals", "next_attempt_at", "written_at", "keeps_order", "last_error",
    )  # fmt: skip
    list_filter = (("stuck_at", admin.EmptyFieldListFilter), "topic")
    search_fields = ("message_id", "topic", "last_error")
    ordering = ("pk",)
    actions = ("send_again",)
    fields = (
        "message_id", "topic", "producer_group", "queue_id", "broker", "keeps_order", "written_at", "refusals",
        "last_error", "next_attempt_at", "stuck_at",
    )  # fmt: skip
    show_full_result_count = False

    def get_readonly_fields(self, request: HttpRequest, obj: OutboxMessage | None = None) -> Any:
        """Return all fields: only the worker changes a row."""
        return self.fields

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Refuse: rows are written by send_later alone."""
        return False

    @admin.display(description=_("stuck"), boolean=True)
    def is_stuck(self, row: OutboxMessage) -> bool:
        """Tell whether the row waits for a person to look at it."""
        return row.stuck_at is not None

    @admin.display(description=_("keeps order"), boolean=True)
    def keeps_order(self, row: OutboxMessage) -> bool:
        """Tell whether others wait behind it: those of its sharding key or queue."""
        return row.lane is not None

    @admin.action(description=_("Resend"), permissions=["change"])
    def send_again(self, request: HttpRequest, queryset: QuerySet[OutboxMessage]) -> None:
        """Have the worker try these rows immediately."""
        count = send_again(queryset)
        text = ngettext("%(count)s message will be resent.", "%(count)s messages will be resent.", count)
        self.message_user(request, text % {"count": count})
