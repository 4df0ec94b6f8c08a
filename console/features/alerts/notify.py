"""Telling people and programs: mail at once, and a signed POST to the webhook of a rule with the next round of them.

The signature is HMAC-SHA256 with the rule's secret over "alert" LF timestamp LF nonce LF body.
"""

from __future__ import annotations

import logging
from datetime import datetime

from django.conf import settings
from django.core.mail import send_mail

from console.features.alerts import deliveries
from console.features.alerts.evaluate import News

logger = logging.getLogger(__name__)


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
        deliveries.queue(news.alert, at, is_over=news.is_over)
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
