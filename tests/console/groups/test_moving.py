"""A group set back or forward: previewed, moved while it consumes, put back."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from broker.client import Consumer
from console import palette
from console.features.groups.operations import undo_parameters
from console.operations import workflow
from console.operations.actor import PERMISSIONS, RESET_OFFSETS, Actor
from console.operations.errors import InvalidParameter, NotAllowed, NotPossible
from console.operations.models import AuditEntry, Operation
from tests.console.people import person
from tests.console.stage import Stage
from tests.console.ui.test_pages import words

ACTOR = Actor("token shop", frozenset(PERMISSIONS))
KIND = "groups.reset_offsets"
DRAFT = "/operations/draft/"
MOVE = {"kind": KIND, "group": "billing"}


@pytest.fixture
def read(stage: Stage) -> Stage:
    """The group `billing` has read 6 messages of `orders`, three in each queue."""
    for number in range(6):
        stage.producer.send("orders", f"{number}", queue_id=number % 2)
    take(stage, 6)
    stage.mirror.run_once()
    return stage


def take(stage: Stage, count: int) -> list[bytes]:
    """What billing gets until there are so many."""
    got: list[bytes] = []
    consumer = Consumer("billing", stage.broker.namesrv, from_where="first")
    consumer.subscribe("orders", "*", lambda message: got.append(message.body))
    with consumer:
        stage.wait_for(lambda: len(got) >= count)
    return sorted(got)


def offsets(stage: Stage) -> list[int]:
    return [
        part.consumer_offset for part in stage.admin.consume_stats("billing").queues if part.queue.topic == "orders"
    ]


def drafted(operator: Client, **form: Any) -> str:
    answer = operator.post(DRAFT, {**MOVE, "topic": "orders", **form})
    assert answer.status_code == 303, words(answer)
    return str(answer.headers["Location"])


def confirmed(operator: Client, address: str) -> Operation:
    assert operator.post(address + "confirm/", {"reason": "the invoices were wrong"}).status_code == 303
    return Operation.objects.get(pk=address.strip("/").rpartition("/")[2])


def test_a_group_is_set_back_and_put_back_again(read: Stage, operator: Client) -> None:
    assert "Reset offsets" in words(operator.get("/groups/billing/"))
    address = drafted(operator, to="first")
    page = words(operator.get(address))
    assert "6 after this operation; now 0" in page
    assert "6 already received by the group" in page
    assert offsets(read) == [3, 3]
    moved = confirmed(operator, address)
    assert moved.results == {"offset_moved": 2}
    assert offsets(read) == [0, 0]
    assert [item.name for item in moved.items.all()] == ["0: 3 → 0", "1: 3 → 0"]
    assert [entry.what for entry in AuditEntry.objects.order_by("id")] == ["confirmed", "finished"]
    back = operator.post(f"/operations/{moved.pk}/undo/")
    assert back.status_code == 303
    assert "6 never received by the group" in words(operator.get(back.headers["Location"]))
    confirmed(operator, back.headers["Location"])
    assert offsets(read) == [3, 3]


def test_a_moment_is_the_first_message_stored_then_or_later(read: Stage, operator: Client) -> None:
    third = read.admin.pull("orders", 0, 1, 1)[0]
    address = drafted(operator, to="time", moment=str(third.store_ms))
    confirmed(operator, address)
    first = offsets(read)[0]
    assert first <= 1
    stored_ms = [message.store_ms for message in read.admin.pull("orders", 0, 0, 8)]
    assert first == next(offset for offset, at_ms in enumerate(stored_ms) if at_ms >= third.store_ms)
    confirmed(operator, drafted(operator, to="time", moment="+1 h"))
    assert offsets(read) == [3, 3]


def test_what_is_skipped_is_never_given_out_and_new_messages_are(read: Stage, operator: Client) -> None:
    for number in range(4):
        read.producer.send("orders", f"skipped {number}", queue_id=number % 2)
    address = drafted(operator, to="last")
    assert "4 never received by the group" in words(operator.get(address))
    confirmed(operator, address)
    read.producer.send("orders", "new", queue_id=0)
    assert take(read, 1) == [b"new"]


def test_a_consumer_at_work_goes_on_there(read: Stage, operator: Client) -> None:
    got: list[bytes] = []
    consumer = Consumer("billing", read.broker.namesrv, from_where="first")
    consumer.subscribe("orders", "*", lambda message: got.append(message.body))
    with consumer:
        read.producer.send("orders", "here", queue_id=0)
        read.wait_for(lambda: got == [b"here"])
        confirmed(operator, drafted(operator, to="first"))
        read.wait_for(lambda: len(got) >= 8)
    assert sorted(got[1:]) == sorted([b"here", *(b"%d" % number for number in range(6))])


def test_nothing_to_change_is_said(read: Stage, operator: Client) -> None:
    address = drafted(operator, to="last")
    assert operator.post(address + "confirm/", {"reason": "why not"}).status_code == 409
    assert offsets(read) == [3, 3]
    assert operator.post(DRAFT, {**MOVE, "topic": "orders", "to": "time", "moment": "noon"}).status_code == 422
    assert operator.post(DRAFT, {**MOVE, "topic": "nowhere", "to": "first"}).status_code == 422


def test_a_group_without_offsets_cannot_be_put_back() -> None:
    with pytest.raises(NotPossible):
        undo_parameters({"group": "billing", "topic": "orders"}, [{"queue_id": 0, "before": None}])


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"group": "billing", "topic": "orders"},
        {"group": "a group", "topic": "orders", "to": "first"},
        {"group": "billing", "topic": 3, "to": "first"},
        {"group": "billing", "topic": "orders", "to": "sideways"},
        {"group": "billing", "topic": "orders", "to": "time"},
        {"group": "billing", "topic": "orders", "to": "time", "at_ms": -1},
        {"group": "billing", "topic": "orders", "to": "offsets"},
        {"group": "billing", "topic": "orders", "to": "offsets", "offsets": [[0]]},
        {"group": "billing", "topic": "orders", "to": "offsets", "offsets": [[0, True]]},
        {"group": "billing", "topic": "*", "to": "offsets", "offsets": [[0, 1]]},
    ],
)
def test_parameters_are_checked_before_anything_is_done(db: None, parameters: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        workflow.draft(KIND, parameters, ACTOR)
    assert Operation.objects.count() == 0


def test_it_needs_its_own_permission(read: Stage) -> None:
    others = Actor("clerk", frozenset(PERMISSIONS) - {RESET_OFFSETS})
    with pytest.raises(NotAllowed):
        workflow.draft(KIND, {"group": "billing", "topic": "orders", "to": "first"}, others)
    browser = Client()
    browser.force_login(person("clerk"))
    assert browser.post(DRAFT, {**MOVE, "topic": "orders", "to": "first"}).status_code == 403
    assert b"disabled" in browser.get("/groups/billing/").content


def all_offsets(stage: Stage) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for part in stage.admin.consume_stats("billing").queues:
        found.setdefault(part.queue.topic, []).append(part.consumer_offset)
    return {topic: found[topic] for topic in ("orders", "bills")}


@pytest.fixture
def read_two(read: Stage) -> Stage:
    """It has read two messages of `bills`, too, which has one queue."""
    read.admin.create_topic("bills", queues=1)
    for number in range(2):
        read.producer.send("bills", f"bill {number}")
    got: list[bytes] = []
    consumer = Consumer("billing", read.broker.namesrv, from_where="first")
    consumer.subscribe("bills", "*", lambda message: got.append(message.body))
    with consumer:
        read.wait_for(lambda: len(got) >= 2)
    read.mirror.run_once()
    return read


def test_a_group_is_set_back_in_all_its_topics_and_put_back(read_two: Stage, operator: Client) -> None:
    assert "all 2 topics of the group" in words(operator.get("/groups/billing/"))
    before = all_offsets(read_two)
    assert before == {"orders": [3, 3], "bills": [2]}
    address = drafted(operator, topic="*", to="first")
    page = words(operator.get(address))
    assert "billing in all its topics" in page
    assert "8 already received by the group" in page
    assert "bills 0 2 0 2" in page
    assert "Its retries and dead letters stay where they are." in page
    assert "/api/v1/groups/billing:reset-offsets" in page
    moved = confirmed(operator, address)
    assert moved.results == {"offset_moved": 3}
    assert all_offsets(read_two) == {"orders": [0, 0], "bills": [0]}
    assert [(item.topic, item.name) for item in moved.items.all()] == [
        ("bills", "0: 2 → 0"), ("orders", "0: 3 → 0"), ("orders", "1: 3 → 0"),
    ]  # fmt: skip
    back = operator.post(f"/operations/{moved.pk}/undo/")
    assert back.status_code == 303, words(back)
    assert "8 never received by the group" in words(operator.get(back.headers["Location"]))
    confirmed(operator, back.headers["Location"])
    assert all_offsets(read_two) == before


def test_tries_are_not_moved_with_all_topics(read_two: Stage) -> None:
    record = read_two.admin.pull("bills", 0, 0, 1)[0]
    read_two.admin.send_back("billing", record, delay_level=1, max_reconsume_times=16)
    got: list[bytes] = []
    consumer = Consumer("billing", read_two.broker.namesrv, from_where="first")
    consumer.subscribe("bills", "*", lambda message: got.append(message.body))
    with consumer:
        read_two.wait_for(lambda: got)
    row = workflow.draft(KIND, {"group": "billing", "topic": "*", "to": "first"}, ACTOR)
    assert {topic for topic, _count in row.preview["topics"]} == {"orders", "bills"}


def test_a_group_with_one_topic_has_no_choice_of_all(read: Stage, operator: Client) -> None:
    assert "topics of the group" not in words(operator.get("/groups/billing/"))
    assert [command.text for command in palette.commands("reset billing last")] == ["reset billing orders last"]


def test_the_palette_offers_all_topics(read_two: Stage) -> None:
    assert [command.text for command in palette.commands("reset billing -1h")] == [
        "reset billing bills -1h", "reset billing orders -1h", "reset billing * -1h",
    ]  # fmt: skip
    (command,) = palette.commands("reset billing * last because")
    assert (command.parameters(), command.reason) == ({"group": "billing", "topic": "*", "to": "last"}, "because")
