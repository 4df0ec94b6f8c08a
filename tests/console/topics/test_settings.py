"""Topics and groups made, changed, put back and deleted: previewed, with a reason, in the audit."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from console.features.topics.operations import undo_parameters
from console.operations import setting_fields, workflow
from console.operations.actor import CHANGE_SETTINGS, PERMISSIONS, Actor
from console.operations.errors import InvalidParameter, NameNotTyped, NotAllowed, NotPossible, PendingUndecided
from console.operations.models import AuditEntry, Operation
from tests.console.clients.test_clients import connected
from tests.console.people import person
from tests.console.stage import Stage
from tests.console.ui.test_pages import words

ACTOR = Actor("token shop", frozenset(PERMISSIONS))
DRAFT = "/operations/draft/"


def drafted(operator: Client, kind: str, **form: Any) -> str:
    answer = operator.post(DRAFT, {"kind": kind, **form})
    assert answer.status_code == 303, words(answer)
    return str(answer.headers["Location"])


def confirmed(operator: Client, address: str, **form: str) -> Operation:
    answer = operator.post(address + "confirm/", {"reason": "because", **form})
    assert answer.status_code == 303, words(answer)
    return Operation.objects.get(pk=address.split("/")[2])


def do(kind: str, **parameters: Any) -> Operation:
    return workflow.start(kind, parameters, ACTOR, reason="because")


def topic(stage: Stage, name: str = "orders") -> dict[str, Any]:
    found = stage.admin.topic_settings(name)
    assert found is not None
    return found


def test_a_topic_is_changed_as_its_form_says_and_nothing_else(stage: Stage, operator: Client) -> None:
    stage.admin.set_topic("orders", {"attributes": {"message.type": "FIFO"}, "order": True})
    assert "Write queues" in words(operator.get("/topics/orders/"))
    form = {"name": "orders", "write_queues": "6", "was_write_queues": "2", "read_queues": "2", "was_read_queues": "2"}
    address = drafted(operator, "topics.change", **form, permission="6", was_permission="6")
    page = words(operator.get(address))
    assert "Write queues 2 6" in page
    assert "Read queues 2" not in page
    assert "manage.py operate topics.change" in page
    assert "curl -X PATCH http://testserver/api/v1/topics/orders/settings" in page
    assert """-d '{"settings": {"write_queues": 6}, "reason": "..."}'""" in page
    assert topic(stage)["writeQueueNums"] == 2
    row = confirmed(operator, address)
    assert (row.state, row.results) == ("done", {"changed": 1})
    now = topic(stage)
    assert (now["writeQueueNums"], now["readQueueNums"], now["order"]) == (6, 2, True)
    assert now["attributes"] == {"message.type": "FIFO"}
    assert AuditEntry.objects.filter(operation=row.pk, what="confirmed", reason="because").count() == 1


def test_a_change_is_put_back_while_nobody_changed_it_since(stage: Stage, operator: Client) -> None:
    row = do("topics.change", name="orders", settings={"write_queues": 6, "permission": 4, "message_type": "DELAY"})
    assert (topic(stage)["perm"], topic(stage)["attributes"]) == (4, {"message.type": "DELAY"})
    answer = operator.post(f"/operations/{row.pk}/undo/")
    assert answer.status_code == 303
    confirmed(operator, str(answer.headers["Location"]))
    now = topic(stage)
    assert (now["writeQueueNums"], now["perm"], now["attributes"]) == (2, 6, {})
    row = do("topics.change", name="orders", settings={"write_queues": 6})
    do("topics.change", name="orders", settings={"write_queues": 7})
    refused = operator.post(f"/operations/{row.pk}/undo/")
    assert refused.status_code == 422
    assert "it was changed meanwhile" in words(refused)
    assert topic(stage)["writeQueueNums"] == 7


def test_what_was_changed_between_preview_and_run_stays(stage: Stage) -> None:
    row = do("topics.change", name="orders", settings={"write_queues": 6})
    back = workflow.draft("topics.change", undo_parameters([row.items.get().label]), ACTOR)
    do("topics.change", name="orders", settings={"write_queues": 8})
    done = workflow.confirm(back.pk, ACTOR, reason="because")
    assert done.results == {"refused": 1}
    assert topic(stage)["writeQueueNums"] == 8


def test_messages_in_queues_that_are_read_no_more_are_counted(stage: Stage, operator: Client) -> None:
    for _ in range(3):
        stage.producer.send("orders", "x", queue_id=1)
    address = drafted(operator, "topics.change", name="orders", read_queues="1")
    assert "3 messages are in queues that would no longer be read." in words(operator.get(address))


def test_a_topic_is_made_and_deleted_by_typing_its_name(stage: Stage, operator: Client) -> None:
    address = drafted(operator, "topics.create", name="bills", read_queues="3", write_queues="3", message_type="FIFO")
    assert "Read queues \u2013 3" in words(operator.get(address))
    assert confirmed(operator, address).results == {"made": 1}
    assert (topic(stage, "bills")["readQueueNums"], topic(stage, "bills")["attributes"]) == (
        3,
        {"message.type": "FIFO"},
    )
    with pytest.raises(NotPossible):
        workflow.draft("topics.create", {"name": "bills"}, ACTOR)
    stage.producer.send("bills", "x")
    stage.mirror.run_once()
    address = drafted(operator, "topics.delete", name="bills")
    page = words(operator.get(address))
    assert "Messages lost 1 in its queues" in page
    assert "type bills" in page
    assert "curl -X DELETE 'http://testserver/api/v1/topics/bills?reason=...'" in page
    for typed in ("", "1", "bill"):
        assert operator.post(address + "confirm/", {"reason": "because", "typed": typed}).status_code == 422
    assert stage.admin.topic_settings("bills") is not None
    confirmed(operator, address, typed="bills")
    assert stage.admin.topic_settings("bills") is None


def with_something(stage: Stage, name: str) -> None:
    """A timer and a delayed message wait for a new topic."""
    do("topics.create", name=name)
    stage.producer.send(name, "x", delay_ms=3_600_000)
    stage.producer.send(name, "x", delay_level=17)
    stage.mirror.run_once()


def test_who_deletes_a_topic_says_what_becomes_of_what_waits(stage: Stage, operator: Client) -> None:
    with_something(stage, "bills")
    address = drafted(operator, "topics.delete", name="bills")
    page = words(operator.get(address))
    assert "Messages lost 0 in its queues" in page
    assert "Pending messages 2 1 timer, 1 on a delay level" in page
    assert "Keep them: each is delivered when due" in page
    refused = operator.post(address + "confirm/", {"reason": "because", "typed": "bills"})
    assert refused.status_code == 422
    assert "Choose what happens to the pending messages" in words(refused)
    wrong = operator.post(address + "confirm/", {"reason": "because", "typed": "bills", "pending": "drop"})
    assert wrong.status_code == 422
    assert stage.admin.topic_settings("bills") is not None
    row = confirmed(operator, address, typed="bills", pending="cancel")
    assert row.items.get().result == {"pending": "cancel", "timers": 1, "delayed": 1, "halves": 0, "parked_halves": 0}
    page = words(operator.get(address))
    assert "cancelled: 1 timer, 1 on a delay level" in page
    assert stage.admin.topic_settings("bills") is None
    assert stage.admin.topic_waiting("bills").total == 0


def test_what_waits_for_a_deleted_topic_can_be_kept(stage: Stage, operator: Client) -> None:
    with_something(stage, "bills")
    address = drafted(operator, "topics.delete", name="bills")
    confirmed(operator, address, typed="bills", pending="keep")
    assert "kept: 1 timer, 1 on a delay level" in words(operator.get(address))
    assert stage.admin.topic_waiting("bills").total == 2
    stage.mirror.run_once()
    assert "exists again" not in words(operator.get(address))
    # it does not come again unnoticed: as what was kept would have it, once that comes out
    stage.admin.create_topic("bills", queues=1)
    stage.mirror.run_once()
    page = operator.get(address)
    assert "kept: 1 timer, 1 on a delay level; the topic exists again" in words(page)
    assert 'href="/topics/bills/"' in page.content.decode()
    with_something(stage, "bonus")
    with pytest.raises(PendingUndecided, match="For bonus 2 messages wait"):
        do("topics.delete", name="bonus")


def test_where_nothing_waits_nothing_is_asked(stage: Stage, operator: Client) -> None:
    do("topics.create", name="bills")
    address = drafted(operator, "topics.delete", name="bills")
    assert "Keep them" not in words(operator.get(address))
    assert confirmed(operator, address, typed="bills").results == {"deleted": 1}


def test_a_group_is_made_changed_put_back_and_deleted(stage: Stage, operator: Client) -> None:
    do("groups.create", name="mail", settings={"retry_max_times": 3})
    stage.mirror.run_once()
    assert "Max retries" in words(operator.get("/groups/mail/"))
    row = do(
        "groups.change", name="mail",
        settings={"consume_enabled": False, "broadcast_enabled": False, "retry_policy": "EXPONENTIAL", "orderly": True},
    )  # fmt: skip
    found = stage.admin.group_settings("mail")
    assert found is not None
    assert (found["consumeEnable"], found["consumeBroadcastEnable"], found["consumeMessageOrderly"]) == (
        False,
        False,
        True,
    )
    assert (found["groupRetryPolicy"]["type"], found["retryMaxTimes"]) == ("EXPONENTIAL", 3)
    answer = operator.post(f"/operations/{row.pk}/undo/")
    confirmed(operator, str(answer.headers["Location"]))
    found = stage.admin.group_settings("mail")
    assert found is not None
    assert (found["consumeEnable"], found["groupRetryPolicy"]["type"]) == (True, "CUSTOMIZED")
    with pytest.raises(NameNotTyped):
        workflow.confirm(workflow.draft("groups.delete", {"name": "mail"}, ACTOR).pk, ACTOR, reason="because")
    do("groups.delete", name="mail")
    assert stage.admin.group_settings("mail") is None


def test_the_delays_of_a_group_are_changed_and_put_back(stage: Stage, operator: Client) -> None:
    do("groups.create", name="mail", settings={})
    stage.mirror.run_once()
    assert 'placeholder="10s 30s 1m"' in operator.get("/groups/mail/").content.decode()
    wanted = {
        "retry_delays": " 10s 90s",
        "retry_policy": "EXPONENTIAL",
        "retry_first_delay": "60s",
        "retry_multiplier": "3",
    }
    row = do("groups.change", name="mail", settings=wanted)
    found = stage.admin.group_settings("mail")
    assert found is not None
    assert found["groupRetryPolicy"] == {
        "type": "EXPONENTIAL",
        "customizedRetryPolicy": {"next": [10_000, 10_000, 10_000, 90_000]},
        "exponentialRetryPolicy": {"initial": 60_000, "max": 7_200_000, "multiplier": 3},
    }
    shown = setting_fields.shown(setting_fields.GROUP, found)
    assert (shown["retry_delays"], shown["retry_first_delay"], shown["retry_longest_delay"]) == ("10s 90s", "1m", "2h")
    answer = operator.post(f"/operations/{row.pk}/undo/")
    confirmed(operator, str(answer.headers["Location"]))
    found = stage.admin.group_settings("mail")
    assert found is not None
    assert "customizedRetryPolicy" not in found["groupRetryPolicy"]
    assert setting_fields.shown(setting_fields.GROUP, found)["retry_first_delay"] == "5s"


@pytest.mark.parametrize(
    ("name", "wrong"),
    [("retry_delays", "10"), ("retry_delays", "10s,1m"), ("retry_delays", "1s " * 101), ("retry_delays", 5),
     ("retry_first_delay", ""), ("retry_first_delay", "1s 2s"), ("retry_longest_delay", "400d"),
     ("retry_longest_delay", "0s"), ("retry_multiplier", "0")],
)  # fmt: skip
def test_delays_that_are_none_are_refused(name: str, wrong: object) -> None:
    with pytest.raises(InvalidParameter):
        setting_fields.checked(setting_fields.GROUP, {name: wrong})


def test_deleting_a_group_says_that_its_consumers_bring_it_back(stage: Stage, operator: Client) -> None:
    with connected(stage, "c1", "mail"):
        page = words(operator.get(drafted(operator, "groups.delete", name="mail")))
    assert "1 consumer is connected: its next heartbeat recreates the group" in page


def test_nothing_to_change_is_said(stage: Stage, operator: Client) -> None:
    address = drafted(operator, "topics.change", name="orders", write_queues="2")
    assert "These settings already apply" in words(operator.get(address))
    assert operator.post(address + "confirm/", {"reason": "because"}).status_code == 409


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        ("topics.change", {}),
        ("topics.change", {"name": "a topic"}),
        ("topics.delete", {"name": "SCHEDULE_TOPIC_XXXX"}),
        ("topics.change", {"name": "orders", "settings": {"read_queues": 0}}),
        ("topics.change", {"name": "orders", "settings": {"read_queues": True}}),
        ("topics.change", {"name": "orders", "settings": {"permission": 7}}),
        ("topics.change", {"name": "orders", "settings": {"order": "maybe"}}),
        ("topics.change", {"name": "orders", "settings": {"message_type": "LOUD"}}),
        ("topics.change", {"name": "orders", "settings": {"colour": "red"}}),
        ("topics.change", {"name": "orders", "settings": ["read_queues"]}),
        ("groups.change", {"name": "a group", "settings": {}}),
        ("groups.create", {"name": "billing", "settings": {"retry_max_times": -1}}),
    ],
)
def test_parameters_are_checked_before_anything_is_done(db: None, kind: str, parameters: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        workflow.draft(kind, parameters, ACTOR)
    assert Operation.objects.count() == 0


def test_it_needs_its_own_permission(stage: Stage) -> None:
    clerk = Actor("clerk", frozenset(PERMISSIONS) - {CHANGE_SETTINGS})
    with pytest.raises(NotAllowed):
        workflow.draft("topics.change", {"name": "orders", "settings": {"order": True}}, clerk)
    browser = Client()
    browser.force_login(person("clerk"))
    assert browser.post(DRAFT, {"kind": "topics.delete", "name": "orders"}).status_code == 403
    assert b"disabled" in browser.get("/topics/orders/").content
    assert stage.admin.topic_settings("orders") is not None


def test_what_is_not_there_cannot_be_changed(stage: Stage) -> None:
    for kind in ("topics.change", "topics.delete", "groups.change", "groups.delete"):
        with pytest.raises(NotPossible):
            workflow.draft(kind, {"name": "nowhere", "settings": {}}, ACTOR)
