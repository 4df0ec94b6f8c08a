"""Rules of alerts in the console: previewed with what they would say, with a reason, in the audit, taken back."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from broker.mirror.models import Broker, ConsumerGroup, ConsumerOffset, MirrorState, Queue
from console.features.alerts import rule_fields, units
from console.features.alerts.models import Alert, AlertRule, Silence
from console.features.alerts.suggestions import SUGGESTIONS
from console.operations import workflow
from console.operations.actor import ADD_ALERT_RULE, PERMISSIONS, Actor
from console.operations.errors import InvalidParameter, NotAllowed, NotPossible, OutOfReach
from console.operations.models import AuditEntry, Operation
from console.security.topic_scope import VisibleTopics
from console.site.clock import now_ms
from tests.console.alerts.stage import rule
from tests.console.people import browser_of, person
from tests.console.ui.test_pages import words

ACTOR = Actor("anna", frozenset(PERMISSIONS))
NEW = "/alerts/rules/new/"
HOOK = "https://hooks.example/services/T0/secret-part"
FORM = {
    "name": "billing is late", "what": "backlog", "subject": "bil*", "limit": "100", "for_s": "60",
    "emails": "anna@example.org\r\nben@example.org", "webhook": HOOK, "is_on": "yes",
}  # fmt: skip


@pytest.fixture(autouse=True)
def groups(db: None, settings: Any) -> None:
    """Two groups that begin so, one above the limit."""
    settings.ALERT_ORIGINS, settings.ALERTS_INTERVAL_S = ["https://hooks.example"], 30
    (broker,) = Broker.mirror_writer.bulk_create([Broker(name=settings.BROKER_NAME)])
    # it stays fresh however long a test takes
    MirrorState.mirror_writer.bulk_create([MirrorState(broker=broker, as_of_ms=now_ms() + 3_600_000)])
    Queue.mirror_writer.bulk_create([Queue(broker=broker, topic="sales", queue_id=0, min_offset=0, max_offset=1_000)])
    lags = {"billing": 150, "bills": 7, "mail": 900}
    ConsumerGroup.mirror_writer.bulk_create(ConsumerGroup(broker=broker, name=name) for name in lags)
    ConsumerOffset.mirror_writer.bulk_create(
        ConsumerOffset(broker=broker, group=name, topic="sales", queue_id=0, offset=1_000 - lag)
        for name, lag in lags.items()
    )


def drafted(browser: Client, address: str, form: dict[str, str]) -> str:
    answer = browser.post(address, form)
    assert answer.status_code == 303, words(answer)
    return str(answer.headers["Location"])


def confirmed(browser: Client, address: str) -> Operation:
    answer = browser.post(address + "confirm/", {"reason": "because"})
    assert answer.status_code == 303, words(answer)
    row = Operation.objects.get(pk=address.split("/")[2])
    assert (row.state, row.error) == ("done", "")
    return row


def test_a_rule_is_made_when_it_was_seen_what_it_would_say(operator: Client) -> None:
    assert "Create rule…" in words(operator.get("/alerts/"))
    address = drafted(operator, NEW, FORM)
    assert AlertRule.objects.count() == 0
    page = words(operator.get(address))
    assert "These alerts would fire after 1 min above the threshold." in page
    assert "billing 150 messages above threshold bills 7 messages within threshold" in page
    assert "mail 900 messages" not in page
    assert "curl -X POST http://testserver/api/v1/alert-rules" in page
    row = confirmed(operator, address)
    made = AlertRule.objects.get()
    assert rule_fields.shown(made) == {
        "name": "billing is late", "what": "backlog", "subject": "bil*", "limit": 100, "for_s": 60,
        "emails": "anna@example.org\nben@example.org", "webhook": HOOK, "webhook_format": "plain", "webhook_secret": "",
        "is_on": True,
    }  # fmt: skip
    page = words(operator.get("/alerts/"))
    assert "billing is late lag of a group bil* 100 messages 1 min mail to 2 recipients, webhook enabled" in page
    kept = AuditEntry.objects.order_by("id").values_list("what", "kind", "reason", "actor")
    assert list(kept) == [(what, "alerts.create", "because", "operator") for what in ("confirmed", "finished")]
    confirmed(operator, drafted(operator, f"/operations/{row.pk}/undo/", {}))
    assert AlertRule.objects.count() == 0


def test_the_address_of_a_webhook_is_for_who_administers_rules(operator: Client) -> None:
    address = drafted(operator, NEW, FORM)
    confirmed(operator, address)
    viewer = browser_of(person("viewer"))
    for page in (address, "/alerts/", "/audit/", "/audit/data.csv", "/audit/data.json", "/operations/?as=json"):
        for browser in (viewer, operator):
            answer = browser.get(page)
            body = b"".join(answer.streaming_content) if answer.streaming else answer.content
            assert b"secret-part" not in body, page
    assert "https://hooks.example/…" in words(viewer.get(address))
    made = AlertRule.objects.get()
    assert viewer.get(f"/alerts/rules/{made.pk}/").status_code == 403
    page = operator.get(f"/alerts/rules/{made.pk}/").content.decode()
    assert HOOK in page
    assert "chk_" in page


def test_a_channel_that_cannot_be_used_is_told_before_it_is_tried(operator: Client, settings: Any) -> None:
    rule(name="told", webhook=HOOK, emails="anna@example.org")
    rule(name="quiet")
    mail = "No mail server is set, so mail goes to localhost:25"
    closed = "Webhooks are not allowed here."
    unlisted = "List its origin, https://hooks.example, in ESCAPEMENT_ALERT_ORIGINS"
    for address in (NEW, "/alerts/"):
        assert not [each for each in (mail, closed, unlisted) if each in words(operator.get(address))]
    settings.EMAIL_BACKEND, settings.MAIL_IS_SET = "django.core.mail.backends.smtp.EmailBackend", False
    settings.EMAIL_HOST, settings.EMAIL_PORT = "localhost", 25
    settings.ALERT_ORIGINS = ["https://other.example"]
    listed = words(operator.get("/alerts/"))
    assert listed.count(mail) == listed.count(unlisted) == 1
    assert "other.example" not in listed
    assert mail in words(operator.get(NEW))
    assert "Mail is not set up: set ESCAPEMENT_MAIL=host:port (docs/SETTINGS.md) and restart." in listed
    settings.ALERT_ORIGINS, settings.MAIL_IS_SET = [], True
    for address in (NEW, "/alerts/"):
        page = words(operator.get(address))
        assert closed in page
        assert mail not in page
        assert "Mail is set up." in page


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("what", "", "Choose a metric"), ("what", "moon", "Choose a metric"),
        ("limit", "", "A number from 0"), ("limit", "-1", "A number from 0"), ("limit", "nan", "A number from 0"),
        ("limit", "1e400", "A number from 0"), ("for_s", "1.5", "A length of time up to 7 days"),
        ("for_s", "9999999", "A length of time up to 7 days"), ("emails", "anna", "“anna” is not an e-mail address."),
        ("emails", " ".join(f"a{number}@example.org" for number in range(21)), "At most 20 addresses"),
        ("subject", "a\nb", "no line breaks"), ("name", "x" * 81, "At most 80 characters"),
        ("webhook", "hooks.example", "Write it as https://host/path"),
        ("webhook", "https://elsewhere.example/", "operators list origins in ESCAPEMENT_ALERT_ORIGINS"),
        ("webhook", "http://169.254.169.254/latest", "is not allowed"), ("is_on", "perhaps", "Yes or no."),
    ],
)  # fmt: skip
def test_what_is_wrong_stands_beside_its_field(operator: Client, name: str, text: str, said: str) -> None:
    answer = operator.post(NEW, {**FORM, name: text})
    assert answer.status_code == 422
    page = answer.content.decode()
    assert f'id="wrong-{name}"' in page
    assert page.count('aria-invalid="true"') == 1
    assert said in words(answer)
    assert "ben@example.org" in page or name == "emails"
    assert Operation.objects.count() == 0


@pytest.mark.parametrize(
    ("what", "limit", "read"),
    [
        ("lateness", "1 s", 1_000.0),
        ("half-age", "1.5 min", 90.0),
        ("half-age", "500 ms", 0.5),
        ("half-age", "5 minutes", 300.0),
        ("lateness", "80", 80.0),
        ("backlog", "10 k", 10_000.0),
        ("backlog", "10,000 messages", 10_000.0),
        ("disk-used", "85 %", 85.0),
        ("slave-behind", "2 GB", 2e9),
        ("slave-behind", "1.5MB", 1.5e6),
    ],
)
def test_a_limit_is_read_with_its_unit(what: str, limit: str, read: float) -> None:
    """ "1 s" was refused beside a label that ended in "ms"."""
    values, faults = rule_fields.read({"what": what, "limit": limit, "for_s": "2 min"})
    assert (values["limit"], values["for_s"], faults) == (read, 120, {})


@pytest.mark.parametrize(
    ("what", "limit"), [("backlog", "1 s"), ("disk-used", "2 GB"), ("lateness", "5 %"), ("slave-behind", "5 min")]
)
def test_a_unit_of_something_else_is_refused(what: str, limit: str) -> None:
    assert list(rule_fields.read({"what": what, "limit": limit})[1]) == ["limit"]


@pytest.mark.parametrize("what", AlertRule.What.values)
def test_what_a_form_shows_is_read_again_as_it_was(what: str) -> None:
    for value in (0, 0.25, 1, 60, 85, 90.5, 3_600, 7_201, 86_400, 1e6, 2e9, 123_456_789):
        text = units.as_text(what, value)
        # what is finer than a millisecond is rounded up, as everywhere
        read = units.read(what, text)
        assert read is not None
        assert read == value or read - value < 1, text


def test_a_limit_that_is_changed_alone_has_the_unit_of_its_metric(operator: Client) -> None:
    """ "5 min" was refused unless the metric was changed with it."""
    made = rule(what="still", limit=30)
    assert 'value="30 s"' in operator.get(f"/alerts/rules/{made.pk}/").content.decode()
    form = {"what": "still", "subject": "*", "limit": "5 min", "for_s": "1 min"}
    address = drafted(operator, f"/alerts/rules/{made.pk}/", form)
    assert "Threshold 30 s 5 min" in words(operator.get(address))
    confirmed(operator, address)
    assert AlertRule.objects.get().limit == 300
    again = operator.post(f"/alerts/rules/{made.pk}/", {**form, "what": "backlog"})
    assert (again.status_code, "A number from 0 with its unit, such as 10 k" in words(again)) == (422, True)


def test_seven_rules_are_suggested_each_a_form_that_is_filled_in(operator: Client) -> None:
    page = operator.get("/alerts/").content.decode()
    assert len(SUGGESTIONS) == page.count("?suggested=") == 7
    assert '<details class="suggestions" open>' in page
    for name, each in SUGGESTIONS.items():
        answer = operator.get(NEW, {"suggested": name})
        form = answer.context["fields"]
        assert f'value="{form["limit"].value}"' in answer.content.decode()
        assert str(each.why) in answer.content.decode()
        sent = {field: form[field].value for field in FORM}
        confirmed(operator, drafted(operator, NEW, sent))
        made = AlertRule.objects.get(what=each.what)
        assert (made.limit, made.for_s, made.name) == (each.limit, each.for_s, str(each.title))
    page = words(operator.get("/alerts/"))
    assert page.count("this metric has a rule") == 7
    assert '<details class="suggestions" open>' not in operator.get("/alerts/").content.decode()
    assert "?suggested=" not in browser_of(person("viewer")).get("/alerts/").content.decode()


def test_the_form_says_what_each_metric_is_of(operator: Client) -> None:
    """A rule on timers is of a broker; groups, queues and levels alone were named."""
    page = words(operator.get(NEW))
    help_ = page.partition("Subject")[2].partition("Threshold")[0]
    for each in (
        "a group",
        "a Redisson queue",
        "for timers, half messages, disk and reachability, of a broker",
        "slave",
    ):
        assert each in help_, each


def test_an_address_in_a_private_network_is_refused_though_it_is_listed(operator: Client, settings: Any) -> None:
    settings.ALERT_ORIGINS, settings.CHECKBACK_NETWORKS = ["http://10.0.0.7"], []
    answer = operator.post(NEW, {**FORM, "webhook": "http://10.0.0.7/alerts"})
    assert "ESCAPEMENT_CHECKBACK_NETWORKS does not list" in words(answer)
    settings.CHECKBACK_NETWORKS = ["10.0.0.0/24"]
    assert operator.post(NEW, {**FORM, "webhook": "http://10.0.0.7/alerts"}).status_code == 303


def test_a_rule_is_changed_switched_off_and_put_back(operator: Client) -> None:
    # its webhook was listed once: what is not changed is not looked at again
    made = rule(subject="bil*", limit=100, webhook="https://gone.example/x")
    own = f"/alerts/rules/{made.pk}/"
    assert "billing 150 messages above threshold" in words(operator.get(own))
    form = {"limit": "160", "for_s": "60", "webhook": "https://gone.example/x", "what": "backlog", "subject": "bil*"}
    address = drafted(operator, own, form)
    page = words(operator.get(address))
    assert "Threshold 100 messages 160 messages" in page
    assert "No alert would fire now." in page
    row = confirmed(operator, address)
    off = drafted(operator, "/operations/draft/", {"kind": "alerts.change", "rule": str(made.pk), "is_on": "no"})
    assert "The rule is disabled: no alert fires." in words(operator.get(off))
    confirmed(operator, off)
    made.refresh_from_db()
    assert (made.limit, made.is_on, made.webhook) == (160, False, "https://gone.example/x")
    confirmed(operator, drafted(operator, f"/operations/{row.pk}/undo/", {}))
    made.refresh_from_db()
    assert (made.limit, made.is_on) == (100, False)
    refused = operator.post(f"/operations/{row.pk}/undo/")
    assert (refused.status_code, "it was changed meanwhile" in words(refused)) == (422, True)
    again = drafted(operator, own, {"limit": "100"})
    assert "These settings already apply" in words(operator.get(again))


def test_a_deletion_says_what_is_lost_and_can_be_made_again(operator: Client) -> None:
    made = rule(subject="bil*")
    for number in range(3):
        Alert.objects.create(rule=made, subject=f"bill-{number}", value=1, highest=1, since=timezone.now())
    address = drafted(operator, "/operations/draft/", {"kind": "alerts.delete", "rule": str(made.pk)})
    assert "Alerts deleted with it 3" in words(operator.get(address))
    row = confirmed(operator, address)
    assert not AlertRule.objects.exists()
    assert "rule" in words(operator.get(address))
    confirmed(operator, drafted(operator, f"/operations/{row.pk}/undo/", {}))
    assert rule_fields.shown(AlertRule.objects.get()) == rule_fields.shown(made)


def test_silence_until_a_moment_and_its_end_are_kept_as_operations(operator: Client) -> None:
    made = rule(subject="bil*")
    Alert.objects.create(rule=made, subject="billing", value=1, highest=1, since=timezone.now())
    form = {"subject": "bil*", "rule": str(made.pk), "minutes": "30", "until": "+6 h", "reason": "the bank is down"}
    for name, text, said in (
        ("until", "tomorrow", "is not a time"), ("until", "-1 h", "must end in the future"),
        ("until", "+9000 h", "within a year"),
        ("reason", "", "Enter a reason"), ("subject", "a\x00b", "no line breaks"),
    ):  # fmt: skip
        answer = operator.post("/alerts/silence/", {**form, name: text})
        assert (answer.status_code, said in words(answer)) == (422, True), name
        assert f'id="wrong-{name}"' in answer.content.decode()
    assert operator.post("/alerts/silence/", form).status_code == 303
    silence = Silence.objects.get()
    assert (silence.rule_id, silence.reason, silence.actor) == (made.pk, "the bank is down", "operator")
    assert abs(silence.until - timezone.now() - timedelta(hours=6)) < timedelta(minutes=1)
    assert "only bil*" in words(operator.get("/alerts/"))
    form = {"kind": "alerts.end_silence", "silence": str(silence.pk)}
    address = drafted(operator, "/operations/draft/", form)
    assert "Firing now 1 silenced by this" in words(operator.get(address))
    confirmed(operator, address)
    silence.refresh_from_db()
    assert silence.until <= timezone.now()
    assert operator.post("/operations/draft/", form).status_code == 422
    assert set(AuditEntry.objects.values_list("kind", flat=True)) == {"alerts.silence", "alerts.end_silence"}


@pytest.mark.django_db
def test_a_rule_needs_the_permission_of_the_admin_and_the_refusal_is_kept() -> None:
    clerk = Actor("clerk", frozenset(PERMISSIONS) - {ADD_ALERT_RULE})
    with pytest.raises(NotAllowed):
        workflow.draft("alerts.create", {"settings": {"what": "backlog", "limit": 1}}, clerk)
    assert AuditEntry.objects.get().what == "denied"
    browser = browser_of(person("operator", role="operator"))
    assert "Create rule…" not in words(browser.get("/alerts/"))
    assert browser.get(NEW).status_code == browser.post(NEW, FORM).status_code == 403


@pytest.mark.django_db
def test_who_sees_some_topics_silences_what_is_theirs_and_makes_no_rules() -> None:
    queue, until_ms = rule(what="stuck-queue"), now_ms() + 60_000
    some = Actor("anna", frozenset(PERMISSIONS), visible=VisibleTopics(("orders",)))
    silence = {"rule": queue.pk, "subject": "orders-eu", "until_ms": until_ms}
    assert workflow.draft("alerts.silence", silence, some).kind == "alerts.silence"
    for kind, parameters in (
        ("alerts.silence", {**silence, "subject": "orders*"}), ("alerts.silence", {**silence, "subject": "seats"}),
        ("alerts.silence", {"subject": "billing", "until_ms": until_ms}), ("alerts.delete", {"rule": queue.pk}),
        ("alerts.create", {"settings": {"what": "backlog", "subject": "orders", "limit": 1}}),
    ):  # fmt: skip
        with pytest.raises(OutOfReach):
            workflow.draft(kind, parameters, some)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        ("alerts.create", {"settings": {"limit": 1}}), ("alerts.create", {"settings": ["limit"]}),
        ("alerts.create", {"settings": {"what": "still", "limit": True}}), ("alerts.delete", {"rule": True}),
        ("alerts.change", {"rule": 1, "settings": {"salt": "x"}}), ("alerts.delete", {}),
        ("alerts.silence", {"subject": "*", "until_ms": 5}), ("alerts.silence", {"subject": "*"}),
        ("alerts.end_silence", {"silence": -1}),
    ],
)  # fmt: skip
def test_parameters_are_checked_before_anything_is_done(kind: str, parameters: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        workflow.draft(kind, parameters, ACTOR)


@pytest.mark.django_db
def test_what_is_not_there_cannot_be_changed() -> None:
    for kind, parameters in (
        ("alerts.change", {"rule": 5, "settings": {"limit": 1}}), ("alerts.delete", {"rule": 5}),
        ("alerts.silence", {"rule": 5, "subject": "*", "until_ms": 2**52}), ("alerts.end_silence", {"silence": 5}),
    ):  # fmt: skip
        with pytest.raises(NotPossible):
            workflow.draft(kind, parameters, ACTOR)
