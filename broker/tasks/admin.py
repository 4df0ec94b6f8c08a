"""Tasks in the Django admin: to look at, to cancel; never to change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from .models import TaskRow

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[TaskRow]
else:  # generic for the type checker only
    ModelAdmin = admin.ModelAdmin


@admin.register(TaskRow)
class TaskAdmin(ModelAdmin):
    """Tasks that wait, run, or are over. Arguments and results are shown: give this page to those who may see them."""

    list_display = (
        "id", "task_path", "status", "is_cancelled", "queue_name", "priority", "due_at", "attempts", "finished_at",
    )  # fmt: skip
    list_filter = ("status", "is_cancelled", "queue_name", "backend")
    search_fields = ("id", "task_path")
    ordering = ("-enqueued_at",)
    actions = ("cancel",)
    fields = (
        "id", "task_path", "status", "is_cancelled", "queue_name", "priority", "backend", "enqueued_at", "run_after",
        "due_at", "started_at", "last_attempted_at", "finished_at", "args", "kwargs", "return_value", "attempts",
        "worker_ids", "failures",
    )  # fmt: skip
    show_full_result_count = False

    def get_readonly_fields(self, request: HttpRequest, obj: TaskRow | None = None) -> Any:
        """Return all fields: only workers change a row."""
        return self.fields

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Refuse: rows are written by enqueue alone."""
        return False

    @admin.display(description=_("attempts"))
    def attempts(self, row: TaskRow) -> int:
        """Return how often a worker took it."""
        return len(row.worker_ids)

    @admin.display(description=_("failures"))
    def failures(self, row: TaskRow) -> str:
        """Return what its attempts failed by, with tracebacks."""
        return "\n".join(each["traceback"] for each in row.errors) or "-"

    @admin.action(description=_("Cancel tasks that wait"), permissions=["change"])
    def cancel(self, request: HttpRequest, queryset: QuerySet[TaskRow]) -> None:
        """Cancel these tasks, those of them that still wait."""
        from .steering import cancel  # not before it is needed: this page needs no backend

        answers = [cancel(row.pk, backend=row.backend) for row in queryset]
        count = sum(answer.outcome == "cancelled" for answer in answers)
        text = ngettext("%(count)s task was cancelled.", "%(count)s tasks were cancelled.", count)
        self.message_user(request, text % {"count": count})
        if late := len(answers) - count:
            text = ngettext("%(count)s task was no longer waiting.", "%(count)s tasks were no longer waiting.", late)
            self.message_user(request, text % {"count": late}, messages.WARNING)
