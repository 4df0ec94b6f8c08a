"""What became of dead letters: why they died, handled or not, hidden for good, and all of a kind at once."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from broker.client import Consumer, DeadLetter, Message
from console.features.dead_letters import pages as dead_letters_pages
from console.features.dead_letters.models import LetterMark
from console.features.dead_letters.shapes import DeadLetterFilter
from console.operations import workflow
from console.operations.errors import InvalidParameter
from console.operations.models import AuditEntry, Operation
from console.security.models import MaskRule
from tests.console.dead_letters.test_dead_letters import ACTOR, bury, confirmed, drafted
from tests.console.stage import Stage
from tests.console.ui.test_pages import words

PAGE = "/dead-letters/of/billing/"


@pytest.fixture
def graves(stage: Stage) -> Stage:
    """A group whose handler gave up order-0 to order-3 for two reasons, and one letter without a reason."""
    stage.producer.send("orders", "first")
    stage.consume()
    for number in range(4):
        stage.producer.send("orders", "pay", keys=[f"order-{number}"])

    def refuse(message: Message) -> None:
        if message.keys:
            number = int(message.keys[0][-1])
            raise DeadLetter("no account 3" if number == 3 else f"card {number}00 expired")

    consumer = Consumer("billing", stage.broker.namesrv)
    consumer.subscribe("orders", "*", refuse)
    with consumer:
        stage.wait_for(lambda: len(dead()) == 4)
    bury(stage, "order-4")
    stage.mirror.run_once()
    return stage


def dead(**wanted: Any) -> list[str]:
    return sorted(row.name for row in dead_letters_pages.dead_letters("billing", DeadLetterFilter(**wanted)).rows)


def test_the_reason_of_its_handler_stands_in_the_list(graves: Stage, operator: Client) -> None:
    rows = dead_letters_pages.dead_letters("billing", DeadLetterFilter()).rows
    assert {row.name: row.last_error for row in rows} == {
        "order-0": "card 000 expired", "order-1": "card 100 expired", "order-2": "card 200 expired",
        "order-3": "no account 3", "order-4": "",
    }  # fmt: skip
    page = operator.get(PAGE)
    assert "no account 3" in words(page)
    assert f"/topics/orders/send/?like={rows[0].offset_message_id}" in page.content.decode()
    MaskRule.objects.create(prefix="orders", fields="ESC_DEAD_REASON", why="cards")
    assert "no account" not in words(operator.get(PAGE + "?by=kind"))


def test_an_error_is_found_whatever_its_numbers(graves: Stage) -> None:
    assert dead(error="card 77 expired") == ["order-0", "order-1", "order-2"]
    assert dead(error="-") == ["order-4"]
    assert dead(error="card") == []


def test_letters_of_a_kind_stand_together_and_go_together(graves: Stage, operator: Client) -> None:
    kinds = dead_letters_pages.kinds_of("billing")
    assert [(kind.topic, kind.count) for kind in kinds.rows] == [("orders", 3), ("orders", 1), ("orders", 1)]
    assert kinds.is_whole
    shown = words(operator.get(PAGE + "?by=kind"))
    assert "the consumer gave none" in shown
    assert re.search(r"Latest .*?\d+ (ms|s) ago", shown), "when the latest died, not how long that took"
    form = {"scope": "matching", "topic": "orders", "error": kinds.rows[0].error_filter}
    assert confirmed(operator, drafted(operator, "mark_handled", **form)).results == {"handled": 3}
    assert dead() == ["order-3", "order-4"]
    assert len(dead_letters_pages.kinds_of("billing").rows) == 2


def test_what_is_handled_leaves_the_list_and_the_findings_until_it_is_undone(graves: Stage, operator: Client) -> None:
    done = confirmed(operator, drafted(operator, "mark_handled", scope="matching", is_all="1"))
    assert done.results == {"handled": 5}
    assert (dead(), len(dead(state="handled")), len(dead(state="all"))) == ([], 5, 5)
    page = words(operator.get(PAGE))
    assert "All dead letters are handled." in page and "5 of them are handled or hidden" in page
    assert "used up their retries" not in words(operator.get("/"))
    (mark, *_) = LetterMark.objects.all()
    assert (mark.actor, mark.reason) == (done.actor, "the bank is up again")
    assert [entry.what for entry in AuditEntry.objects.order_by("id")] == ["confirmed", "finished"]
    answer = operator.post(f"/operations/{done.pk}/undo/", {})
    assert answer.status_code == 303
    assert confirmed(operator, answer.headers["Location"]).results == {"reopened": 5}
    assert len(dead()) == 5 and not LetterMark.objects.exists()


def test_what_was_marked_twice_is_as_it_was(graves: Stage, operator: Client) -> None:
    given = {"group": "billing", "filter": {"key": "order-3", "state": "all"}}
    assert workflow.start("dead_letters.mark_handled", given, ACTOR, reason="paid").results == {"handled": 1}
    assert workflow.start("dead_letters.mark_handled", given, ACTOR, reason="paid").results == {"already": 1}
    assert workflow.start("dead_letters.reopen", given, ACTOR, reason="no").results == {"reopened": 1}
    assert "order-3" in dead()


def test_what_is_hidden_is_in_no_list_and_cannot_come_back(graves: Stage, operator: Client) -> None:
    row = dead_letters_pages.dead_letters("billing", DeadLetterFilter(key="order-3")).rows[0]
    given = {"group": "billing", "targets": [{"queueId": row.queue_id, "offset": row.offset}]}
    draft = workflow.draft("dead_letters.hide", given, ACTOR)
    assert "until their retention ends" in words(operator.get(f"/operations/{draft.pk}/"))
    assert workflow.start("dead_letters.hide", given, ACTOR, reason="spam").results == {"hidden": 1}
    assert "order-3" not in dead(state="all") and "order-3" not in dead(state="handled")
    assert workflow.start("dead_letters.mark_handled", given, ACTOR, reason="?").results == {"already_hidden": 1}
    assert workflow.start("dead_letters.send_back", {**given}, ACTOR, reason="after all").results == {"sent_back": 1}


def test_a_mark_is_of_its_record_and_goes_with_it(graves: Stage) -> None:
    row = dead_letters_pages.dead_letters("billing", DeadLetterFilter(key="order-3")).rows[0]
    place = {"broker": row.broker, "group": "billing", "queue_id": row.queue_id}
    LetterMark.objects.create(**place, offset=row.offset, position=row.position + 1, state="hidden", actor="anna")
    assert "order-3" in dead()
    LetterMark.objects.create(**place, offset=-1, position=0, state="handled", actor="anna")
    given = {"group": "billing", "filter": {"key": "order-4"}}
    workflow.start("dead_letters.mark_handled", given, ACTOR, reason="paid")
    assert not LetterMark.objects.filter(offset=-1).exists()


def test_a_copy_of_a_dead_letter_begins_with_what_it_has(graves: Stage, operator: Client) -> None:
    row = dead_letters_pages.dead_letters("billing", DeadLetterFilter(key="order-3")).rows[0]
    page = operator.get(f"/topics/orders/send/?like={row.offset_message_id}").content.decode()
    assert 'value="order-3"' in page and ">pay</textarea>" in page
    assert "ESC_DEAD_REASON" not in page


@pytest.mark.parametrize("given", [{"state": "hidden"}, {"state": 1}, {"error": "x" * 1_001}])
def test_a_filter_is_checked(db: None, given: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        workflow.draft("dead_letters.mark_handled", {"group": "billing", "filter": given}, ACTOR)
    assert not Operation.objects.exists()
