"""Telling people and programs of an alert, by mail or by a signed POST to a webhook.

A channel knows to whom the news of a rule go, what a delivery says, and how deliveries are sent. A new channel is a
class here with its place in `CHANNELS`, its setting and its name in models.py, and its field in the form of a rule.

A webhook's delivery has one id and one body however often it is tried, so its receiver can know it again. Each try is
signed anew, with HMAC-SHA256 under the rule's secret over "alert" LF timestamp LF nonce LF body, and asked as the first
one is: only listed origins, one look-up, no redirects.

Mail goes at once, webhooks with the next round, and those that failed again later. One round takes what is due under a
lease, so that two workers never send the same, and a round that dies is made good after it. Of one alert and channel,
what comes later waits for what came before.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import secrets
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.mail import send_mail
from django.core.validators import validate_email
from django.db import transaction
from django.db.models import Exists, OuterRef
from django.utils.translation import gettext as _

from console.features.alerts.evaluate import News
from console.features.alerts.models import AlertRule, Delivery
from console.features.checkback.allowed import AddressRefused, AllowList, read_address
from console.features.checkback.models import make_secret
from console.features.checkback.request import (
    NONCE_HEADER,
    SIGNATURE_HEADER,
    TIMESTAMP_HEADER,
    Asker,
    HttpLimits,
    NoAnswer,
    Resolver,
    sign_alert,
)


def allow_list() -> AllowList:
    """Return the origins that the settings allow. Raises AddressRefused for one that cannot be read."""
    return AllowList(settings.ALERT_ORIGINS, settings.CHECKBACK_NETWORKS, listed_in="ESCAPEMENT_ALERT_ORIGINS")


def check_webhook(text: str) -> None:
    """Raise AddressRefused unless it can be read and its origin is listed, and leads nowhere special if it is an IP
    address. Where a name leads is looked at each time before it is asked."""
    address, allowed = read_address(text), allow_list()
    allowed.check_origin(address)
    if address.origin.literal is not None:
        allowed.check_resolved([address.origin.literal])


def without_path(text: str) -> str:
    """Return the origin of an address with an ellipsis, as its path may be a secret."""
    if not text:
        return ""
    try:
        return f"{read_address(text).origin}/…"
    except AddressRefused:
        return "…"


DELIVERY_HEADER, TRY_HEADER = "Escapement-Delivery", "Escapement-Try"
#: mail addresses of one rule
MOST_ADDRESSES = 20
#: webhooks that are asked at the same time, so that a silent one keeps no other waiting
AT_ONCE = 16


class SettingRefused(ValueError):
    """A setting that no rule may have; the message says what it may be."""


class Channel(ABC):
    """A way of telling. It has no state; what became of each delivery is kept in its row."""

    name: Delivery.Channel
    #: the field of AlertRule that says where this channel leads
    setting: str
    #: True: sent with the round of judging itself; False: with the next round of deliveries
    is_immediate = False
    #: seconds to wait after each try that failed; after the last of them a delivery is given up
    pauses_s: tuple[int, ...] = ()

    @abstractmethod
    def checked(self, value: object) -> str:
        """Return the rule's setting in its one form; raise SettingRefused."""

    @abstractmethod
    def is_wanted(self, rule: AlertRule) -> bool:
        """Tell whether the rule is told by this channel."""

    def receivers(self, rule: AlertRule) -> int | None:
        """Return the number of people who get it; None: a program does."""
        return None

    @abstractmethod
    def body(self, news: News, delivery_id: UUID) -> str:
        """Return the text of the news that is kept, the same for every try."""

    @abstractmethod
    def send(self, deliveries: Sequence[Delivery], at: datetime) -> list[str]:
        """Try each of them, and return why it failed, in the same order; empty where it was delivered."""


class Mail(Channel):
    """The channel that sends one mail to all addresses of a rule, tried once."""

    name, setting, is_immediate = Delivery.Channel.MAIL, "emails", True

    def checked(self, value: object) -> str:
        """Return addresses separated by spaces, commas or line breaks, as one a line."""
        found = re.split(r"[\s,;]+", value.strip()) if isinstance(value, str) and value.strip() else []
        if not isinstance(value, str) or len(found) > MOST_ADDRESSES:
            raise SettingRefused(_("At most %(count)s addresses, one a line.") % {"count": MOST_ADDRESSES})
        for address in found:
            try:
                validate_email(address)
            except ValidationError:
                raise SettingRefused(_("“%(text)s” is not an e-mail address.") % {"text": address[:100]}) from None
        return "\n".join(dict.fromkeys(found))

    def is_wanted(self, rule: AlertRule) -> bool:
        """Tell whether the rule has mail addresses."""
        return bool(rule.addresses)

    def receivers(self, rule: AlertRule) -> int:
        """Return the number of the rule's mail addresses."""
        return len(rule.addresses)

    def body(self, news: News, delivery_id: UUID) -> str:
        """Return JSON with `subject` and `text`."""
        alert, line = news.alert, sentence(news)
        text = (
            f"{line}\n\nsince     {alert.since:%Y-%m-%d %H:%M:%S} UTC\npeak      {alert.highest:g}\n"
            f"threshold {alert.rule.limit:g}\n"
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
        """Return an address whose origin is listed; empty for none."""
        text = value.strip() if isinstance(value, str) else "-"
        try:
            if text:
                check_webhook(text)
        except AddressRefused as error:
            raise SettingRefused(str(error)) from None
        return text

    def is_wanted(self, rule: AlertRule) -> bool:
        """Tell whether the rule has a webhook's address."""
        return bool(rule.webhook)

    def body(self, news: News, delivery_id: UUID) -> str:
        """Return the JSON that is sent (docs/CONSOLE.md)."""
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
    """Return the secret under which a rule's webhook is signed."""
    return make_secret(f"alert rule {rule.pk}", rule.salt)


def sentence(news: News) -> str:
    """Return the news in one line, for the subject of a mail."""
    alert = news.alert
    state = "resolved" if news.is_over else "firing"
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
