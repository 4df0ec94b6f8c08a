"""Rows of operations: the operation, what it touches one by one, and the audit, which only ever grows."""

from __future__ import annotations

import uuid
from typing import Any, NoReturn

from django.conf import settings
from django.db import models
from django.db.models.fields.json import KeyTextTransform
from django.utils.translation import gettext_lazy as _


class Operation(models.Model):
    """An operation of somebody's. Its id is created before its form is sent, so a second click is the same one."""

    class State(models.TextChoices):
        """The stages of an operation, from draft to its end."""

        DRAFT = "draft", _("previewed")
        QUEUED = "queued", _("queued")
        RUNNING = "running", _("running")
        DONE = "done", _("done")
        ABORTED = "aborted", _("stopped")
        FAILED = "failed", _("failed")
        WAITING = "waiting", _("waiting for approval")
        DECLINED = "declined", _("declined")
        EXPIRED = "expired", _("not approved in time")

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    kind = models.CharField(_("kind"), max_length=64)
    state = models.CharField(_("state"), max_length=16, choices=State.choices, default=State.DRAFT)
    #: the brokers that it is about (`console.site.chosen.Choice.text`); "": all of the first cluster
    broker = models.CharField(_("broker"), max_length=255, blank=True, default="")
    #: what it is to do, as its kind understands it
    parameters = models.JSONField(_("parameters"), default=dict)
    #: what was shown before it was confirmed: the preview of its kind, as a row
    preview = models.JSONField(_("preview"), default=dict)
    previewed_at = models.DateTimeField(_("previewed"), null=True)
    reason = models.TextField(_("reason"), blank=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")
    #: kept when the user is deleted
    actor = models.CharField(_("created by"), max_length=150)
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)
    started_at = models.DateTimeField(_("started"), null=True)
    finished_at = models.DateTimeField(_("finished"), null=True)
    #: when its runner was last alive
    beat_at = models.DateTimeField(null=True)
    #: items counted when it ran; None before
    total = models.IntegerField(null=True)
    done = models.IntegerField(default=0)
    #: outcome -> how many
    results = models.JSONField(default=dict)
    is_abort_wanted = models.BooleanField(default=False)
    #: until when a second person can approve it; None: none is needed
    waits_until = models.DateTimeField(null=True)
    #: who approved or declined it, and why; the name is kept when the user is deleted
    second_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")
    second_actor = models.CharField(max_length=150, blank=True, default="")
    second_reason = models.TextField(blank=True, default="")
    error = models.TextField(blank=True)

    class Meta:
        verbose_name = _("operation")
        verbose_name_plural = _("operations")
        ordering = ["-created_at"]
        indexes = [
            models.Index(fields=["-created_at"], name="operation_newest"),
            models.Index(fields=["created_at"], condition=models.Q(state="draft"), name="operation_drafts"),
        ]
        permissions = [
            ("steer_timers", _("Can cancel, reschedule and deliver timers")),
            ("pause_timers", _("Can pause and resume all timers")),
            ("steer_delayed_queues", _("Can act on Redisson's delayed queues")),
            ("resend_dead_letters", _("Can resend dead letters")),
            ("send_messages", _("Can send messages")),
            ("reset_offsets", _("Can reset offsets of consumer groups")),
            ("change_settings", _("Can create, change and delete topics and groups")),
            ("steer_transactions", _("Can decide and check transactions")),
            ("change_access", _("Can create, change and delete broker users, secrets and policies")),
        ]

    def __str__(self) -> str:
        return f"{self.kind} by {self.actor}"

    @property
    def is_over(self) -> bool:
        """Tell whether nothing more happens by itself."""
        return self.state in (
            self.State.DONE,
            self.State.ABORTED,
            self.State.FAILED,
            self.State.DECLINED,
            self.State.EXPIRED,
        )

    @property
    def is_under_way(self) -> bool:
        """Tell whether it is confirmed and not over."""
        return self.state in (self.State.QUEUED, self.State.RUNNING)

    @property
    def is_unapproved(self) -> bool:
        """Tell whether it needs a second person who has not approved it: also if withdrawn, declined or forgotten."""
        no = (self.State.WAITING, self.State.DECLINED, self.State.EXPIRED)
        return self.waits_until is not None and (not self.second_actor or self.state in no)

    @property
    def left(self) -> int:
        """The number of items that were not touched."""
        return max(0, (self.total or 0) - self.done)


class OperationItem(models.Model):
    """A thing that an operation touches. An empty outcome: not touched yet."""

    operation = models.ForeignKey(Operation, models.CASCADE, related_name="items")
    number = models.IntegerField()
    target = models.JSONField()
    #: what people call it: topic, key, due_ms
    label = models.JSONField(default=dict)
    outcome = models.CharField(max_length=32, blank=True)
    result = models.JSONField(default=dict)

    class Meta:
        ordering = ["number"]
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["operation", "number"], name="item_once")]
        indexes = [
            models.Index(fields=["operation", "number"], condition=models.Q(outcome=""), name="item_untouched"),
            # what was done to a thing is looked for by its name
            models.Index(KeyTextTransform("name", "label"), name="item_name"),
        ]

    def __str__(self) -> str:
        return f"{self.operation_id} {self.number}: {self.outcome or 'waiting'}"

    @property
    def topic(self) -> str:
        """The topic, as it was known before or as the broker answered."""
        return str(self.label.get("topic") or self.result.get("topic") or "")

    @property
    def name(self) -> str:
        """The name that people know the item by."""
        return str(self.label.get("name") or self.result.get("schedule_key") or self.result.get("unique_key") or "")

    @property
    def due_ms(self) -> int | None:
        """The moment when it was due before it was touched; of what was made, when it is."""
        return self.label.get("due_ms") or self.result.get("previous_due_ms") or self.result.get("due_ms")


class AuditEntryKeptError(TypeError):
    """Audit entries are written once: they are neither changed nor deleted."""

    def __init__(self) -> None:
        super().__init__(" ".join((self.__doc__ or "").split()))


class KeptQuerySet(models.QuerySet["AuditEntry"]):
    """Entries can be read and added, not changed."""

    def update(self, **kwargs: Any) -> NoReturn:
        """Refuse with AuditEntryKeptError: entries stay as they were written."""
        raise AuditEntryKeptError

    def delete(self) -> NoReturn:
        """Refuse with AuditEntryKeptError: entries stay as they were written."""
        raise AuditEntryKeptError


class AuditEntry(models.Model):
    """The record of who did what, when, why, and what came of it. Never changed by the console."""

    class What(models.TextChoices):
        """The kinds of event that the audit records."""

        CONFIRMED = "confirmed", _("confirmed")
        FINISHED = "finished", _("finished")
        ABORTED = "aborted", _("stop requested")
        CONTINUED = "continued", _("continue requested")
        DENIED = "denied", _("denied")
        APPROVED = "approved", _("approved")
        DECLINED = "declined", _("declined")
        EXPIRED = "expired", _("not approved in time")
        #: at doors that know no preview: signing in, tokens, accounts, remoting
        DONE = "done", _("done")
        FAILED = "failed", _("failed")

    #: place in the chain, the hash of the entry before, and its own: a trigger of the database sets them
    number = models.BigIntegerField(default=0, editable=False)
    previous = models.CharField(max_length=64, default="", editable=False)
    digest = models.CharField(max_length=64, default="", editable=False)
    at = models.DateTimeField(_("time"), auto_now_add=True)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")
    actor = models.CharField(_("actor"), max_length=150)
    what = models.CharField(_("action"), max_length=16, choices=What.choices)
    kind = models.CharField(_("kind"), max_length=64)
    #: kept as text: the entry outlives the operation
    operation = models.UUIDField(null=True, db_index=True)
    reason = models.TextField(_("reason"), blank=True)
    #: parameters and outcome counts
    result = models.JSONField(_("result"), default=dict)

    objects = KeptQuerySet.as_manager()

    class Meta:
        verbose_name = _("audit entry")
        verbose_name_plural = _("audit entries")
        ordering = ["-at", "-id"]
        default_permissions = ("view",)
        constraints = [models.UniqueConstraint(fields=["number"], name="audit_number")]

    def __str__(self) -> str:
        return f"{self.actor} {self.what} {self.kind}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Write the entry, once; raises AuditEntryKeptError."""
        if not self._state.adding:
            raise AuditEntryKeptError
        super().save(*args, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse with AuditEntryKeptError: entries stay as they were written."""
        raise AuditEntryKeptError


class AuditEnd(models.Model):
    """The end of the audit's chain, in one row: a trigger writes it with each entry (migration 0026)."""

    id = models.SmallIntegerField(primary_key=True)
    number = models.BigIntegerField()
    digest = models.CharField(max_length=64)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.number}:{self.digest}"


class ReadAdministration(models.Model):
    """The last administrative request of a broker that the audit has; `log` is the broker's log that counts them."""

    broker = models.CharField(max_length=255, unique=True)
    log = models.CharField(max_length=64)
    number = models.BigIntegerField()

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.broker}: {self.number}"
