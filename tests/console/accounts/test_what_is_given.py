"""Roles and rights of tokens say what they give: on the forms, in the preview, and in a call that works."""

from __future__ import annotations

import asyncio
import re
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission
from django.db import connections
from django.test import Client

from broker.client import AsyncAdmin
from broker.mirror.models import Broker, ConsumerGroup, Topic
from broker.server.broker import BrokerService
from console.features.people.closed import permissions_of_all
from console.features.people.role_operations import PERMISSIONS
from console.features.people.role_words import _ACTS, _SEES
from console.features.people.token_operations import RIGHTS
from console.rest.rights import calls_with
from console.rest.routes import ROUTES
from console.security.gate import VIEW
from console.security.models import TopicPermission
from console.urls import BROKER_USERS, PEOPLE, TOKENS
from tests.console.accounts.test_people import draft, run
from tests.console.kept import hang_up
from tests.console.people import browser_of, person
from tests.console.rest.conftest import namesrv, service
from tests.console.rest.test_serving import serving
from tests.console.ui.test_pages import words

__all__ = ["namesrv", "service"]


@pytest.fixture
def boss(db: None) -> Client:
    """An administrator."""
    return browser_of(person("boss", role="administrator"))


def preview(browser: Client, kind: str, **fields: Any) -> str:
    """The words of the page of what is asked for."""
    return words(browser.get(draft(browser, kind, **fields).headers["Location"]))


def test_each_role_says_in_one_line_what_it_may(boss: Client) -> None:
    group = Group.objects.create(name="gates")
    for name in ("view_console", "steer_timers", "reset_offsets"):
        group.permissions.add(Permission.objects.get(codename=name))
    for pattern in ("flight-gate*", "a", "b", "c"):
        TopicPermission.objects.create(group=group, pattern=pattern)
    Group.objects.create(name="nothing").permissions.add(Permission.objects.get(codename="steer_timers"))
    page = words(boss.get("/people/"))
    for line in (
        "viewer Sees the pages, alerts, dashboards, audit log; changes nothing; topics: all.",
        "administrator Sees and does everything; topics: all.",
        "gates Sees the pages; acts on timers, offsets of groups; topics: a, b, c and 1 more.",
        "nothing Sees nothing by itself, it lacks console.view_console; topics: all.",
    ):
        assert line in page, line
    # the same where an account is changed
    number = person("clerk").pk
    assert "topics: a, b, c and 1 more." in words(boss.get(f"/people/{number}/"))


def test_no_permission_is_without_words() -> None:
    assert {*_SEES, *_ACTS, VIEW} == set(PERMISSIONS)


def test_a_user_is_created_and_not_added(boss: Client) -> None:
    page = preview(boss, "people.add", name="clerk", roles=["viewer"])
    assert "Create a user" in page
    assert "Add" not in page.partition("Create a user")[2].partition("Keyboard")[0]


def test_the_form_of_a_token_lists_the_calls_of_each_right(boss: Client) -> None:
    told = {right: calls_with(right) for right in RIGHTS}
    # every call that a token can make at all is told with some right
    assert {each.name for calls in told.values() for each in calls} == {route.name for route in ROUTES}
    names = {each.name for each in told["publish"]}
    assert {"messages_send_one", "timers_cancel", "transactions_commit", "redisson_remove"} <= names
    as_new = next(each for each in told["publish"] if each.name == "dead_letters_send_as_new")
    assert as_new.also == ("consume",)
    assert not [each for each in told["publish"] if each.name.startswith("dead_letters") and not each.also]
    assert all(each.needs_all for each in told["people"])
    page = words(boss.get("/tokens/"))
    assert f"{len(told['publish'])} calls of REST" in page
    assert "Resend dead letters as new messages, for every group with consume as well" in page
    shown = preview(boss, "tokens.make", name="shop", publish="orders", days="30")
    included = shown.partition("What each right includes")[2]
    assert "decide their half messages" in included
    assert "Roll back a half message" in included
    assert "List topics" not in included


def first_call(answer: Any) -> str:
    """The lines that the page of a new token shows."""
    part = answer.content.decode().partition("first-call-title")[2]
    found = re.search(r"<pre[^>]*>(.*?)</pre>", part, re.DOTALL)
    return unescape(found[1]) if found is not None else ""


@pytest.mark.parametrize(
    ("given", "call"),
    [
        ({"publish": "pay* orders"}, "POST http://testserver/api/v1/topics/orders/messages"),
        ({"publish": "pay*"}, "POST http://testserver/api/v1/topics/payhello/messages"),
        ({"publish": "*"}, "POST http://testserver/api/v1/topics/hello/messages"),
        ({"read": "orders"}, "GET http://testserver/api/v1/topics "),
        ({"people": "*"}, "GET http://testserver/api/v1/people "),
        ({"configure": "orders"}, ""),
        ({"unmask": "orders"}, ""),
    ],
)
def test_a_new_token_comes_with_a_call_that_it_allows(boss: Client, given: dict[str, str], call: str) -> None:
    answer = run(boss, "tokens.make", name="shop", days="30", **given)
    shown = first_call(answer)
    assert call in shown
    assert bool(shown) == bool(call)


@pytest.mark.django_db(transaction=True)
async def test_the_call_that_a_new_token_comes_with_sends(service: BrokerService, namesrv: str) -> None:
    def made(port: int) -> str:
        boss = browser_of(person("boss", role="administrator"))
        boss.defaults["HTTP_HOST"] = f"localhost:{port}"
        try:
            return first_call(run(boss, "tokens.make", name="shop", publish="orders", days="30"))
        finally:
            hang_up()
            connections.close_all()

    async with serving(namesrv) as port:
        lines = await asyncio.to_thread(made, port)
        shell = await asyncio.create_subprocess_exec("sh", "-c", lines, stdout=-1, stderr=-1)
        said, wrong = await shell.communicate()
        assert shell.returncode == 0, wrong.decode()
        assert '"topic":"orders"' in said.decode().replace(" ", ""), said.decode()
    async with AsyncAdmin(namesrv) as admin:
        stats = await admin.topic_stats("orders")
    assert sum(queue.max_offset - queue.min_offset for queue in stats.queues) == 1


def limited_role(*patterns: str) -> None:
    """A role of operators who see these topics only, and may administer users."""
    group = Group.objects.create(name="tenants")
    for name in ("view_console", "steer_timers", "pause_timers", "change_user"):
        group.permissions.add(Permission.objects.get(codename=name))
    for pattern in patterns:
        TopicPermission.objects.create(group=group, pattern=pattern)


def topics_there(*names: str) -> None:
    (broker,) = Broker.mirror_writer.bulk_create([Broker(name="broker-a", state="OK")])
    of_all = {"broker": broker, "read_queues": 4, "write_queues": 4, "permission": 6}
    Topic.mirror_writer.bulk_create([Topic(name=name, **of_all) for name in names])
    ConsumerGroup.mirror_writer.bulk_create([ConsumerGroup(broker=broker, name="billing")])


def test_the_preview_of_a_user_says_what_falls_away_with_limited_topics(boss: Client) -> None:
    topics_there("bills", "orders", "parcels", "%RETRY%billing_orders")
    limited_role("bill*")
    page = preview(boss, "people.add", name="clerk", roles=["tenants"])
    closes = page.partition("What this closes")[2]
    assert "2 topics are not visible, nor what is in them: orders, parcels" in closes
    assert "1 consumer group is not visible: billing" in closes
    of_all = "users (auth.change_user), pause of all timers (console.pause_timers)"
    assert f"Without effect, as this needs all topics: {of_all}" in closes
    # steering timers works on the topics that are seen
    assert "console.steer_timers" not in closes
    # who sees all loses nothing
    assert "What this closes" not in preview(boss, "people.add", name="clerk", roles=["viewer"])


def test_the_preview_of_other_roles_says_what_is_lost(boss: Client) -> None:
    topics_there("bills", "orders")
    limited_role("bills")
    person("clerk", role="operator")
    page = preview(boss, "people.change", name="clerk", roles=["tenants"], is_active="yes")
    closes = page.partition("What this closes")[2]
    assert "1 topic is not visible, nor what is in it: orders" in closes
    assert "offsets of groups (console.reset_offsets)" in closes
    assert "timers (console.steer_timers)" not in closes
    shown = preview(boss, "people.limit", name="clerk", topics="orders").partition("What this closes")[2]
    assert "1 topic is not visible, nor what is in it: bills" in shown
    shown = preview(boss, "people.limit_role", role="viewer", topics="orders").partition("What this closes")[2]
    assert "1 topic is not visible, nor what is in it: bills" in shown


def test_what_needs_all_topics_is_what_no_name_bounds(db: None) -> None:
    of_pages = {name for each in (PEOPLE, TOKENS, BROKER_USERS) for name in each.permissions}
    assert of_pages <= permissions_of_all() <= set(PERMISSIONS)
    assert not permissions_of_all() & {"console.send_messages", "console.change_settings", "console.steer_timers", VIEW}
