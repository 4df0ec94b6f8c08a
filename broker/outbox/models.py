"""Two tables in the user's own database: halves that a transaction decides, and messages that a worker sends.

A row of either is written inside the user's transaction, so it is there exactly if that committed.
"""

from __future__ import annotations

from django.db import models


class OutboxHalf(models.Model):
    """A half whose transaction has committed: the row is the decision. No row: roll back.

    | state     | meaning                                                          | answer to a check |
    |-----------|------------------------------------------------------------------|-------------------|
    | owed      | committed here, the broker has not confirmed it                  | commit            |
    | confirmed | the broker confirmed the commit, soon after the half             | commit            |
    | done      | the broker confirmed it later, or as the answer to a check       | roll back         |

    `done` exists because Apache RocketMQ copies a half for each check, and commits of two copies are two messages.
    """

    class State(models.TextChoices):
        """The knowledge of the commit of a half."""

        OWED = "owed"
        CONFIRMED = "confirmed"
        DONE = "done"

    transaction_id = models.CharField(max_length=64, primary_key=True)
    producer_group = models.CharField(max_length=120)
    topic = models.CharField(max_length=127)
    state = models.CharField(max_length=9, choices=State.choices, default=State.OWED)
    written_at = models.DateTimeField(auto_now_add=True, db_index=True)

    class Meta:
        db_table = "escapement_outbox"
        verbose_name_plural = "outbox halves"

    def __str__(self) -> str:
        return f"{self.transaction_id} on {self.topic}, {self.state}"


class OutboxMessage(models.Model):
    """A message that waits for `manage.py outbox`. `properties` is RocketMQ's stored form (name \\x01 value \\x02).

    `refusals`: how often a broker said no. One that is not there counts nothing: the row waits as long as it takes.
    `next_attempt_at`: not before; None for immediately. `stuck_at`: refused so often that somebody decides; no worker
    tries it until it is resent by hand (`manage.py outbox --send-again`, or the admin page).
    `broker`: the one that it goes to, "" for whichever takes it.
    `lane`: rows of one lane go one after the other (the same sharding key, or the same queue of a topic); None: none.
    Columns that are newer than the table may be left out by those who write rows: an older release does.
    """

    topic = models.CharField(max_length=127)
    body = models.BinaryField()
    properties = models.BinaryField()
    message_id = models.CharField(max_length=64, db_column="unique_id")
    producer_group = models.CharField(max_length=120, default="", db_default="", blank=True)
    queue_id = models.PositiveIntegerField(null=True, blank=True)
    broker = models.CharField(max_length=255, default="", db_default="", blank=True)
    lane = models.CharField(max_length=40, null=True, blank=True)
    written_at = models.DateTimeField(auto_now_add=True)
    refusals = models.PositiveIntegerField(default=0, db_column="attempts")
    last_error = models.TextField(blank=True)
    next_attempt_at = models.DateTimeField(null=True, blank=True)
    stuck_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "escapement_outbox_message"
        verbose_name = "outbox message"
        indexes = (models.Index(fields=["lane", "id"], name="escapement_outbox_lane"),)

    def __str__(self) -> str:
        return f"{self.message_id} on {self.topic}"
