"""The page of an operation that is over leads to what it made, and has no columns that say nothing."""

from __future__ import annotations

import re
from typing import Any

import pytest
import redis
from django.contrib.auth import get_user_model
from django.test import Client

from console.features.alerts.models import AlertRule
from console.operations import workflow
from console.operations.actor import PERMISSIONS, Actor
from console.operations.models import Operation
from console.operations.shown_once import shown_once
from console.site.clock import now_ms
from tests.console.rest.test_shown_calls import RULE
from tests.console.stage import Stage
from tests.console.transactions.test_transactions import begin, transactor

HOUR_MS = 3_600_000


def done(kind: str, **parameters: Any) -> Operation:
    who = get_user_model().objects.filter(is_superuser=True).get()
    actor = Actor.of(who) if who.has_perm("auth.add_user") else Actor("x", frozenset(PERMISSIONS))
    with shown_once():
        row = workflow.start(kind, parameters, actor, reason="because")
    assert row.state == "done", row.error
    return row


def main_of(browser: Client, row: Operation) -> str:
    page = browser.get(f"/operations/{row.pk}/").content.decode()
    return page[page.index("<main") : page.index("</main>")]


def led_to(browser: Client, row: Operation) -> str:
    """Where the button at the top of the page leads."""
    found = re.search(r'class="btn go" href="([^"]*)"', main_of(browser, row))
    assert found is not None
    return found[1]


def heads(browser: Client, row: Operation) -> list[str]:
    """The columns of the items."""
    page = main_of(browser, row)
    table = page[page.index('id="items"') :]
    return re.findall(r'<th scope="col"[^>]*>(.*?)</th>', table[: table.index("</thead>")], re.DOTALL)


@pytest.mark.parametrize(
    ("kind", "parameters", "address"),
    [
        ("topics.create", {"name": "bills", "settings": {}}, "/topics/bills/"),
        ("topics.change", {"name": "orders", "settings": {"write_queues": 3}}, "/topics/orders/"),
        ("groups.create", {"name": "mail", "settings": {}}, "/groups/mail/"),
        ("people.add_role", {"role": "shop", "permissions": ["console.view_console"], "prefixes": []}, "/people/"),
        ("tokens.make", {"name": "n", "publish": ["orders"], "read": [], "access_user": "", "days": 30}, "/tokens/"),
    ],
)
def test_it_leads_to_what_was_made(
    stage: Stage, operator: Client, kind: str, parameters: dict[str, Any], address: str
) -> None:
    """The page of a topic that was created did not lead to it, and had columns Due and Now without anything in them."""
    row = done(kind, **parameters)
    stage.mirror.run_once()
    assert led_to(operator, row) == address
    assert operator.get(address).status_code == 200
    assert heads(operator, row) == ["#", "Key", "Result", "Now"]


def test_a_user_and_a_rule_have_pages_while_they_are_there(stage: Stage, operator: Client) -> None:
    added, rule = done("people.add", name="ann", roles=[]), done("alerts.create", settings={**RULE, "webhook": ""})
    ann = get_user_model().objects.get(username="ann")
    assert led_to(operator, added) == f"/people/{ann.pk}/"
    assert led_to(operator, rule) == f"/alerts/rules/{AlertRule.objects.get().pk}/"
    assert operator.get(led_to(operator, rule)).status_code == 200
    done("alerts.delete", rule=AlertRule.objects.get().pk)
    assert "btn go" not in main_of(operator, rule)


def test_what_is_gone_has_no_page(stage: Stage, operator: Client) -> None:
    done("groups.create", name="mail", settings={})
    row = done("groups.delete", name="mail")
    assert "btn go" not in main_of(operator, row)
    assert heads(operator, row) == ["#", "Key", "Result"]


def test_timers_and_messages_lead_to_their_pages(stage: Stage, operator: Client) -> None:
    for order in ("a", "b"):
        stage.producer.send("orders", "x", keys=[order], deliver_at_ms=now_ms() + HOUR_MS)
    first, second = stage.admin.timers(0, 2**62).items
    cancelled = done("timers.cancel", targets=[{"position": first.position}])
    assert led_to(operator, cancelled) == f"/timers/{first.position}/"
    assert heads(operator, cancelled)[:6] == ["#", "Topic", "Key", "Due", "Result", "Now"]
    delivered = done("timers.deliver_now", targets=[{"position": second.position}])
    stage.wait_for(lambda: stage.admin.messages_by_key("orders", "b"))
    assert operator.get(led_to(operator, delivered).replace("&amp;", "&")).status_code == 200
    (message,) = stage.admin.messages_by_key("orders", "b")
    again = done("messages.resend", message_id=message.offset_message_id, topic="orders", group="")
    copy = stage.admin.messages_by_key("orders", "b")[0]
    assert led_to(operator, again) == f"/messages/{copy.offset_message_id}/"
    with transactor(stage) as payers:
        begin(payers, "paid")
        (half,) = stage.admin.transactions("open").items
        row = done("transactions.commit", targets=[{"offset": half.offset, "position": half.position}])
    assert led_to(operator, row) == f"/transactions/{half.position}/"


def test_a_value_that_was_offered_leads_to_its_queue(stage: Stage, operator: Client, server: redis.Redis) -> None:
    row = done("redisson.offer", queue="q", value="x", codec="StringCodec", delay_ms=HOUR_MS)
    assert row.preview["delay_ms"] == HOUR_MS
    page = main_of(operator, row)
    assert operator.get(led_to(operator, row)).status_code == 200
    assert "after it is sent" in page
    assert heads(operator, row) == ["#", "Topic", "Key", "Due", "Result", "Now"]
