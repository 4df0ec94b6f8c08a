"""Telling people and programs: mail, and a signed POST to the webhook of a rule.

The webhook is asked as check-back addresses are: only listed origins, one look-up, no redirects, a few seconds.
Its body is JSON; the signature is HMAC-SHA256 with the rule's secret over "alert" LF timestamp LF nonce LF body.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from collections.abc import Mapping

from django.conf import settings
from django.core.mail import send_mail

from console.alerts.rows import AlertRule
from console.alerts.watching import News
from console.checkback.allowed import Address, AddressRefused, AllowList, read_address
from console.checkback.asking import Asker, HttpLimits, NoAnswer
from console.checkback.resolving import Resolver
from console.checkback.signing import (
    NONCE_HEADER,
    SIGNATURE_HEADER,
    TIMESTAMP_HEADER,
    secret_of,
    sign_alert,
)

logger = logging.getLogger(__name__)


def secret_of_rule(rule: AlertRule) -> str:
    """With which the webhook knows us."""
    return secret_of(f"alert rule {rule.pk}", rule.salt)


def tell(news: News) -> str:
    """By every way that the rule names; what became of it, also kept with the alert. Raises nothing."""
    rule = news.alert.rule
    said = []
    if rule.addresses:
        said.append(_mail(news))
    if rule.webhook:
        said.append(_post(news))
    news.alert.told = "; ".join(said)[:2_000]
    news.alert.save(update_fields=["told"])
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


async def _ask(
    address: Address, allowed: AllowList, limits: HttpLimits, headers: Mapping[str, str], body: bytes
) -> None:
    await Asker(allowed, Resolver(), limits).ask(address, headers, body)


def _post(news: News) -> str:
    alert = news.alert
    body = json.dumps(
        {
            "alert": alert.pk, "state": "over" if news.is_over else "raised", "what": alert.rule.what,
            "subject": alert.subject, "value": alert.value, "highest": alert.highest, "limit": alert.rule.limit,
            "since": alert.since.isoformat(), "environment": settings.ESCAPEMENT_ENV,
        }
    ).encode()  # fmt: skip
    timestamp, nonce = str(int(time.time())), secrets.token_hex(16)
    headers = {
        TIMESTAMP_HEADER: timestamp,
        NONCE_HEADER: nonce,
        SIGNATURE_HEADER: sign_alert(secret_of_rule(alert.rule), timestamp, nonce, body),
    }
    try:
        address = read_address(alert.rule.webhook)
        allowed = AllowList(settings.ALERT_ORIGINS, settings.CHECKBACK_NETWORKS)
        limits = HttpLimits(settings.CHECKBACK_TIMEOUT_S, any_success=True)
        asyncio.run(_ask(address, allowed, limits, headers, body))
    except (AddressRefused, NoAnswer) as error:
        logger.warning("the webhook of %s: %s", alert.rule, error)
        return f"webhook failed: {error}"
    return "webhook told"
