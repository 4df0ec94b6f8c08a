"""Bodies and properties are masked by rules wherever they are shown; who may lifts it, and that is kept."""

from __future__ import annotations

import time
from typing import Any

import pytest
import redis
from django.core.exceptions import ValidationError
from django.test import Client

from broker.redisson import DelayedQueue
from console.operations import workflow
from console.operations.actor import Actor
from console.operations.models import AuditEntry
from console.security.masking import Masks
from console.security.models import MaskRule
from tests.console.delayed_stage import MINUTE, words
from tests.console.people import browser_of, person
from tests.console.stage import Stage

SECRET, CARD, WHO = "4111-secret-body", "card-4111-secret", "anna-secret-key"
WHY = "holds card numbers"


@pytest.fixture
def masked(stage: Stage, server: redis.Redis) -> dict[str, str]:
    """Messages of every kind with secrets, rules that mask them, and the ids of some."""
    more: dict[str, Any] = {"keys": [WHO], "properties": {"card": CARD}}
    plain = stage.producer.send("orders", SECRET, queue_id=0, **more)
    stage.producer.send("orders", SECRET, delay_level=16, **more)
    due_ms = time.time_ns() // 1_000_000 + 3_600_000
    stage.producer.send("orders", SECRET, schedule_key=WHO, deliver_at_ms=due_ms, **more)
    stage.admin.create_group("billing")
    stage.admin.send_back(
        "billing", stage.admin.message_by_offset_id(plain.offset_message_id), delay_level=-1, max_reconsume_times=0
    )
    DelayedQueue("orders", server).offer(SECRET, delay=MINUTE)
    stage.mirror.run_once()
    stage.wait_for(lambda: stage.admin.timers(0, 2**62).items)
    MaskRule.objects.create(prefix="ord", fields="body\ncard, KEYS\nESC_SCHEDULE_KEY", why=WHY)
    timer = stage.admin.timers(0, 2**62).items[0]
    return {"plain": plain.offset_message_id, "timer": str(timer.position)}


def test_no_page_shows_what_a_rule_masks(masked: dict[str, str], operator: Client, actor: Actor) -> None:
    draft = workflow.draft("timers.cancel", {"filter": {"topic": "orders"}}, actor)
    for path in (
        f"/messages/{masked['plain']}/", "/topics/orders/0/", "/topics/orders/tail/", "/schedule/16/", "/timers/list/",
        "/timers/", f"/timers/{masked['timer']}/", "/dead-letters/of/billing/", "/redisson/queue/?name=orders",
        "/messages/?topic=orders", "/topics/%25DLQ%25billing/0/", f"/operations/{draft.pk}/",
    ):  # fmt: skip
        page = operator.get(path)
        assert page.status_code == 200, path
        shown = words(page.content.decode())
        assert "secret" not in shown.replace("Secret", ""), path
        assert WHY in shown or path == "/topics/orders/tail/", path


def test_the_bytes_and_the_value_asked_for_are_refused(masked: dict[str, str], operator: Client) -> None:
    assert operator.get(f"/messages/{masked['plain']}/body").status_code == 403
    refused = operator.get(f"/messages/?topic=orders&property=card={CARD}")
    assert refused.status_code == 403
    assert WHY in refused.content.decode()
    assert operator.get("/messages/?topic=orders&property=other=1").status_code == 200


def test_who_may_sees_it_for_a_reason_that_is_kept(masked: dict[str, str], stage: Stage) -> None:
    path = f"/messages/{masked['plain']}/unmask/"
    viewer, boss = browser_of(person("viewer")), browser_of(person("boss", "unmask"))
    assert viewer.post(path, {"reason": "curious"}).status_code == 403
    assert "console.unmask" in viewer.get(f"/messages/{masked['plain']}/").content.decode()
    assert boss.post(path, {"reason": " "}).status_code == 422
    assert not AuditEntry.objects.exists()
    seen = boss.post(path, {"reason": "a complaint of the customer"})
    assert seen.headers["Cache-Control"] == "no-store"
    assert all(text in seen.content.decode() for text in (SECRET, CARD, WHO))
    assert boss.post(path, {"reason": "again", "what": "body"}).content == SECRET.encode()
    assert SECRET not in boss.get(f"/messages/{masked['plain']}/").content.decode()
    entries = AuditEntry.objects.order_by("pk").values_list("actor", "kind", "reason", "result__what")
    assert list(entries) == [
        ("boss", "messages.unmask", "a complaint of the customer", "page"),
        ("boss", "messages.unmask", "again", "body"),
    ]  # fmt: skip
    assert masked["plain"] in browser_of(person("anna")).get("/audit/").content.decode()


def test_topics_of_several_have_every_rule(db: None) -> None:
    rules = Masks((("pay", frozenset({"body"}), "a"), ("", frozenset({"card"}), "b")))
    assert set(rules.of("orders")) == {"card"}
    for topic in (
        "pay-1",
        "%DLQ%billing",
        "%RETRY%billing",
        "SCHEDULE_TOPIC_XXXX",
        "rmq_sys_wheel_timer",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "",
        None,
    ):
        assert set(rules.of(topic)) == {"body", "card"}, topic
    assert Masks().of("pay-1") == {}


def test_a_rule_masks_something(db: None) -> None:
    with pytest.raises(ValidationError):
        MaskRule(prefix="a", fields=" \n,", why="x").full_clean()
    assert MaskRule(fields="body, card\nKEYS").names == ["body", "card", "KEYS"]
