# ruff: noqa: F811 - fixtures taken from another conftest are parameters here
"""The reference in the console: every operation has a page, is found by words, and is run as whoever is signed in."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.test import Client

from console.operations.models import AuditEntry
from console.rest import as_me, errors
from console.rest.reference import groups, operations
from console.rest.routes import ROUTES
from console.security.gate import VIEWER, ensure_roles
from console.security.models import MaskRule, TopicPermission
from tests.console.conftest import operator, stage  # noqa: F401 - fixtures
from tests.console.stage import Stage
from tests.waiting import until

SEND = "/api/docs/messages_send_one/"


@pytest.fixture(autouse=True)
def door(valkey: str, settings: Any) -> Iterator[None]:
    settings.REDIS_URL = valkey
    yield
    as_me.hang_up()


def of_role(*permissions: str, role: str = VIEWER, prefix: str = "") -> Client:
    """A browser of somebody with this role and these permissions, who sees topics with this prefix."""
    ensure_roles()
    user = get_user_model().objects.create_user("nina")
    group = Group.objects.get(name=role)
    user.groups.add(group)
    for name in permissions:
        user.user_permissions.add(Permission.objects.get(codename=name, content_type__app_label="console"))
    if prefix:
        TopicPermission.objects.create(group=group, pattern=f"{prefix}*")
    browser = Client()
    browser.force_login(user)
    return browser


def mark_of(answer: Any) -> str:
    found = re.search(r'name="seen" value="([^"]+)"', answer.content.decode())
    assert found, answer.content.decode()
    return html.unescape(found[1])


def shown(answer: Any) -> Any:
    """The answer on the page, as JSON."""
    return json.loads(answer.context["shown"].text)


def test_every_operation_is_found_and_named_once() -> None:
    assert len(operations()) == len(ROUTES)
    assert sum(len(each.operations) for each in groups("")) == len(ROUTES)
    assert [each.name for group in groups("get WHEEL") for each in group.operations] == ["get_wheel"]
    assert groups("no such words at all") == []


def test_every_page_says_what_the_description_says(client: Client, transactional_db: None) -> None:
    client.force_login(get_user_model().objects.create_superuser("anna"))
    listed = client.get("/api/docs/").content.decode()
    assert [name for name in operations() if f'href="/api/docs/{name}/"' not in listed] == []
    # of each feature one, and those that have bodies within bodies
    shown = {each.route.feature: name for name, each in operations().items()}
    for name in (*shown.values(), "timers_cancel_many", "messages_send_several"):
        each = operations()[name]
        page = html.unescape(client.get(f"/api/docs/{name}/").content.decode())
        wanted = [each.path, each.needed, *(one.name for one in (*each.parameters, *each.fields))]
        wanted += [fault.code for fault in each.faults]
        assert [text for text in wanted if text not in page] == [], name
        levels = [int(level) for level in re.findall(r"<h(\d)", page.partition("<main")[2])]
        assert all(after <= before + 1 for before, after in pairwise(levels)), name
    assert client.get("/api/docs/no_such/").status_code == 404


def test_fields_of_objects_within_are_told() -> None:
    fields = {each.name: each for each in operations()["timers_cancel_many"].fields}
    assert fields["timers[].schedule_key"].kind == "string or null"
    assert fields["reason"].is_required
    assert "RFC 3339" in fields["filter.due_from"].about
    assert {each.name for each in operations()["get_timers"].answers[0].fields} >= {"timers", "timers[].due_ms"}


def test_every_error_leads_to_its_row(client: Client, transactional_db: None) -> None:
    client.force_login(get_user_model().objects.create_superuser("anna"))
    bare = client.get("/api/docs")
    assert (bare.status_code, bare.headers["Location"]) == (301, "/api/docs/")
    places = re.findall(r'\sid="([^"]+)"', client.get("/api/docs/").content.decode())
    assert len(places) == len(set(places))
    rules = (*errors.RULES.values(), *errors.REFUSALS.values(), errors.DISK_FULL)
    assert {rule.code for rule in rules} <= set(places)


def test_strangers_and_who_may_not_see_the_console_are_turned_away(client: Client, transactional_db: None) -> None:
    for address in ("/api/docs/", SEND):
        assert client.get(address).headers["Location"].startswith("/login/?next=")
    client.force_login(get_user_model().objects.create_user("nobody"))
    for address in ("/api/docs/", SEND):
        assert client.get(address).status_code == 403


def test_reading_runs_at_once_and_is_answered_as_to_a_token(operator: Client, stage: Stage) -> None:
    answer = operator.post("/api/docs/get_topics/")
    assert answer.status_code == 200
    assert "orders" in [each["name"] for each in shown(answer)["topics"]]
    assert "no-cache" in answer.headers["Cache-Control"]
    missing = operator.post("/api/docs/get_topic_settings/", {"in-topic": "nowhere"})
    assert (missing.status_code, shown(missing)["status"]) == (200, 404)
    assert not AuditEntry.objects.filter(kind=as_me.KIND).exists()


def test_a_change_is_previewed_then_run_once_with_a_reason(operator: Client, stage: Stage) -> None:
    form = {"in-topic": "orders", "body": '{"body": "by hand", "keys": ["hand-1"]}'}
    first = operator.post(SEND, form | {"step": "run", "reason": "to try"})
    assert first.status_code == 409, "nothing was previewed"
    looked = operator.post(SEND, form | {"step": "look"})
    mark = mark_of(looked)
    assert operator.post(SEND, form | {"step": "run", "seen": mark}).status_code == 422, "no reason"
    other = form | {"body": '{"body": "another"}', "step": "run", "seen": mark, "reason": "to try"}
    assert operator.post(SEND, other).status_code == 409, "another request than the one that was previewed"
    assert stage.admin.messages_by_key("orders", "hand-1") == []
    done = operator.post(SEND, form | {"step": "run", "seen": mark, "reason": "to try"})
    assert shown(done)["topic"] == "orders", shown(done)
    again = operator.post(SEND, form | {"step": "run", "seen": mark, "reason": "to try"})
    assert again.status_code == 409, "the same form a second time"
    until(lambda: len(stage.admin.messages_by_key("orders", "hand-1")) == 1)
    entry = AuditEntry.objects.get(kind=as_me.KIND)
    assert (entry.actor, entry.reason, entry.what) == ("operator", "to try", AuditEntry.What.DONE)
    assert entry.result["name"] == "POST /api/v1/topics/{topic}/messages, topic orders"


def test_a_route_s_own_preview_does_nothing(operator: Client, stage: Stage) -> None:
    stage.producer.send("orders", "later", delay_level=18, keys=["later"])
    body = json.dumps({"name": "by-hand", "settings": {"read_queues": 3}})
    looked = operator.post("/api/docs/topics_make_topic/", {"body": body, "step": "look"})
    assert ["read_queues", None, 3] in shown(looked)["changes"], shown(looked)
    assert "by-hand" not in stage.admin.topics()
    sent = {"body": body, "step": "run", "seen": mark_of(looked), "reason": "to try"}
    done = operator.post("/api/docs/topics_make_topic/", sent)
    assert (shown(done)["state"], shown(done)["reason"]) == ("done", "to try"), shown(done)
    assert AuditEntry.objects.filter(kind="topics.create", actor="operator").exists()


def test_the_password_is_asked_for_before_a_change(operator: Client, stage: Stage) -> None:
    form = {"in-topic": "orders", "body": '{"body": "by hand"}'}
    mark = mark_of(operator.post(SEND, form | {"step": "look"}))
    session = operator.session
    session["proved_s"] = 0
    session.save()
    asked = operator.post(SEND, form | {"step": "run", "seen": mark, "reason": "to try"})
    assert (asked.status_code, asked.headers["Location"]) == (303, f"/prove/?next={SEND.replace('/', '%2F')}")
    operator.post("/prove/", {"next": SEND, "password": "a long secret"})
    back = operator.get(SEND).content.decode()
    assert "by hand" in back
    assert 'value="orders"' in back


def test_who_lacks_the_permission_is_refused_and_the_audit_says_so(stage: Stage) -> None:
    browser = of_role()
    assert b"You do not have this permission" in browser.get(SEND).content
    for step in ("look", "run"):
        answer = browser.post(SEND, {"in-topic": "orders", "body": '{"body": "x"}', "step": step, "seen": "x"})
        assert answer.status_code == 403
    by_permission = {each.route.permission: name for name, each in operations().items()}
    for permission, name in by_permission.items():
        if permission not in ("console.view_console", "console.view_alert"):
            assert browser.post(f"/api/docs/{name}/", {"step": "look"}).status_code == 403, name
    denied = AuditEntry.objects.filter(kind=as_me.KIND, what=AuditEntry.What.DENIED)
    assert {entry.actor for entry in denied} == {"nina"}


def test_nobody_gets_more_than_on_the_pages(stage: Stage) -> None:
    stage.admin.create_topic("bills")
    stage.fill()
    stage.consume()
    stage.producer.send("bills", "theirs", keys=["bill-1"])
    browser = of_role("send_messages", prefix="bills")
    listed = shown(browser.post("/api/docs/get_topics/"))
    assert [each["name"] for each in listed["topics"]] == ["bills"]
    assert shown(browser.post("/api/docs/get_groups/"))["groups"] == []
    for name, form in (
        ("get_topic_settings", {"in-topic": "orders"}),
        ("get_group_settings", {"in-group": "billing"}),
    ):
        assert shown(browser.post(f"/api/docs/{name}/", form))["status"] == 403, name
    form = {"in-topic": "orders", "body": '{"body": "x"}'}
    mark = mark_of(browser.post(SEND, form | {"step": "look"}))
    answer = browser.post(SEND, form | {"step": "run", "seen": mark, "reason": "to try"})
    assert shown(answer)["code"] == "policy_denies"


def test_masks_stay(operator: Client, stage: Stage) -> None:
    stage.producer.send("orders", "a secret body", keys=["hidden-1"])
    until(lambda: stage.admin.messages_by_key("orders", "hidden-1"))
    record = stage.admin.messages_by_key("orders", "hidden-1")[0]
    MaskRule.objects.create(prefix="orders", fields="body", why="personal")
    answer = operator.post("/api/docs/get_message/", {"in-id": str(record.unique_key), "in-topic": "orders"})
    assert shown(answer)["topic"] == "orders", shown(answer)
    assert "a secret body" not in answer.content.decode()


def test_a_send_that_needs_a_second_person_is_not_run(operator: Client, stage: Stage, settings: Any) -> None:
    settings.SECOND_PERSON_KINDS = {"messages.send": 0}
    answer = operator.post(SEND, {"in-topic": "orders", "body": '{"body": "x"}', "step": "look"})
    assert answer.status_code == 409
    assert b"needs approval" in answer.content


@pytest.mark.parametrize("body", ["", "{", "[]", "NaN", '"\\ud800"', '{"a": "\\ud800"}', "[" * 100_000])
def test_what_is_no_object_is_refused(operator: Client, stage: Stage, body: str) -> None:
    answer = operator.post(SEND, {"in-topic": "orders", "body": body, "step": "look"})
    assert answer.status_code == 422
    assert operator.post(SEND, {"body": "{}", "step": "look"}).status_code == 422, "no topic"


def test_a_form_from_elsewhere_runs_nothing(transactional_db: None) -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(get_user_model().objects.create_superuser("anna"))
    for name in ("get_topics", "messages_send_one"):
        assert browser.post(f"/api/docs/{name}/", {"step": "look"}).status_code == 403
