"""Rows of what became of dead letters in the console: handled, or hidden from its lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django.db import models
from django.utils.translation import gettext_lazy as _


class LetterMark(models.Model):
    """A mark on one dead letter. The record itself lies in the broker's log, which nobody can take a record out of."""

    class State(models.TextChoices):
        """The states that differ from that of a letter without a row."""

        HANDLED = "handled", _("handled")
        HIDDEN = "hidden", _("hidden")

    broker = models.CharField(max_length=255)
    group = models.CharField(max_length=255)
    queue_id = models.IntegerField()
    offset = models.BigIntegerField()
    #: byte address of the record: another record at the same offset, of a topic that was created anew, is not meant
    position = models.BigIntegerField()
    state = models.CharField(max_length=8, choices=State.choices)
    actor = models.CharField(max_length=150)
    reason = models.TextField(blank=True)
    at = models.DateTimeField(auto_now=True)

    class Meta:
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(fields=("broker", "group", "queue_id", "offset"), name="one_mark_of_a_letter")
        ]

    def __str__(self) -> str:
        return f"{self.state} {self.group} {self.queue_id}-{self.offset}"


#: by broker, queue and offset: position and state
Marks = Mapping[tuple[str, int, int], tuple[int, str]]


def marks_of(group: str, brokers: Sequence[str]) -> Marks:
    """Return the marks on letters of a group at these brokers."""
    rows = LetterMark.objects.filter(group=group, broker__in=brokers)
    found = rows.values_list("broker", "queue_id", "offset", "position", "state")
    return {(broker, queue, offset): (position, state) for broker, queue, offset, position, state in found}


def dealt_with(brokers: Sequence[str]) -> Mapping[str, int]:
    """Return how many letters of each group are handled or hidden; those whose record is gone are not among them."""
    rows = LetterMark.objects.filter(broker__in=brokers).values("group").annotate(count=models.Count("pk"))
    return dict(rows.values_list("group", "count"))
