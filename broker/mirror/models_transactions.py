"""Mirror rows of transactions: half messages and the op records that decide them.

They are few: the oldest that are open or parked, and those decided within the last hour (broker/mirror/halves.py).
"""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.utils.translation import gettext_lazy as _

from .models_base import MirrorRow


class OpMessage(MirrorRow):
    """One record of RMQ_SYS_TRANS_OP_HALF_TOPIC: it decides some halves."""

    broker = models.ForeignKey("broker.Broker", models.CASCADE, related_name="ops")
    #: index in queue 0
    offset = models.BigIntegerField(_("offset"))
    position = models.BigIntegerField(_("position"))
    store_ms = models.BigIntegerField(_("stored"))
    half_offsets = ArrayField(models.BigIntegerField(), verbose_name=_("decides"))
    commits = models.IntegerField(_("commits"))
    rollbacks = models.IntegerField(_("rollbacks"))

    class Meta(MirrorRow.Meta):
        verbose_name = _("op message")
        verbose_name_plural = _("op messages")
        constraints = [models.UniqueConstraint(fields=["broker", "offset"], name="op_once")]

    def __str__(self) -> str:
        return f"op {self.offset}"


class HalfMessage(MirrorRow):
    """One record of RMQ_SYS_TRANS_HALF_TOPIC: a message that its producer group decides."""

    class State(models.TextChoices):
        """What became of it; the values are the broker's."""

        OPEN = "open", _("undecided")
        DUE = "due", _("to be asked about")
        ENDING = "ending", _("being decided")
        PARKED = "parked", _("parked")
        COMMITTED = "committed", _("committed")
        ROLLED_BACK = "rolled back", _("rolled back")
        DECIDED = "decided", _("decided")

    broker = models.ForeignKey("broker.Broker", models.CASCADE, related_name="halves")
    #: index in queue 0
    offset = models.BigIntegerField(_("offset"))
    #: NULL where the record is gone and only its decision is known
    position = models.BigIntegerField(_("position"), null=True)
    state = models.CharField(_("state"), max_length=16, choices=State.choices)
    group = models.CharField(_("producer group"), max_length=255, blank=True)
    topic = models.CharField(_("real topic"), max_length=255, blank=True)
    queue_id = models.IntegerField(null=True)
    transaction_id = models.CharField(_("transaction id"), max_length=255, blank=True)
    keys = ArrayField(models.TextField(), default=list, verbose_name=_("keys"))
    tag = models.TextField(_("tag"), blank=True)
    store_ms = models.BigIntegerField(_("stored"), null=True)
    #: how often a producer was asked
    checks = models.IntegerField(_("checks"), null=True)
    next_check_ms = models.BigIntegerField(_("next check"), null=True)
    parked_ms = models.BigIntegerField(null=True)
    decided_ms = models.BigIntegerField(_("decided"), null=True)
    decided_by = models.TextField(_("decided by"), blank=True)
    reason = models.TextField(_("reason"), blank=True)
    #: the record that decided it; NULL while undecided, or where it is not mirrored any more
    op = models.ForeignKey(OpMessage, models.SET_NULL, null=True, related_name="halves", verbose_name=_("op message"))
    #: the message as its consumers find it; NULL until it is in its topic
    delivered_queue_id = models.IntegerField(null=True)
    delivered_offset = models.BigIntegerField(_("delivered as"), null=True)
    delivered_position = models.BigIntegerField(null=True)

    class Meta(MirrorRow.Meta):
        verbose_name = _("half message")
        verbose_name_plural = _("half messages")
        constraints = [models.UniqueConstraint(fields=["broker", "offset"], name="half_once")]
        indexes = [models.Index(fields=["broker", "state"], name="half_by_state")]

    def __str__(self) -> str:
        return self.keys[0] if self.keys else self.transaction_id or f"half {self.offset}"

    @property
    def is_undecided(self) -> bool:
        """Somebody may still decide."""
        return self.state in (self.State.OPEN, self.State.DUE, self.State.PARKED)
