"""Alerts: raised after their time, once; over when it is; told by mail and by a signed webhook; silenced, not lost."""

from __future__ import annotations

import hashlib
import hmac
import json
from datetime import timedelta
from typing import Any

import pytest
import redis
from django.core import mail
from django.test import Client
from django.utils import timezone

from broker.mirror.models import Broker, MirrorState, Replica
from broker.redisson import DelayedQueue
from console.features.alerts import evaluate
from console.features.alerts.evaluate import News
from console.features.alerts.models import Alert, AlertRule, Silence
from console.features.alerts.sealed_secret import secret_of_rule
from console.features.overview import findings
from console.features.redisson.read import QUEUES_SHOWN, hang_up
from console.site.clock import now_ms
from console.tasks import watch_alerts
from tests.console.alerts.stage import Webhook, after, rule, tell
from tests.console.alerts.stage import webhook as webhook
from tests.console.people import browser_of, person
from tests.console.stage import HOSTILE, Stage


def states() -> dict[str, str]:
    return dict(Alert.objects.values_list("subject", "state"))


@pytest.mark.django_db
def test_it_is_raised_after_its_time_once_and_is_over_when_it_is() -> None:
    rule(subject="mail*")
    assert after(0, mail=150, bills=900) == []
    assert states() == {"mail": "pending"}
    assert after(59, mail=400) == []
    (raised,) = after(60, mail=150)
    assert (raised.alert.subject, raised.alert.highest, raised.is_over) == ("mail", 400, False)
    assert after(90, mail=150) == []
    (over,) = after(120, mail=100)
    assert over.is_over
    assert (over.alert.state, over.alert.ended_at - over.alert.since) == ("ended", timedelta(seconds=120))
    assert after(150, mail=150) == []
    assert Alert.objects.count() == 2


@pytest.mark.django_db
def test_what_goes_by_itself_in_time_was_never_an_alert() -> None:
    rule()
    after(0, mail=150)
    assert after(30, mail=50) == []
    assert states() == {}


@pytest.mark.django_db
def test_what_cannot_be_read_neither_begins_nor_ends() -> None:
    rule(for_s=0)
    assert len(after(0, mail=150)) == 1
    assert after(30, told=frozenset()) == []
    assert states() == {"mail": "firing"}


@pytest.mark.django_db
def test_a_rule_switched_off_ends_what_it_raised_and_tells_nobody() -> None:
    made = rule(for_s=0)
    after(0, mail=150)
    made.is_on = False
    made.save()
    assert after(30, mail=150) == []
    assert states() == {"mail": "ended"}


@pytest.mark.django_db
def test_silence_keeps_the_alert_and_tells_nobody() -> None:
    made = rule(for_s=0)
    until = timezone.now() + timedelta(days=365 * 20)
    Silence.objects.create(rule=made, subject="ma*", until=until, reason="the bank is down", actor="anna")
    assert [each.alert.subject for each in after(0, mail=150, bills=150)] == ["bills"]
    assert states() == {"mail": "firing", "bills": "firing"}
    assert after(30) != []
    assert Alert.objects.get(subject="mail").was_silenced


@pytest.mark.django_db
def test_one_rule_raises_only_so_many() -> None:
    rule(for_s=0)
    assert len(after(0, **{f"group-{number}": 101 + number for number in range(400)})) == 200
    assert Alert.objects.filter(subject="group-399").exists()


@pytest.mark.django_db
def test_mail_says_what_and_a_name_makes_no_header() -> None:
    made = rule(for_s=0, emails="anna@example.org\nben@example.org")
    alert = Alert.objects.create(rule=made, subject="mail\nBcc: all@example.org", value=150, highest=150,
                                 since=timezone.now())  # fmt: skip
    assert tell(News(alert, is_over=False)) == "mail to 2"
    (sent,) = mail.outbox
    assert sent.to == ["anna@example.org", "ben@example.org"]
    assert "firing: mail Bcc: all@example.org" in sent.subject
    assert "peak      150" in sent.body


@pytest.mark.django_db
def test_a_webhook_gets_a_signed_sentence(webhook: Webhook) -> None:
    made = rule(webhook=f"{webhook.origin}/alerts", for_s=0)
    (news,) = after(0, mail=150)
    assert tell(news) == "webhook notified"
    ((headers, body),) = webhook.got
    said = json.loads(body)
    assert (said["state"], said["what"], said["subject"], said["value"]) == ("raised", "backlog", "mail", 150)
    stamp, nonce = headers["Escapement-Timestamp"], headers["Escapement-Nonce"]
    signed = f"alert\n{stamp}\n{nonce}\n".encode() + body
    wanted = hmac.new(secret_of_rule(made).encode(), signed, hashlib.sha256).hexdigest()
    assert headers["Escapement-Signature"] == wanted


@pytest.mark.django_db
def test_a_webhook_elsewhere_is_not_asked_and_a_redirect_not_followed(webhook: Webhook) -> None:
    rule(webhook="http://127.0.0.1:1/alerts", for_s=0)
    (news,) = after(0, mail=150)
    assert "is not allowed" in tell(news)
    webhook.status = 302
    news.alert.rule.webhook = f"{webhook.origin}/alerts"
    news.alert.rule.save()
    assert tell(news, timezone.now() + timedelta(days=1)).startswith("webhook failed: status 302 (attempt 2), ")
    assert len(webhook.got) == 1


def test_the_admin_stores_no_rule_that_the_console_would_refuse(operator: Client) -> None:
    given = {"what": "backlog", "subject": "*", "limit": "1", "for_s": "60", "is_on": "on"}
    for wrong in ({"webhook": "http://user@host/"}, {"emails": "anna"}, {"limit": "-1"}, {"for_s": "604801"}):
        assert operator.post("/admin/console/alertrule/add/", {**given, **wrong}).status_code == 200, wrong
    assert not AlertRule.objects.exists()
    mails = {"emails": "anna@example.org, ben@example.org"}
    assert operator.post("/admin/console/alertrule/add/", {**given, **mails}).status_code == 302
    assert AlertRule.objects.get().addresses == ["anna@example.org", "ben@example.org"]


def test_a_backlog_is_read_raised_shown_and_silenced(stage: Stage, operator: Client) -> None:
    stage.fill()
    stage.consume()
    stage.producer.send("orders", "waits", queue_id=0)
    made = rule(subject="bil*", limit=0, for_s=0)

    def is_read() -> bool:
        stage.mirror.run_once()
        found = evaluate.read().readings
        return any((each.what, each.subject) == ("backlog", "billing") and each.value >= 1 for each in found)

    stage.wait_for(is_read)
    watch_alerts()
    page = operator.get("/alerts/").content.decode()
    assert "billing" in page
    assert "1 above threshold" in page
    form = {"subject": HOSTILE[0], "minutes": "120", "reason": HOSTILE[1], "rule": str(made.pk)}
    assert operator.post("/alerts/silence/", {**form, "reason": ""}).status_code == 422
    assert operator.post("/alerts/silence/", {**form, "minutes": "5"}).status_code == 404
    assert operator.post("/alerts/silence/", form).status_code == 303
    page = operator.get("/alerts/").content.decode()
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page
    (silence,) = Silence.objects.all()
    assert silence.actor == "operator"


@pytest.mark.django_db
def test_a_redis_that_is_away_ends_no_alert_about_its_queues(settings: Any, free_port: int) -> None:
    settings.REDISSON_URL = f"redis://127.0.0.1:{free_port}/0"
    findings.forget()
    assert AlertRule.What.STUCK_QUEUE not in evaluate.read().told


@pytest.mark.django_db
def test_a_stuck_queue_is_read_wherever_it_stands_in_the_list(valkey: str, settings: Any) -> None:
    settings.REDISSON_URL, settings.REDISSON_QUEUES = valkey, ["*"]
    with redis.Redis.from_url(valkey) as server:
        server.flushall()
        for number in range(QUEUES_SHOWN + 1):
            queue = DelayedQueue(f"queue-{number:03}", server)
            queue.offer("waits", delay=1 if number == QUEUES_SHOWN else 3_600_000)
        last = queue.keys.timeout
        server.zadd(last, dict.fromkeys(server.zrange(last, 0, 0), 1_000))
        findings.forget()
        found = evaluate.read()
        server.flushall()
    hang_up()
    assert [each.subject for each in found.readings if each.what == "stuck-queue"] == [f"queue-{QUEUES_SHOWN:03}"]


def test_who_may_only_look_does_not_silence(db: None) -> None:
    viewer = browser_of(person("viewer"))
    assert "disabled" in viewer.get("/alerts/").content.decode()
    assert viewer.post("/alerts/silence/", {"minutes": "30", "reason": "x"}).status_code == 403
    assert viewer.post("/operations/draft/", {"kind": "alerts.end_silence", "silence": "1"}).status_code == 403


@pytest.mark.django_db
def test_of_a_polled_broker_whose_slave_is_read_its_master_counts_as_away(settings: Any) -> None:
    settings.REDISSON_URL = ""
    at_ms = now_ms()
    (broker,) = Broker.mirror_writer.bulk_create([Broker(name="broker-a")])
    MirrorState.mirror_writer.bulk_create([MirrorState(broker=broker, as_of_ms=at_ms, polling=True, slave_number=1)])
    Replica.mirror_writer.bulk_create(
        Replica(broker=broker, number=number, as_of_ms=at_ms - away_ms) for number, away_ms in ((0, 60_000), (1, 0))
    )
    found = evaluate.read((AlertRule.What.BROKER_DOWN, AlertRule.What.STILL, AlertRule.What.DEAD_LETTERS))
    (away,) = [each for each in found.readings if each.what == AlertRule.What.BROKER_DOWN]
    assert away.subject == "broker-a"
    assert 60 <= away.value < 90
    # how fast its groups are nobody counts
    assert found.told == {AlertRule.What.BROKER_DOWN, AlertRule.What.DEAD_LETTERS}
