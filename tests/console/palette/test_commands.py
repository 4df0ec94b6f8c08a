"""The palette's commands: what a text asks for, in both languages, who may, and that a preview comes first."""

from __future__ import annotations

import time
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from broker.client import Decision, TransactionProducer, prepare
from console.operations.models import AuditEntry, Operation
from tests.console.dead_letters.test_dead_letters import bury
from tests.console.people import browser_of, person
from tests.console.security.test_limited import limited_person
from tests.console.stage import HOSTILE, Stage
from tests.console.ui.test_pages import tags_of

HOUR_MS = 3_600_000


@pytest.fixture
def shop(stage: Stage) -> Stage:
    """A group that has read, timers of two orders."""
    stage.producer.send("orders", "x", keys=["order-1"], queue_id=0)
    stage.consume()
    for order in ("order-7", "order-7", "order-8"):
        due_ms = time.time_ns() // 1_000_000 + HOUR_MS
        stage.producer.send("orders", "x", keys=[order], deliver_at_ms=due_ms)
    stage.mirror.run_once()
    return stage


def shown(browser: Client, text: str) -> list[str]:
    """The commands that the palette offers."""
    return [jump.command for jump in browser.get("/find/", {"q": text, "part": "1"}).context["jumps"] if jump.command]


def acted(browser: Client, text: str) -> Any:
    return browser.post("/find/act/", {"do": text})


def opened(browser: Client, key: str, **more: str) -> str:
    """Where a key leads."""
    return str(browser.get("/find/key/", {"q": key, **more}).headers["Location"])


@pytest.mark.parametrize("text", ["cancel order-7", "取消 order-7", "CANCEL  order-7"])
def test_a_command_leads_to_a_preview_and_no_further(shop: Stage, operator: Client, text: str) -> None:
    assert len(shown(operator, text)) == 1
    answer = acted(operator, f"{text} it was withdrawn")
    assert answer.status_code == 303
    row = Operation.objects.get()
    assert (row.kind, row.state, row.preview["count"]) == ("timers.cancel", "draft", 2)
    assert len(shop.admin.timers(0, 2**62).items) == 3
    page = operator.get(answer.headers["Location"]).content.decode()
    assert ">it was withdrawn</textarea>" in page
    assert AuditEntry.objects.count() == 0


def test_every_topic_of_a_group_is_a_command_of_its_own(shop: Stage, operator: Client) -> None:
    shop.admin.create_topic("bills", queues=1)
    shop.admin.move_group("billing", "bills", 0, 0)
    shop.mirror.run_once()
    both = ["move billing bills -1h", "move billing orders -1h"]
    assert shown(operator, "move billing -1h")[:2] == both
    assert shown(operator, "move billing bills -1h")[0] == both[0]
    assert shown(operator, "reset billing bills -1h")[0] == "reset billing bills -1h"
    assert acted(operator, "move billing orders -1h a bug was mended").status_code == 303
    assert Operation.objects.get().parameters["topic"] == "orders"
    assert acted(operator, "move billing orders yesterday").status_code == 422
    assert shown(operator, "move nobody -1h") == []
    assert acted(operator, "move nobody -1h").status_code == 404


def test_a_number_confirms_that_many_and_no_others(shop: Stage, operator: Client) -> None:
    for number in range(102):
        bury(shop, f"dead-{number}")
    shop.mirror.run_once()
    for said, stands in (("102", True), ("101", False), ("", False)):
        answer = acted(operator, f"resend {said} billing the bank is up")
        page = operator.get(answer.headers["Location"]).content.decode()
        typed = [at.get("value") for _tag, at in tags_of(page) if at.get("name") == "typed"]
        assert typed == ["102" if stands else ""]
        assert ">the bank is up</textarea>" in page
    assert len(shop.admin.messages_by_key("%RETRY%billing", "dead-1")) == 0


def test_transactions_are_named_by_their_key(stage: Stage, operator: Client) -> None:
    with TransactionProducer("payers", stage.broker.namesrv, check=lambda _: Decision.UNKNOWN) as producer:
        for _ in range(2):
            producer.send_half("orders", prepare("x", keys=["order-5"]))
    stage.mirror.run_once()
    half = stage.admin.transactions("open").items[-1]
    assert opened(operator, "order-5", of="transactions") == f"/transactions/{half.position}/"
    assert acted(operator, "rollback order-5 the customer went").status_code == 303
    assert Operation.objects.get().preview["count"] == 2
    assert acted(operator, "rollback order-6 the customer went").status_code == 422


def test_a_key_leads_to_the_one_thing_that_has_it(shop: Stage, operator: Client) -> None:
    assert opened(operator, "order-1").startswith("/messages/7F")
    assert opened(operator, "order-8") == f"/timers/{timer_of(shop, 'order-8')}/"
    assert opened(operator, "order-1", of="timers") == "/messages/?q=order-1"
    for text in ("", *HOSTILE):
        assert opened(operator, text).startswith("/messages/?q=")


def timer_of(stage: Stage, key: str) -> int:
    return next(each.position for each in stage.admin.timers(0, 2**62).items if key in each.keys)


@pytest.mark.parametrize("text", ["order-7", "sign", "new topic", "dead", "flights 2026"])
def test_nothing_is_offered_to_be_done_that_was_not_asked_for(shop: Stage, operator: Client, text: str) -> None:
    """Who sought "sign out" was offered to cancel the timers with the key "sign"."""
    options = operator.get("/find/", {"q": text, "part": "1"}).context["jumps"]
    assert options
    assert not [jump.label for jump in options if jump.command and jump.form == "find_act"]


def test_topics_of_tries_come_behind_the_group_that_was_meant(shop: Stage, operator: Client) -> None:
    bury(shop, "dead-1")
    shop.mirror.run_once()
    labels = [str(jump.label) for jump in operator.get("/find/", {"q": "billing", "part": "1"}).context["jumps"]]
    assert labels.index("billing") < min(labels.index(name) for name in ("%DLQ%billing", "%RETRY%billing"))


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_what_is_behind_ones_name_is_found_and_done(operator: Client, db: None, language: str) -> None:
    """On a telephone there was no other way out than a menu that was not there."""
    operator.cookies["django_language"] = language
    found = {text: operator.get("/find/", {"q": text}).context["jumps"] for text in ("password", "dark", "sign out")}
    assert "/account/password/" in [each.address for each in found["password"]]
    for text, form, leads in (("dark", "set_theme", "/"), ("sign out", "logout", "/login/")):
        option = next(each for each in found[text] if each.form == form)
        assert operator.post(reverse(form), {option.field: option.command}).headers["Location"].startswith(leads)
    assert operator.get("/topics/").status_code == 302


def test_who_may_not_is_offered_nothing_and_refused(shop: Stage) -> None:
    viewer = browser_of(person("viewer"))
    for text in ("cancel order-7", "resend billing", "move billing -1h", "commit order-1"):
        assert shown(viewer, text) == []
        assert acted(viewer, text).status_code == 403
    assert list(AuditEntry.objects.values_list("what", flat=True)) == ["denied"] * 4
    anna = browser_of(limited_person("anna", "other"))
    for text in ("resend billing", "move billing -1h"):
        assert shown(anna, text) == []
        assert acted(anna, text).status_code == 404
    assert opened(anna, "order-8") == "/messages/?q=order-8"
    assert acted(anna, "cancel order-8").status_code == 403
    assert Operation.objects.count() == 0


def test_why_a_message_waits_is_told_to_who_sees_the_group(shop: Stage, operator: Client) -> None:
    shop.producer.send("orders", "x", keys=["order-2"], queue_id=0)
    shop.mirror.run_once()
    page = operator.get(opened(operator, "order-2")).content.decode()
    assert "Consumption by group" in page
    assert "no consumer of the group is connected" in page
    assert "received</span>" in operator.get(opened(operator, "order-1")).content.decode()


def offered(browser: Client, text: str) -> dict[str, str]:
    """What the palette offers: label, and where it leads or what it does."""
    jumps = browser.get("/find/", {"q": text, "part": "1"}).context["jumps"]
    return {str(jump.label): jump.address or jump.command for jump in jumps}


ACTS = {
    "create topic": ("创建主题", "Create a topic", "/topics/#create"),
    "new group": ("新建消费组", "Create a consumer group", "/groups/#create"),
    "create user": ("创建用户", "Create a user", "/people/#new"),
    "add role": ("创建角色", "Create a role", "/people/#new-role"),
    "create token": ("创建令牌", "Create a token", "/tokens/#new"),
    "new alert rule": ("新建告警规则", "Create an alert rule", "/alerts/rules/new/"),
    "pause all timers": ("暂停所有定时", "Pause all timers", "pause timers"),
    "reset offsets": ("重置位点", "Reset offsets of a group", "/groups/"),
    "send a message": ("发送消息", "Send a message to orders", "/topics/orders/send/"),
}


@pytest.mark.parametrize("text", ACTS)
def test_acts_are_found_by_their_names_in_both_languages(shop: Stage, operator: Client, text: str) -> None:
    chinese, label, leads = ACTS[text]
    assert offered(operator, text)[label] == leads
    operator.cookies["django_language"] = "zh-hans"
    for said in (chinese, text):
        assert leads in offered(operator, said).values(), said


def test_forms_that_acts_lead_to_are_on_their_pages(shop: Stage, operator: Client) -> None:
    for _chinese, _label, leads in ACTS.values():
        path, _, place = leads.partition("#")
        if place:
            assert f'id="{place}"' in operator.get(path).content.decode(), leads


def test_who_may_not_is_offered_no_act(shop: Stage) -> None:
    viewer = browser_of(person("viewer"))
    limited = browser_of(limited_person("anna", "ord"))
    for text, (_chinese, label, _leads) in ACTS.items():
        assert label not in offered(viewer, text), text
    assert "Pause all timers" not in offered(limited, "pause all timers")
    assert "Send a message to orders" in offered(limited, "send a message")


def test_pausing_is_a_command_that_leads_to_its_preview(shop: Stage, operator: Client) -> None:
    assert list(offered(operator, "pause timers a fire")).count("Pause all timers: a fire") == 1
    answer = acted(operator, "pause timers a fire")
    assert answer.status_code == 303
    assert (Operation.objects.get().kind, Operation.objects.get().state) == ("timers.pause", "draft")
    assert acted(operator, "resume timers").status_code == 303


def test_a_key_of_two_letters_stands_before_the_names_with_them(shop: Stage, operator: Client) -> None:
    shop.producer.send("orders", "x", keys=["or"], queue_id=0)
    labels = list(offered(operator, "or"))
    assert labels.index("Key or id “or”") < labels.index("orders")
    assert opened(operator, "or").startswith("/messages/7F")
    labels = list(offered(operator, "ord"))
    assert labels.index("orders") < labels.index("Key or id “ord”")
