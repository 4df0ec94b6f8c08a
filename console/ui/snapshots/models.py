"""Rows of snapshots: one a moment, each part packed by itself (shapes.py), so that a page reads only its own part."""

from __future__ import annotations

from django.db import models


class Snapshot(models.Model):
    """What was known of one broker at one moment. A part that could not be read is null, and `why` says the reason."""

    broker = models.CharField(max_length=255)
    #: the beginning of the interval that it stands for: one snapshot each, whoever takes it
    slot_ms = models.BigIntegerField()
    #: epoch ms at which it was taken
    at_ms = models.BigIntegerField()
    #: part -> code of console.site.evidence.StaleReason
    why = models.JSONField(default=dict)
    #: console.features.schedule.shapes.Lanes
    lanes = models.BinaryField(null=True)
    #: console.ui.snapshots.shapes.TimersKept
    timers = models.BinaryField(null=True)
    #: console.features.transactions.shapes.TransactionFigures
    transactions = models.BinaryField(null=True)
    #: console.ui.snapshots.shapes.GroupsKept
    groups = models.BinaryField(null=True)
    #: messages that waited on all lanes, pending timers, the lag of all groups; null: not known
    lanes_pending = models.BigIntegerField(null=True)
    timers_pending = models.BigIntegerField(null=True)
    lag = models.BigIntegerField(null=True)

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["broker", "slot_ms"], name="one_snapshot_a_slot")]
        indexes = [models.Index(fields=["broker", "at_ms"], name="snapshot_nearest")]

    def __str__(self) -> str:
        return f"{self.broker} at {self.at_ms}"
