"""Alert rules and silences by REST: looked at, previewed, made, changed, deleted; who may, and what is refused."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from django.utils import timezone

from console.features.alerts import rule_fields
from console.features.alerts.models import AlertRule, Silence
from console.features.alerts.rest import NewRuleSettings, RuleSettings
from console.operations.models import AuditEntry
from console.rest.operations import in_thread
from console.security import tokens as security_tokens
from console.site.broker import hang_up
from tests.console.alerts.services import ROUTING_KEY, pagerduty, running

RULES, SILENCES = "/api/v1/alert-rules", "/api/v1/alert-silences"
HOOK = "https://hooks.example/services/secret-part"
NEW = {"settings": {"what": "backlog", "limit": 100, "emails": ["a@b.example"], "webhook": HOOK}, "reason": "new"}


@pytest.fixture
def token(transactional_db: None, settings: Any) -> str:
    """May change the settings of everything."""
    settings.ALERT_ORIGINS = ["https://hooks.example"]
    return security_tokens.create("test", security_tokens.scope_rows([], [], settings=["*"]))[1]


def test_the_settings_are_those_of_the_console_s_forms() -> None:
    names = set(rule_fields.DEFAULTS)
    assert set(RuleSettings.__struct_fields__) == set(NewRuleSettings.__struct_fields__) == names


async def test_a_rule_is_previewed_made_changed_silenced_and_deleted(api: httpx.AsyncClient) -> None:
    told = (await api.post(RULES, json=NEW | {"preview": True})).json()
    assert (told["kind"], told["preview"]["count"], "secret-part" in str(told)) == ("alerts.create", 1, False)
    made = await api.post(RULES, json=NEW)
    assert (made.status_code, made.json()["results"]) == (202, {"made": 1}), made.text
    (row,) = (await api.get(RULES)).json()["rules"]
    assert row["settings"] == {
        "name": "", "what": "backlog", "subject": "*", "limit": 100, "for_s": 60, "emails": ["a@b.example"],
        "webhook": "https://hooks.example/…", "webhook_format": "plain", "is_on": True,
    }  # fmt: skip
    assert row["has_secret"] is False
    own = f"{RULES}/{row['rule']}"
    off = {"settings": {"is_on": False}, "expected": {"limit": 100}, "reason": "noise"}
    assert (await api.request("PATCH", own, json=off)).json()["results"] == {"changed": 1}
    assert (await api.request("PATCH", own, json=off)).status_code == 200
    assert (await api.get(own)).json()["settings"]["is_on"] is False
    quiet = {"rule": row["rule"], "subject": "bil*", "until": "2030-01-01T00:00:00Z", "reason": "x"}
    assert (await api.post(SILENCES, json=quiet)).status_code == 422
    quiet["until"] = await in_thread(lambda: int(timezone.now().timestamp() * 1000) + 3_600_000)
    assert (await api.post(SILENCES, json=quiet)).json()["results"] == {"silenced": 1}
    (held,) = (await api.get(SILENCES)).json()["silences"]
    assert (held["rule"], held["subject"], held["created_by"]) == (row["rule"], "bil*", "token test")
    assert (await api.delete(f"{SILENCES}/{held['silence']}?reason=over")).json()["results"] == {"silence_ended": 1}
    assert (await api.delete(f"{SILENCES}/{held['silence']}?reason=over")).json()["code"] == "silence_unknown"
    assert (await api.delete(f"{own}?preview=true")).json()["preview"]["lost_alerts"] == 0
    assert (await api.delete(f"{own}?reason=over")).json()["results"] == {"deleted": 1}
    assert (await api.get(own)).json()["code"] == "alert_rule_unknown"
    kinds = await in_thread(lambda: list(AuditEntry.objects.filter(what="finished").values_list("kind", flat=True)))
    assert kinds[::-1] == [f"alerts.{verb}" for verb in ("create", "change", "silence", "end_silence", "delete")]
    assert "secret-part" not in await in_thread(lambda: str(Silence.objects.all()))
    hang_up()


async def test_the_channels_of_a_rule_are_tested_and_a_secret_is_never_answered(
    api: httpx.AsyncClient, settings: Any
) -> None:
    with running(pagerduty) as service:
        settings.ALERT_ORIGINS, settings.CHECKBACK_NETWORKS = [service.origin], ["127.0.0.0/8"]
        of_service = {"webhook": f"{service.origin}/v2/enqueue", "webhook_format": "pagerduty"}
        wrong = await api.post(RULES, json=NEW | {"settings": {"what": "still", "limit": 1, **of_service}})
        assert (wrong.status_code, wrong.json()["field"]) == (422, "webhook_secret")
        made = {"what": "still", "limit": 1, **of_service, "webhook_secret": ROUTING_KEY}
        answers = [await api.post(RULES, json=NEW | {"settings": made})]
        answers.append(await api.get(RULES))
        (row,) = answers[1].json()["rules"]
        assert (row["has_secret"], "webhook_secret" in row["settings"]) == (True, False)
        own = f"{RULES}/{row['rule']}"
        answers.append(await api.post(f"{own}/test"))
        (tried,) = answers[-1].json()["channels"]
        assert (tried["channel"], tried["is_delivered"], tried["status"]) == ("pagerduty", True, 202)
        assert "Event processed" in tried["answer"]
        same = {"settings": {"webhook_secret": "another"}, "reason": "rotated"}
        answers.append(await api.request("PATCH", own, json=same))
        assert answers[-1].json()["results"] == {"changed": 1}
        answers.append(await api.post(f"{own}/test"))
        (tried,) = answers[-1].json()["channels"]
        assert (tried["is_delivered"], tried["status"]) == (False, 400)
        assert all(ROUTING_KEY not in each.text for each in answers)
        assert (await api.post(f"{RULES}/987654/test")).json()["code"] == "alert_rule_unknown"
    hang_up()


@pytest.mark.parametrize(
    ("name", "value", "field"),
    [("webhook", "https://elsewhere.example/", "webhook"), ("emails", ["anna"], "emails"), ("limit", 1e300, "limit"),
     ("subject", "a\nb", "subject")],
)  # fmt: skip
async def test_what_is_wrong_is_named(api: httpx.AsyncClient, name: str, value: Any, field: str) -> None:
    answer = await api.post(RULES, json=NEW | {"settings": {"what": "still", "limit": 1, name: value}})
    assert (answer.status_code, answer.json()["field"]) == (422, field)
    assert await in_thread(AlertRule.objects.count) == 0


async def test_a_token_for_some_topics_has_no_part_in_it(api: httpx.AsyncClient) -> None:
    some = await in_thread(
        lambda: security_tokens.create("some", security_tokens.scope_rows(["*"], ["*"], settings=["order"]))
    )
    api.headers["authorization"] = f"Bearer {some[1]}"
    for answer in (
        await api.post(f"{RULES}/1/test"),
        await api.get(RULES), await api.post(RULES, json=NEW), await api.get(f"{RULES}/1"), await api.get(SILENCES),
        await api.delete(f"{RULES}/1?reason=x"), await api.delete(f"{SILENCES}/1?reason=x"),
        await api.request("PATCH", f"{RULES}/1", json={"settings": {}, "reason": "x"}),
        await api.post(SILENCES, json={"until": 5, "reason": "x"}),
    ):  # fmt: skip
        assert (answer.status_code, answer.json()["code"]) == (403, "scope_missing")
