"""The inbox: what handlers with `once=True` have handled, written in the same transaction as what they did."""

from __future__ import annotations

from django.db import models


class InboxMessage(models.Model):
    """A message that a group has handled: `message_key` is its message id. While the row is there, it is not handled
    again."""

    group = models.CharField(max_length=120, db_column="consumer_group")
    message_key = models.CharField(max_length=64)
    handled_at = models.DateTimeField(auto_now_add=True, db_index=True)

    class Meta:
        db_table = "escapement_inbox"
        verbose_name = "inbox message"
        constraints = (models.UniqueConstraint(fields=["group", "message_key"], name="escapement_inbox_once"),)

    def __str__(self) -> str:
        return f"{self.message_key} by {self.group}"
