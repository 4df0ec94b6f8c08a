"""Ways of telling people and programs of an alert: by mail, or by a POST to a webhook.

A channel knows to whom the news of a rule go, what a delivery says, and how deliveries are sent. A new channel is a
class here with its place in `CHANNELS`, its setting and its name in models.py, and its field in the form of a rule.
What is posted has the format of a service (webhooks/).

A webhook is asked as the address of a check-back is: only listed origins, one look-up, no redirects.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID, uuid4

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.mail import send_mail
from django.core.validators import validate_email
from django.utils.translation import gettext as _

from console.features.alerts.evaluate import News
from console.features.alerts.models import AlertRule, Delivery
from console.features.alerts.sealed_secret import secret_of_rule, unsealed
from console.features.alerts.told import Told
from console.features.alerts.webhooks.format import Try
from console.features.alerts.webhooks.registry import format_of
from console.features.checkback.allowed import AddressRefused, AllowList, read_address
from console.features.checkback.request import Asker, HttpAnswer, HttpLimits, NoAnswer, Resolver
from console.operations.kind import Words
from console.security import keys


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


#: the way of mail that needs a server
_SMTP = "django.core.mail.backends.smtp.EmailBackend"
#: mail addresses of one rule
MOST_ADDRESSES = 20
#: webhooks that are asked at the same time, so that a silent one keeps no other waiting
AT_ONCE = 16


#: characters of an answer that a test shows
ANSWER_LENGTH = 400


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of a message by which a channel was tried; `error` is empty where it was delivered."""

    #: "mail", or the webhook's format: a stable code, and what it is called
    name: str
    title: Words
    took_ms: int
    error: str = ""
    #: None: no answer came, or the channel has none
    status: int | None = None
    #: the beginning of the answer, without secrets
    answer: str = ""

    @property
    def is_delivered(self) -> bool:
        """Tell whether the channel works."""
        return not self.error


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
    def hindrance(self, rule: AlertRule | None = None) -> str:
        """Return why nothing can arrive by it, of the rule or of any, and what to change; "" where nothing is known."""

    @abstractmethod
    def body(self, news: News, delivery_id: UUID) -> str:
        """Return the text of the news that is kept, the same for every try."""

    @abstractmethod
    def send(self, deliveries: Sequence[Delivery], at: datetime) -> list[str]:
        """Try each of them, and return why it failed, in the same order; empty where it was delivered."""

    @abstractmethod
    def trial(self, rule: AlertRule, at: datetime) -> Trial:
        """Send one message that says that it is a test, now and once."""


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

    def hindrance(self, rule: AlertRule | None = None) -> str:
        """Return that no mail server was named, where mail goes by SMTP."""
        if settings.MAIL_IS_SET or settings.EMAIL_BACKEND != _SMTP:
            return ""
        said = _(
            "No mail server is set, so mail goes to %(server)s, where one has to run. "
            "Set ESCAPEMENT_MAIL=host:port and restart."
        )
        return said % {"server": f"{settings.EMAIL_HOST}:{settings.EMAIL_PORT}"}

    @property
    def state(self) -> str:
        """Whether mail is set up, in words for everybody who sees rules: no server is named."""
        if self.hindrance():
            return _("Mail is not set up: set ESCAPEMENT_MAIL=host:port (docs/SETTINGS.md) and restart.")
        return _("Mail is set up.")

    def body(self, news: News, delivery_id: UUID) -> str:
        """Return JSON with `subject` and `text`."""
        return json.dumps(_mail(Told.of(news.alert, delivery_id, is_over=news.is_over)))

    def send(self, deliveries: Sequence[Delivery], at: datetime) -> list[str]:
        """Send one after the other."""
        return [self._send(each) for each in deliveries]

    def _send(self, delivery: Delivery) -> str:
        return _sent(json.loads(delivery.body), delivery.alert.rule.addresses)

    def trial(self, rule: AlertRule, at: datetime) -> Trial:
        """Send one mail to all addresses; the mail server's word is all that there is."""
        begun = time.monotonic()
        error = _sent(_mail(Told.test(rule, uuid4(), at)), rule.addresses)
        return Trial(self.name, _("mail"), _since_ms(begun), error)


def _mail(told: Told) -> dict[str, str]:
    width = max(len(name) for name, _value in told.facts)
    lines = [f"{name:<{width}} {value}" for name, value in told.facts]
    # what is watched has its name from outside: a line break in it would be a header; the title has none
    return {"subject": told.title[:200], "text": "\n".join([told.title, "", *lines, ""])}


def _sent(said: Mapping[str, str], addresses: Sequence[str]) -> str:
    try:
        send_mail(said["subject"], said["text"], None, addresses)
    except Exception as error:  # whatever the mail server's client raises: the history has to say so
        return str(error) or type(error).__name__
    return ""


def _since_ms(begun: float) -> int:
    return round((time.monotonic() - begun) * 1_000)


class Webhook(Channel):
    """A POST in the format of a service, tried again with growing pauses: eight tries in two hours and a half."""

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

    def hindrance(self, rule: AlertRule | None = None) -> str:
        """Return that no origin is allowed, or not that of the rule."""
        if not settings.ALERT_ORIGINS:
            return _(
                "Webhooks are not allowed here. List their origins, such as https://hooks.example, in "
                "ESCAPEMENT_ALERT_ORIGINS and restart."
            )
        if rule is None:
            return ""
        try:
            check_webhook(rule.webhook)
        except AddressRefused:
            origin = without_path(rule.webhook).removesuffix("/…")
            said = _(
                "This webhook is not allowed. List its origin, %(origin)s, in ESCAPEMENT_ALERT_ORIGINS and restart."
            )
            return said % {"origin": origin}
        return ""

    def body(self, news: News, delivery_id: UUID) -> str:
        """Return the JSON that a plain webhook gets (docs/CONSOLE.md); other formats are made of it at each try."""
        return Told.of(news.alert, delivery_id, is_over=news.is_over).kept()

    def send(self, deliveries: Sequence[Delivery], at: datetime) -> list[str]:
        """Ask them all, many at the same time."""
        return asyncio.run(self._ask_all(deliveries, at))

    def trial(self, rule: AlertRule, at: datetime) -> Trial:
        """Ask the webhook once, and show what it answers."""
        told, begun = Told.test(rule, uuid4(), at), time.monotonic()
        form = format_of(rule.webhook_format)
        try:
            answer = asyncio.run(_ask(_asker(), rule, told.kept(), at, 1))
        except (AddressRefused, NoAnswer, keys.Unreadable) as error:
            return Trial(form.name, form.title, _since_ms(begun), _why(error))
        return Trial(
            form.name,
            form.title,
            _since_ms(begun),
            form.fault(answer),
            answer.status,
            answer.body.decode("utf-8", "replace")[:ANSWER_LENGTH],
        )

    async def _ask_all(self, deliveries: Sequence[Delivery], at: datetime) -> list[str]:
        asker = _asker()
        turns = asyncio.Semaphore(AT_ONCE)

        async def ask(delivery: Delivery) -> str:
            rule = delivery.alert.rule
            async with turns:
                try:
                    answer = await _ask(asker, rule, delivery.body, at, delivery.tries)
                except (AddressRefused, NoAnswer, keys.Unreadable) as error:
                    return _why(error)
            return format_of(rule.webhook_format).fault(answer)

        return list(await asyncio.gather(*(ask(each) for each in deliveries)))


def _asker() -> Asker:
    return Asker(allow_list(), Resolver(), HttpLimits(settings.CHECKBACK_TIMEOUT_S, any_answer=True))


async def _ask(asker: Asker, rule: AlertRule, body: str, at: datetime, number: int) -> HttpAnswer:
    """Ask a rule's webhook. Raises AddressRefused, NoAnswer, keys.Unreadable."""
    form = format_of(rule.webhook_format)
    secret = unsealed(rule) if form.secret_title else secret_of_rule(rule)
    post = form.post(Try(Told.read(body), body, rule.webhook, secret, at, number))
    answer = await asker.ask(read_address(post.address), post.headers, post.body)
    hidden = [secret] + [read_address(rule.webhook).target] * form.is_address_secret
    return replace(answer, body=_without(answer.body, hidden))


def _why(error: Exception) -> str:
    if isinstance(error, keys.Unreadable):
        return "the secret cannot be read, as SECRET_KEY is another one: enter it again"
    return str(error)


def _without(body: bytes, hidden: Sequence[str]) -> bytes:
    """Return an answer without the secrets that it repeats: parts of it are kept and shown."""
    for each in hidden:
        if len(each) > 1:
            body = body.replace(each.encode(), "•••".encode())
    return body


MAIL = Mail()
#: every channel by its name, in the order in which they are used
CHANNELS: Mapping[str, Channel] = {channel.name: channel for channel in (MAIL, Webhook())}
