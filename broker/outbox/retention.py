"""How long rows stay, and their cleaning."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from .models import OutboxHalf

#: A row whose commit the broker has confirmed is kept this long, for checks that were under way.
KEEP_CONFIRMED_S = 24 * 3600
#: A row whose commit was never confirmed; a half that is older is decided by a person, never by a missing row.
KEEP_OWED_S = 30 * 24 * 3600


def clean(using: str) -> int:
    """Delete rows that are older than they are kept; returns how many."""
    now = timezone.now()
    rows = OutboxHalf.objects.using(using)
    settled = rows.exclude(state=OutboxHalf.State.OWED).filter(written_at__lt=now - timedelta(seconds=KEEP_CONFIRMED_S))
    owed = rows.filter(written_at__lt=now - timedelta(seconds=KEEP_OWED_S))
    return settled.delete()[0] + owed.delete()[0]
