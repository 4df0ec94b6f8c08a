"""Telling people and programs about an alert: mail at once, a signed POST to the rule's webhook with the next round.

A webhook is told again, with growing pauses, until it answers or is given up. A delivery has one id and one body
however often it is tried, so its receiver can know it again. Each try is signed anew, with HMAC-SHA256 under the rule's
secret over "alert" LF timestamp LF nonce LF body, and asked for as the first one is: only listed origins, one look-up,
no redirects. A webhook that does not answer keeps no other waiting; only what comes later of the same alert waits for
what came before.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from django.conf import settings
from django.core.mail import send_mail
from django.db import transaction
from django.db.models import Exists, OuterRef

from console.features.alerts.evaluate import News
from console.features.alerts.models import Alert, AlertRule, Delivery
from console.features.alerts.webhooks import allow_list
from console.features.checkback.allowed import AddressRefused, read_address
from console.features.checkback.request import Asker, HttpLimits, NoAnswer, Resolver
from console.features.checkback.signature import NONCE_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER, secret_of, sign_alert

logger = logging.getLogger(__name__)

DELIVERY_HEADER, TRY_HEADER = "Escapement-Delivery", "Escapement-Try"
#: after each try that failed; then it is given up: eight tries in two hours and a half
PAUSES_S = (15, 60, 240, 900, 1_800, 2_700, 3_600)
#: of one round, and asked at once
MOST, AT_ONCE = 128, 16
#: for so long a delivery belongs to the round that took it; a round that dies is made good then
LEASE = timedelta(seconds=60)


def secret_of_rule(rule: AlertRule) -> str:
    """With which the webhook knows us."""
    return secret_of(f"alert rule {rule.pk}", rule.salt)


def queue(alert: Alert, at: datetime, *, is_over: bool) -> None:
    """Have the rule's webhook told with the next round."""
    row = Delivery(alert=alert, next_at=at, created_at=at)
    row.body = json.dumps(
        {
            "delivery": str(row.pk), "alert": alert.pk, "state": "over" if is_over else "raised",
            "rule": alert.rule.name,
            "what": alert.rule.what, "subject": alert.subject, "value": alert.value, "highest": alert.highest,
            "limit": alert.rule.limit, "since": alert.since.isoformat(), "environment": settings.ESCAPEMENT_ENV,
        }
    )  # fmt: skip
    row.save()


def send_due(at: datetime) -> int:
    """Try all that are due at that moment, many at once; how many were tried. Raises nothing for one that fails."""
    rows = _taken(at)
    for row, failure in zip(rows, asyncio.run(_ask_all(rows, at)), strict=True):
        _keep(row, failure, at)
    return len(rows)


def _taken(at: datetime) -> list[Delivery]:
    """Theirs for a while who took them; those of an alert one after the other."""
    before = Delivery.objects.filter(
        alert=OuterRef("alert"), next_at__isnull=False, created_at__lt=OuterRef("created_at")
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


async def _ask_all(rows: Sequence[Delivery], at: datetime) -> list[str]:
    """What was wrong with each, empty for those that are told."""
    asker = Asker(allow_list(), Resolver(), HttpLimits(settings.CHECKBACK_TIMEOUT_S, any_success=True))
    turns = asyncio.Semaphore(AT_ONCE)

    async def ask(row: Delivery) -> str:
        async with turns:
            if not row.alert.rule.is_on:
                return "the rule is off"
            try:
                address = read_address(row.alert.rule.webhook)
                await asker.ask(address, _headers(row, at), row.body.encode())
            except (AddressRefused, NoAnswer) as error:
                return str(error)
        return ""

    return list(await asyncio.gather(*(ask(row) for row in rows)))


def _headers(row: Delivery, at: datetime) -> Mapping[str, str]:
    timestamp, nonce = str(int(at.timestamp())), secrets.token_hex(16)
    signature = sign_alert(secret_of_rule(row.alert.rule), timestamp, nonce, row.body.encode())
    return {
        TIMESTAMP_HEADER: timestamp, NONCE_HEADER: nonce, SIGNATURE_HEADER: signature,
        DELIVERY_HEADER: str(row.pk), TRY_HEADER: str(row.tries),
    }  # fmt: skip


def _keep(row: Delivery, failure: str, at: datetime) -> None:
    """When it is tried again, and what the history says."""
    is_wanted = row.alert.rule.is_on and bool(row.alert.rule.webhook)
    next_at = None
    if failure and is_wanted and row.tries <= len(PAUSES_S):
        next_at = at + timedelta(seconds=PAUSES_S[row.tries - 1])
    # it may have been deleted with its rule meanwhile
    Delivery.objects.filter(pk=row.pk).update(next_at=next_at, told_at=None if failure else at)
    said = f"webhook failed: {failure}" if failure else "webhook told"
    if row.tries > 1:
        said += f" (try {row.tries})"
    if next_at is not None:
        said += f", again at {next_at:%H:%M:%S} UTC"
    elif failure:
        said += ", given up"
        logger.warning("the webhook of %s is given up after %d tries: %s", row.alert.rule, row.tries, failure)
    alert = Alert.objects.filter(pk=row.alert.pk)
    for told in alert.values_list("told", flat=True):
        others = [part for part in told.split("; ") if part and not part.startswith("webhook ")]
        alert.update(told="; ".join([*others, said])[:2_000])


def tell(news: News, at: datetime) -> str:
    """By every way that the rule names; what became of it, also kept with the alert. Raises nothing."""
    rule = news.alert.rule
    said = []
    if rule.addresses:
        said.append(_mail(news))
    if rule.webhook:
        said.append("webhook is to be told")
    news.alert.told = "; ".join(said)[:2_000]
    news.alert.save(update_fields=["told"])
    if rule.webhook:
        # afterwards: what becomes of it is written there by others
        queue(news.alert, at, is_over=news.is_over)
    return news.alert.told


def sentence(news: News) -> str:
    """One line that says it all."""
    alert = news.alert
    state = "over" if news.is_over else "raised"
    return f"[{settings.ESCAPEMENT_ENV}] {state}: {alert.subject}: {alert.rule} (now {alert.value:g})"


def _mail(news: News) -> str:
    alert = news.alert
    text = (
        f"{sentence(news)}\n\nsince    {alert.since:%Y-%m-%d %H:%M:%S} UTC\nhighest  {alert.highest:g}\n"
        f"limit    {alert.rule.limit:g}\n"
    )
    # a subject comes from outside: a line break in it would be a header
    subject = " ".join(sentence(news).split())[:200]
    try:
        send_mail(subject, text, None, alert.rule.addresses)
    except Exception as error:  # whatever the mail server's client raises: the history has to say so
        logger.warning("mail about %s was not sent: %s", alert, error)
        return f"mail failed: {error}"
    return f"mail to {len(alert.rule.addresses)}"
