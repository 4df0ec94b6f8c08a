"""Webhooks that fail are told again, with growing pauses, up to a limit, and none keeps another waiting."""

from __future__ import annotations

import hashlib
import hmac
import json
import socket
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.mail import EmailMessage
from django.core.mail.backends.base import BaseEmailBackend
from django.test import Client
from django.utils import timezone
from django.utils.translation import override

from console.features.alerts import deliveries
from console.features.alerts.channels import Webhook as WebhookChannel
from console.features.alerts.deliveries import send_due
from console.features.alerts.models import Alert, AlertRule, Delivery
from console.features.alerts.sealed_secret import secret_of_rule
from console.tasks import watch_alerts
from tests.console.alerts.stage import START_MS, Webhook, after, rule, tell
from tests.console.alerts.stage import webhook as webhook

PAUSES_S = WebhookChannel.pauses_s


@pytest.mark.django_db
def test_a_webhook_that_fails_is_told_again_with_growing_pauses_and_knows_it_again(webhook: Webhook) -> None:
    made = rule(webhook=f"{webhook.origin}/alerts", for_s=0)
    (news,) = after(0, mail=150)
    webhook.status = 500
    at = datetime.fromtimestamp(START_MS / 1000, UTC)
    assert tell(news, at) == "webhook failed: status 500, retry at 11:06:55 UTC"
    assert send_due(at + timedelta(seconds=PAUSES_S[0] - 1)) == 0
    at += timedelta(seconds=PAUSES_S[0])
    assert send_due(at) == 1
    webhook.status = 204
    assert send_due(at + timedelta(seconds=PAUSES_S[1] - 1)) == 0
    assert send_due(at + timedelta(seconds=PAUSES_S[1])) == 1
    assert send_due(at + timedelta(days=1)) == 0
    assert Alert.objects.get().told == "webhook notified (attempt 3)"
    bodies = {body for _, body in webhook.got}
    heads = [headers for headers, _ in webhook.got]
    assert len(bodies) == len({each["Escapement-Delivery"] for each in heads}) == 1
    assert json.loads(next(iter(bodies)))["delivery"] == heads[0]["Escapement-Delivery"]
    assert [each["Escapement-Try"] for each in heads] == ["1", "2", "3"]
    assert len({each["Escapement-Nonce"] for each in heads}) == 3
    for headers, body in webhook.got:
        signed = f"alert\n{headers['Escapement-Timestamp']}\n{headers['Escapement-Nonce']}\n".encode() + body
        wanted = hmac.new(secret_of_rule(made).encode(), signed, hashlib.sha256).hexdigest()
        assert headers["Escapement-Signature"] == wanted
    assert tuple(sorted(PAUSES_S)) == PAUSES_S


@pytest.mark.django_db
def test_it_is_given_up_after_its_tries_and_what_came_later_is_told_then(webhook: Webhook) -> None:
    rule(webhook=f"{webhook.origin}/alerts", for_s=0, emails="anna@example.org")
    (raised,) = after(0, mail=150)
    webhook.status = 503
    at = datetime.fromtimestamp(START_MS / 1000, UTC)
    tell(raised, at)
    (over,) = after(5)
    deliveries.tell(over, at + timedelta(seconds=5))
    tries = 1
    while len(webhook.got) < len(PAUSES_S) + 1:
        at += timedelta(seconds=PAUSES_S[tries - 1])
        assert send_due(at) == 1, "the news that it is over waits for its turn"
        tries += 1
    assert {json.loads(body)["state"] for _, body in webhook.got} == {"raised"}
    assert Alert.objects.get().told == "mail to 1; webhook failed: status 503 (attempt 8), abandoned"
    webhook.status = 204
    assert send_due(at) == 1
    assert json.loads(webhook.got[-1][1])["state"] == "over"
    assert Alert.objects.get().told == "mail to 1; webhook notified"


@pytest.mark.django_db
def test_one_that_does_not_answer_keeps_no_other_waiting(webhook: Webhook, settings: Any) -> None:
    settings.CHECKBACK_TIMEOUT_S = 0.3
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent_origin = f"http://127.0.0.1:{silent.getsockname()[1]}"
        settings.ALERT_ORIGINS = [*settings.ALERT_ORIGINS, silent_origin]
        rule(webhook=f"{silent_origin}/", for_s=0, subject="slow*")
        rule(webhook=f"{webhook.origin}/", for_s=0, subject="mail")
        at = timezone.now()
        for news in after(0, mail=150, **{f"slow-{number}": 150 for number in range(10)}):
            deliveries.tell(news, at)
        begun = time.monotonic()
        assert send_due(at) == 11
        # one after the other it would be ten times as long
        assert time.monotonic() - begun < 10 * 0.3
    assert len(webhook.got) == 1
    failed = Delivery.objects.filter(error__contains="no answer within 0.3 s", next_at__isnull=False)
    assert failed.count() == 10


@pytest.mark.django_db
def test_where_no_webhook_may_be_asked_any_more_what_was_queued_for_one_is_refused(
    webhook: Webhook, settings: Any
) -> None:
    """Then there is no round for webhooks in the timetable."""
    rule(webhook=f"{webhook.origin}/alerts", for_s=0)
    (news,) = after(0, mail=150)
    deliveries.tell(news, timezone.now())
    settings.ALERT_ORIGINS = []
    watch_alerts()
    assert webhook.got == []
    assert "webhook failed" in Alert.objects.get().told


@pytest.mark.django_db
def test_a_rule_switched_off_meanwhile_is_not_told_again(webhook: Webhook) -> None:
    made = rule(webhook=f"{webhook.origin}/alerts", for_s=0)
    (news,) = after(0, mail=150)
    webhook.status, at = 500, timezone.now()
    tell(news, at)
    AlertRule.objects.filter(pk=made.pk).update(is_on=False)
    assert send_due(at + timedelta(seconds=PAUSES_S[0])) == 1
    assert (len(webhook.got), send_due(at + timedelta(days=1))) == (1, 0)
    assert Alert.objects.get().told == "webhook failed: the rule is off (attempt 2), abandoned"


class RefusingMail(BaseEmailBackend):
    """A mail server that names a webhook when it refuses."""

    def send_messages(self, email_messages: Sequence[EmailMessage]) -> int:
        raise OSError("550 not here; webhook hosts are not mailed")


@pytest.mark.django_db
def test_what_a_mail_server_says_stays_whole_when_a_webhook_is_told(webhook: Webhook, settings: Any) -> None:
    settings.EMAIL_BACKEND = f"{RefusingMail.__module__}.{RefusingMail.__qualname__}"
    rule(webhook=f"{webhook.origin}/alerts", for_s=0, emails="anna@example.org")
    (news,) = after(0, mail=150)
    said = tell(news)
    assert "550 not here; webhook hosts are not mailed" in said
    assert said.endswith("; webhook notified")


@pytest.mark.django_db
def test_the_history_is_in_the_readers_language(webhook: Webhook) -> None:
    rule(webhook=f"{webhook.origin}/alerts", for_s=0, emails="anna@example.org")
    (news,) = after(0, mail=150)
    webhook.status, at = 503, datetime.fromtimestamp(START_MS / 1000, UTC)
    with override("zh-hans"):
        told = tell(news, at)
    assert told.startswith("邮件 已发给 1 人; Webhook 失败")
    assert told.endswith("status 503, 将于 11:06:55 UTC 重试")


@pytest.mark.django_db
def test_what_older_releases_wrote_stays_beside_what_is_told_now(webhook: Webhook) -> None:
    rule(webhook=f"{webhook.origin}/alerts", for_s=0)
    (news,) = after(0, mail=150)
    Alert.objects.filter(pk=news.alert.pk).update(told_before="mail to 1; webhook failed: status 500, given up")
    assert tell(news) == "mail to 1; webhook failed: status 500, given up; webhook notified"


def test_the_admin_lists_what_was_told_and_finds_an_error_once(webhook: Webhook, operator: Client) -> None:
    rule(webhook=f"{webhook.origin}/alerts", for_s=0, emails="anna@example.org")
    (news,) = after(0, mail=150)
    webhook.status = 503
    tell(news)
    Delivery.objects.update(error="status 503")
    page = operator.get("/admin/console/alert/", {"q": "503"}).content.decode()
    assert page.count("webhook failed: status 503") == 1
    assert operator.get("/admin/console/alert/", {"q": "504"}).content.decode().count("status 503") == 0
