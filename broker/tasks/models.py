"""Tasks in the project's own database: what is to be run, how far it is, and what came of it."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _


class Status(models.TextChoices):
    """The four states that Django's tasks know."""

    READY = "READY", _("ready")
    RUNNING = "RUNNING", _("running")
    FAILED = "FAILED", _("failed")
    SUCCESSFUL = "SUCCESSFUL", _("successful")


class TaskRow(models.Model):
    """One enqueued task.

    `turn` counts the messages that were sent for it: only the one with the row's own number may run it, so copies of a
    message and those that were replaced do nothing. `message_id` is its message id.
    `due_at`: when it may run next, the end of a pause between attempts included; `run_after` is what the caller said.
    `holder`: the attempt that runs it, believed until `held_until`, which its worker moves on as long as it lives.
    `errors`: of each attempt that failed. `worker_ids`: one for each attempt.
    """

    id = models.CharField(max_length=64, primary_key=True)
    task_path = models.TextField(_("task"))
    backend = models.CharField(max_length=255)
    queue_name = models.CharField(_("queue"), max_length=127)
    priority = models.SmallIntegerField(_("priority"), default=0)
    run_after = models.DateTimeField(null=True, blank=True)
    args = models.JSONField(default=list, blank=True)
    kwargs = models.JSONField(default=dict, blank=True)
    status = models.CharField(_("status"), max_length=10, choices=Status.choices, default=Status.READY)
    is_cancelled = models.BooleanField(_("cancelled"), default=False)
    enqueued_at = models.DateTimeField(_("enqueued"))
    due_at = models.DateTimeField(_("due"))
    started_at = models.DateTimeField(null=True, blank=True)
    last_attempted_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(_("finished"), null=True, blank=True)
    return_value = models.JSONField(null=True, blank=True)
    errors = models.JSONField(default=list, blank=True)
    worker_ids = models.JSONField(default=list, blank=True)
    turn = models.PositiveIntegerField(default=0)
    message_id = models.CharField(max_length=64, default="", blank=True)
    holder = models.CharField(max_length=64, default="", blank=True)
    held_until = models.DateTimeField(null=True, blank=True)

    objects: ClassVar[models.Manager[TaskRow]] = models.Manager()

    class Meta:
        db_table = "escapement_task"
        verbose_name = _("task")
        verbose_name_plural = _("tasks")
        indexes = (
            models.Index(fields=["status", "due_at"], name="escapement_task_due"),
            models.Index(fields=["finished_at"], name="escapement_task_finished"),
        )

    def __str__(self) -> str:
        return f"{self.task_path} {self.id}, {self.status}"
