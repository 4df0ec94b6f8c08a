"""News of alerts in the format of each service, taken by a server that refuses what the service would refuse."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from django.core import mail
from django.test import Client

from console.features.alerts import rule_fields, sealed_secret
from console.features.alerts.models import Alert, AlertRule, Delivery
from console.features.alerts.webhooks.format import cut
from console.features.alerts.webhooks.registry import FORMATS
from console.operations.models import AuditEntry, Operation
from console.security import keys
from tests.console.alerts.services import SERVICES, Service, running
from tests.console.alerts.stage import Webhook, after, rule, tell
from tests.console.alerts.stage import webhook as webhook
from tests.console.people import browser_of, person
from tests.console.ui.test_pages import words

#: names from outside may be markup somewhere
NASTY = 'bill<!channel>[x](http://evil) *b* <at user_id="all">'


@pytest.fixture(params=SERVICES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def service(name: str, settings: Any) -> Iterator[Service]:
    with running(SERVICES[name][0]) as made:
        settings.ALERT_ORIGINS, settings.CHECKBACK_NETWORKS = [made.origin], ["127.0.0.0/8"]
        yield made


def rule_of(form: str, service: Service, **more: Any) -> AlertRule:
    _answer, path, secret, _unknown = SERVICES[form]
    sealed = sealed_secret.seal(secret) if secret else ""
    return rule(webhook=service.origin + path, webhook_format=form, webhook_secret=sealed, for_s=0, **more)


def test_every_format_but_the_plain_one_has_a_service_here() -> None:
    assert set(SERVICES) == set(FORMATS) - {"plain"}


@pytest.mark.django_db
def test_a_service_takes_that_an_alert_is_raised_and_that_it_is_over(name: str, service: Service) -> None:
    rule_of(name, service, name="billing is late")
    (raised,) = after(0, **{NASTY: 150})
    assert tell(raised) == "webhook notified", service.answered
    (over,) = after(60)
    assert tell(over) == "webhook notified", service.answered
    first, second = (json.dumps(body, ensure_ascii=False) for body in service.got)
    assert "firing" in first
    assert "150 messages" in first
    assert "100 messages" in first
    assert "billing is late" in first
    assert "resolve" in second
    kept = "".join(Delivery.objects.values_list("body", flat=True))
    assert not SERVICES[name][2] or SERVICES[name][2] not in kept


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("name", "wrong", "expected"),
    [
        ("slack", "address", "status 404: no_service"),
        ("teams", "address", "status 401"),
        ("wecom", "address", "errcode 93000: invalid webhook url"),
        ("dingtalk", "address", "errcode 300005: token is not exist"),
        ("dingtalk", "secret", "errcode 310000: sign not match"),
        ("feishu", "secret", "code 19021: sign match fail"),
        ("pagerduty", "secret", "status 400"),
    ],
)
def test_a_service_that_refuses_is_a_failure_whatever_the_status(
    name: str, service: Service, wrong: str, expected: str
) -> None:
    made = rule_of(name, service)
    if wrong == "secret":
        made.webhook_secret = sealed_secret.seal("another")
    else:
        made.webhook = service.origin + SERVICES[name][3]
    made.save()
    (raised,) = after(0, mail=150)
    said = tell(raised)
    assert said.startswith(f"webhook failed: {expected}"), service.answered
    assert "retry at" in said


@pytest.mark.django_db
@pytest.mark.parametrize("said", [b"", b"<html>maintenance</html>", b"[]", b'{"errcode":true}', b'{"errcode":"0"}'])
@pytest.mark.parametrize("name", ["dingtalk", "wecom", "feishu", "pagerduty", "slack"])
def test_an_answer_that_says_nothing_is_a_failure(name: str, said: bytes, settings: Any) -> None:
    with running(lambda _path, _body: (200, said)) as service:
        settings.ALERT_ORIGINS, settings.CHECKBACK_NETWORKS = [service.origin], ["127.0.0.0/8"]
        rule_of(name, service)
        (raised,) = after(0, mail=150)
        assert "webhook failed" in tell(raised)


@pytest.mark.django_db
def test_teams_says_within_status_200_that_it_failed(settings: Any) -> None:
    told = b"Webhook message delivery failed with error: Microsoft Teams endpoint returned HTTP error 429"
    with running(lambda _path, _body: (200, told)) as service:
        settings.ALERT_ORIGINS, settings.CHECKBACK_NETWORKS = [service.origin], ["127.0.0.0/8"]
        rule_of("teams", service)
        (raised,) = after(0, mail=150)
        assert "HTTP error 429" in tell(raised)


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["pagerduty"])
def test_an_incident_is_resolved_under_the_key_that_triggered_it(name: str, service: Service) -> None:
    rule_of(name, service)
    both = after(0, mail=150, bills=150)
    for news in (*both, *after(60)):
        tell(news)
    events = [(body["event_action"], body["dedup_key"]) for body in service.got]
    keys_of = {action: {key for done, key in events if done == action} for action in ("trigger", "resolve")}
    assert keys_of["trigger"] == keys_of["resolve"]
    assert len(keys_of["trigger"]) == 2


def test_a_long_text_is_cut_to_the_bytes_that_a_service_takes() -> None:
    assert cut("费" * 10, 30) == "费" * 10
    assert cut("费" * 11, 30) == "费" * 9 + "…"
    assert cut("a费费", 5) == "a…"


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["dingtalk"])
def test_a_secret_that_no_key_opens_is_said_and_nothing_is_sent(name: str, service: Service, settings: Any) -> None:
    rule_of(name, service)
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "another", []
    (raised,) = after(0, mail=150)
    assert "the secret cannot be read, as SECRET_KEY is another one: enter it again" in tell(raised)
    assert service.got == []


def form_of(name: str, service: Service, **more: str) -> dict[str, str]:
    _answer, path, secret, _unknown = SERVICES[name]
    return {
        "name": "n", "what": "backlog", "subject": "bil*", "limit": "100", "for_s": "60", "emails": "", "is_on": "yes",
        "webhook": service.origin + path, "webhook_format": name, "webhook_secret": secret, **more,
    }  # fmt: skip


def done(browser: Client, address: str, form: dict[str, str]) -> None:
    answer = browser.post(address, form)
    assert answer.status_code == 303, words(answer)
    answer = browser.post(answer.headers["Location"] + "confirm/", {"reason": "because"})
    assert answer.status_code == 303, words(answer)
    assert Operation.objects.latest("created_at").results, Operation.objects.latest("created_at").error


def test_what_a_service_gave_is_never_shown_again(
    name: str, service: Service, operator: Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    done(operator, "/alerts/rules/new/", form_of(name, service))
    made, (_answer, path, secret, _unknown) = AlertRule.objects.get(), SERVICES[name]
    own = f"/alerts/rules/{made.pk}/"
    assert sealed_secret.unsealed(made) == secret
    operation = f"/operations/{Operation.objects.get().pk}/"
    operator.post(f"{own}test/")
    hidden = [each for each in (secret, "" if name == "pagerduty" else path) if each]
    for page in (
        own,
        operation,
        "/alerts/",
        "/audit/",
        "/audit/data.json",
        f"/admin/console/alertrule/{made.pk}/change/",
    ):
        answer = operator.get(page)
        assert answer.status_code == 200, page
        body = b"".join(answer.streaming_content) if answer.streaming else answer.content
        for each in hidden:
            assert each not in body.decode(), (page, each)
            assert made.webhook_secret not in body.decode() or not secret
    kept = json.dumps([*Operation.objects.values_list("parameters", flat=True)])
    assert secret not in kept or not secret
    assert secret not in caplog.text or not secret
    # what is not typed again stays
    form = {**form_of(name, service), "webhook": operator.get(own).context["fields"]["webhook"].value, "limit": "7"}
    done(operator, own, {**form, "webhook_secret": ""})
    now = AlertRule.objects.get()
    assert (now.limit, now.webhook, now.webhook_secret) == (7, made.webhook, made.webhook_secret)


@pytest.mark.parametrize("name", ["feishu", "pagerduty"])
def test_a_secret_goes_with_its_address_and_service(name: str, service: Service, operator: Client) -> None:
    made = rule_of(name, service)
    form = form_of(name, service, webhook=f"{service.origin}/elsewhere", webhook_secret="")
    answer = operator.post(f"/alerts/rules/{made.pk}/", form)
    if name == "pagerduty":
        assert (answer.status_code, "Enter the routing key" in words(answer)) == (422, True)
    else:
        assert answer.status_code == 303
        assert Operation.objects.get().parameters["settings"]["webhook_secret"] == ""


@pytest.mark.parametrize(
    ("more", "field", "said"),
    [
        ({"webhook": ""}, "webhook", "Enter the address, such as https://hooks.slack.com/services/"),
        ({"webhook_secret": "x"}, "webhook_secret", "This service has no secret to enter."),
        ({"webhook_format": "fax"}, "webhook_format", "Choose a service"),
        ({"webhook_format": "pagerduty"}, "webhook_secret", "Enter the routing key of the integration."),
        ({"webhook": "https://elsewhere.example/x"}, "webhook", "operators list origins in ESCAPEMENT_ALERT_ORIGINS"),
    ],
)
@pytest.mark.parametrize("name", ["slack"])
def test_what_does_not_go_together_stands_beside_its_field(
    name: str, service: Service, operator: Client, more: dict[str, str], field: str, said: str
) -> None:
    answer = operator.post("/alerts/rules/new/", form_of(name, service, **more))
    assert (answer.status_code, said in words(answer)) == (422, True), words(answer)
    assert f'id="wrong-{field}"' in answer.content.decode()


def test_a_test_is_marked_sent_once_shown_and_kept(name: str, service: Service, operator: Client) -> None:
    made = rule_of(name, service, name="billing is late", emails="anna@example.org", is_on=False)
    page = words(operator.post(f"/alerts/rules/{made.pk}/test/"))
    (body,) = service.got
    assert "TEST" in json.dumps(body)
    assert "nothing is wrong" in json.dumps(body)
    (status, said) = service.answered[0]
    assert f"{FORMATS[name].title} delivered {status}" in page
    assert said.decode()[:40].split("{")[0] in page
    assert "mail delivered" in page
    assert "TEST" in mail.outbox[0].subject
    entry = AuditEntry.objects.get(kind="alerts.test")
    assert (entry.what, entry.actor, entry.result["number"]) == ("done", "operator", made.pk)
    assert [(each["channel"], each["error"]) for each in entry.result["channels"]] == [("mail", ""), (name, "")]
    assert Alert.objects.count() == Delivery.objects.count() == 0
    assert "billing is late" in words(operator.get("/audit/"))


def test_a_test_that_fails_shows_status_and_answer_without_the_secret(webhook: Webhook, operator: Client) -> None:
    with running(lambda _path, body: (500, f"you sent {body['routing_key']}".encode())) as service:
        webhook_origin = webhook.origin
        made = rule(
            webhook=f"{webhook_origin}/x", webhook_format="pagerduty", webhook_secret=sealed_secret.seal("r" * 32)
        )
        made.webhook = f"{service.origin}/x"
        made.save()
        # not listed any more: it is not asked
        page = words(operator.post(f"/alerts/rules/{made.pk}/test/"))
        assert "is not allowed; operators list origins" in page
        assert service.got == []
    entry = AuditEntry.objects.get(kind="alerts.test")
    assert (entry.what, entry.result["channels"][0]["status"]) == ("failed", None)


@pytest.mark.django_db
def test_an_answer_that_repeats_the_secret_is_shown_without_it(operator: Client, settings: Any) -> None:
    with running(lambda _path, body: (500, f"you sent {body['routing_key']}".encode())) as service:
        settings.ALERT_ORIGINS, settings.CHECKBACK_NETWORKS = [service.origin], ["127.0.0.0/8"]
        made = rule_of("pagerduty", service)
        page = words(operator.post(f"/alerts/rules/{made.pk}/test/"))
        assert "failed status 500" in page
        assert "you sent •••" in page
        assert "rrrr" not in page
        assert "rrrr" not in json.dumps(AuditEntry.objects.get(kind="alerts.test").result)


@pytest.mark.django_db
def test_only_who_changes_rules_tests_them_and_a_refusal_is_kept(webhook: Webhook) -> None:
    made = rule(webhook=f"{webhook.origin}/alerts")
    for role in ("viewer", "operator"):
        assert browser_of(person(f"{role}-1", role=role)).post(f"/alerts/rules/{made.pk}/test/").status_code == 403
    assert webhook.got == []
    denied = AuditEntry.objects.filter(kind="alerts.test", what="denied").values_list("actor", flat=True)
    assert sorted(denied) == ["operator-1", "viewer-1"]


@pytest.mark.django_db
def test_a_secret_is_sealed_before_anything_keeps_it() -> None:
    values, faults = rule_fields.read({"webhook_secret": "SEC-1"})
    assert faults == {}
    assert keys.unseal("alert webhook", str(values["webhook_secret"])) == "SEC-1"
    assert rule_fields.read(values)[0] == values
