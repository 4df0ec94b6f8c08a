"""The ways in which people and programs are told of an alert: mail, and a signed POST to a webhook.

A channel knows to whom the news of a rule go, what a delivery says, and how deliveries are sent. When they are sent,
and when again, is decided in deliveries.py. A new channel is a class here with its place in `CHANNELS`, its setting and
its name in models.py, and its field in the form of a rule.

A webhook's delivery has one id and one body however often it is tried, so its receiver can know it again. Each try is
signed anew, with HMAC-SHA256 under the rule's secret over "alert" LF timestamp LF nonce LF body, and asked as the first
one is: only listed origins, one look-up, no redirects.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.mail import send_mail
from django.core.validators import validate_email
from django.utils.translation import gettext as _

from console.features.alerts.evaluate import News
from console.features.alerts.models import AlertRule, Delivery
from console.features.alerts.webhooks import allow_list, check_webhook
from console.features.checkback.allowed import AddressRefused, read_address
from console.features.checkback.request import Asker, HttpLimits, NoAnswer, Resolver
from console.features.checkback.signature import NONCE_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER, secret_of, sign_alert

DELIVERY_HEADER, TRY_HEADER = "Escapement-Delivery", "Escapement-Try"
#: mail addresses of one rule
MOST_ADDRESSES = 20
#: webhooks that are asked at the same time, so that a silent one keeps no other waiting
AT_ONCE = 16


class SettingRefused(ValueError):
    """A setting that no rule may have; the message says what it may be."""


class Channel(ABC):
    """One way of telling. It has no state; what became of each delivery is kept in its row."""

    name: Delivery.Channel
    #: the field of AlertRule that says where this channel leads
    setting: str
    #: True: sent with the round of judging itself; False: with the next round of deliveries
    is_immediate = False
    #: seconds to wait after each try that failed; after the last of them a delivery is given up
    pauses_s: tuple[int, ...] = ()

    @abstractmethod
    def checked(self, value: object) -> str:
        """The rule's setting in its one form; raises SettingRefused."""

    @abstractmethod
    def is_wanted(self, rule: AlertRule) -> bool:
        """Whether the rule tells by this channel."""

    def receivers(self, rule: AlertRule) -> int | None:
        """How many people get it; None: a program does."""
        return None

    @abstractmethod
    def body(self, news: News, delivery_id: UUID) -> str:
        """What is kept of the news, the same for every try."""

    @abstractmethod
    def send(self, deliveries: Sequence[Delivery], at: datetime) -> list[str]:
        """Try each of them, and return why it failed, in the same order; empty where it was delivered."""


class Mail(Channel):
    """One mail to all addresses of a rule, tried once."""

    name, setting, is_immediate = Delivery.Channel.MAIL, "emails", True

    def checked(self, value: object) -> str:
        """Addresses separated by spaces, commas or line breaks, as one a line."""
        found = re.split(r"[\s,;]+", value.strip()) if isinstance(value, str) and value.strip() else []
        if not isinstance(value, str) or len(found) > MOST_ADDRESSES:
            raise SettingRefused(_("At most %(count)s addresses, one a line.") % {"count": MOST_ADDRESSES})
        for address in found:
            try:
                validate_email(address)
            except ValidationError:
                raise SettingRefused(_("“%(text)s” is no e-mail address.") % {"text": address[:100]}) from None
        return "\n".join(dict.fromkeys(found))

    def is_wanted(self, rule: AlertRule) -> bool:
        """Whether the rule has addresses."""
        return bool(rule.addresses)

    def receivers(self, rule: AlertRule) -> int:
        """How many addresses the rule has."""
        return len(rule.addresses)

    def body(self, news: News, delivery_id: UUID) -> str:
        """JSON with `subject` and `text`."""
        alert, line = news.alert, sentence(news)
        text = (
            f"{line}\n\nsince    {alert.since:%Y-%m-%d %H:%M:%S} UTC\nhighest  {alert.highest:g}\n"
            f"limit    {alert.rule.limit:g}\n"
        )
        # what is watched has its name from outside: a line break in it would be a header
        return json.dumps({"subject": " ".join(line.split())[:200], "text": text})

    def send(self, deliveries: Sequence[Delivery], at: datetime) -> list[str]:
        """Send one after the other."""
        return [self._send(each) for each in deliveries]

    def _send(self, delivery: Delivery) -> str:
        said = json.loads(delivery.body)
        try:
            send_mail(said["subject"], said["text"], None, delivery.alert.rule.addresses)
        except Exception as error:  # whatever the mail server's client raises: the history has to say so
            return str(error) or type(error).__name__
        return ""


class Webhook(Channel):
    """A signed POST that is tried again, with growing pauses: eight tries in two hours and a half."""

    name, setting = Delivery.Channel.WEBHOOK, "webhook"
    pauses_s = (15, 60, 240, 900, 1_800, 2_700, 3_600)

    def checked(self, value: object) -> str:
        """An address whose origin is listed; empty for none."""
        text = value.strip() if isinstance(value, str) else "-"
        try:
            if text:
                check_webhook(text)
        except AddressRefused as error:
            raise SettingRefused(str(error)) from None
        return text

    def is_wanted(self, rule: AlertRule) -> bool:
        """Whether the rule has an address."""
        return bool(rule.webhook)

    def body(self, news: News, delivery_id: UUID) -> str:
        """The JSON that is sent (docs/CONSOLE.md)."""
        alert = news.alert
        return json.dumps(
            {
                "delivery": str(delivery_id),
                "alert": alert.pk,
                "state": "over" if news.is_over else "raised",
                "rule": alert.rule.name,
                "what": alert.rule.what,
                "subject": alert.subject,
                "value": alert.value,
                "highest": alert.highest,
                "limit": alert.rule.limit,
                "since": alert.since.isoformat(),
                "environment": settings.ESCAPEMENT_ENV,
            }
        )

    def send(self, deliveries: Sequence[Delivery], at: datetime) -> list[str]:
        """Ask them all, many at the same time."""
        return asyncio.run(self._ask_all(deliveries, at))

    async def _ask_all(self, deliveries: Sequence[Delivery], at: datetime) -> list[str]:
        asker = Asker(allow_list(), Resolver(), HttpLimits(settings.CHECKBACK_TIMEOUT_S, any_success=True))
        turns = asyncio.Semaphore(AT_ONCE)

        async def ask(delivery: Delivery) -> str:
            async with turns:
                try:
                    address = read_address(delivery.alert.rule.webhook)
                    await asker.ask(address, _signed_headers(delivery, at), delivery.body.encode())
                except (AddressRefused, NoAnswer) as error:
                    return str(error)
            return ""

        return list(await asyncio.gather(*(ask(each) for each in deliveries)))


#: every channel by its name, in the order in which they are used
CHANNELS: Mapping[str, Channel] = {channel.name: channel for channel in (Mail(), Webhook())}


def secret_of_rule(rule: AlertRule) -> str:
    """The secret under which a rule's webhook is signed."""
    return secret_of(f"alert rule {rule.pk}", rule.salt)


def sentence(news: News) -> str:
    """The news in one line, for the subject of a mail."""
    alert = news.alert
    state = "over" if news.is_over else "raised"
    return f"[{settings.ESCAPEMENT_ENV}] {state}: {alert.subject}: {alert.rule} (now {alert.value:g})"


def _signed_headers(delivery: Delivery, at: datetime) -> Mapping[str, str]:
    timestamp, nonce = str(int(at.timestamp())), secrets.token_hex(16)
    signature = sign_alert(secret_of_rule(delivery.alert.rule), timestamp, nonce, delivery.body.encode())
    return {
        TIMESTAMP_HEADER: timestamp,
        NONCE_HEADER: nonce,
        SIGNATURE_HEADER: signature,
        DELIVERY_HEADER: str(delivery.pk),
        TRY_HEADER: str(delivery.tries),
    }
