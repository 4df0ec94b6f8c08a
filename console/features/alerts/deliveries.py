"""Deliveries: what of an alert is told by which channel, when, and what became of it.

A delivery has one id and one text however often it is tried. Mail goes at once, webhooks with the next round, and those
that failed again later. One round takes what is due under a lease, so that two workers never send the same, and a round
that dies is made good after it. Of one alert and channel, what comes later waits for what came before.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Exists, OuterRef

from console.features.alerts.channels import CHANNELS, Channel
from console.features.alerts.evaluate import News
from console.features.alerts.models import Delivery

logger = logging.getLogger(__name__)

#: deliveries of one round
MOST = 128
#: for so long a delivery belongs to the round that took it
LEASE = timedelta(seconds=60)
#: characters of an error that are kept
ERROR_LENGTH = 2_000


def tell(news: News, at: datetime) -> None:
    """Have everybody told whom the rule names. Raises nothing where a delivery fails."""
    for channel in CHANNELS.values():
        if not channel.is_wanted(news.alert.rule):
            continue
        row = _queued(channel, news, at)
        if channel.is_immediate:
            _send(channel, [row], at)


def send_due(at: datetime) -> int:
    """Try all deliveries that are due, and return how many were tried. Raises nothing where one fails."""
    rows = _taken(at)
    for name, channel in CHANNELS.items():
        _send(channel, [row for row in rows if row.channel == name], at)
    return len(rows)


def _queued(channel: Channel, news: News, at: datetime) -> Delivery:
    """Return a new delivery; of a channel that is used at once it is taken already."""
    row = Delivery(
        alert=news.alert,
        channel=channel.name,
        receivers=channel.receivers(news.alert.rule),
        created_at=at,
        changed_at=at,
        next_at=at + LEASE if channel.is_immediate else at,
        tries=1 if channel.is_immediate else 0,
    )
    row.body = channel.body(news, row.pk)
    row.save()
    return row


def _taken(at: datetime) -> list[Delivery]:
    """Return the deliveries that are due, each under a lease of this round."""
    before = Delivery.objects.filter(
        alert=OuterRef("alert"),
        channel=OuterRef("channel"),
        next_at__isnull=False,
        created_at__lt=OuterRef("created_at"),
    )
    with transaction.atomic():
        due = Delivery.objects.select_for_update(skip_locked=True, of=("self",)).filter(
            ~Exists(before), next_at__lte=at
        )
        rows = list(due.select_related("alert__rule").order_by("next_at")[:MOST])
        for row in rows:
            row.tries += 1
            row.next_at = at + LEASE
            row.save(update_fields=["tries", "next_at"])
    return rows


def _send(channel: Channel, rows: list[Delivery], at: datetime) -> None:
    wanted = [row for row in rows if row.alert.rule.is_on]
    if wanted:
        for row, error in zip(wanted, channel.send(wanted, at), strict=True):
            _keep(channel, row, error, at)
    for row in rows:
        if not row.alert.rule.is_on:
            _keep(channel, row, "the rule is off", at)


def _keep(channel: Channel, row: Delivery, error: str, at: datetime) -> None:
    """Write down what became of a try, and when the next one is."""
    rule = row.alert.rule
    next_at = None
    if error and rule.is_on and channel.is_wanted(rule) and row.tries <= len(channel.pauses_s):
        next_at = at + timedelta(seconds=channel.pauses_s[row.tries - 1])
    # by its key: it may have been deleted with its rule meanwhile
    Delivery.objects.filter(pk=row.pk).update(
        next_at=next_at, told_at=None if error else at, error=error[:ERROR_LENGTH], changed_at=at
    )
    if error and next_at is None:
        logger.warning("%s about %s is abandoned after %d attempts: %s", channel.name, row.alert, row.tries, error)
