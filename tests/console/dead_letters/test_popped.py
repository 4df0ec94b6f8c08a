"""Dead letters of a group that receives by hand (pops): sent back, they arrive, and the pages say where they are."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from django.test import Client

from broker.client import Received, SimpleConsumer
from console.features.dead_letters import pages as dead_letters_pages
from console.features.dead_letters.shapes import DeadLetterFilter
from console.features.groups import read as groups_read
from console.operations import workflow
from console.operations.actor import PERMISSIONS, Actor
from tests.console.stage import Stage
from tests.console.ui.test_pages import words

GROUP = "shop"
ACTOR = Actor("token shop", frozenset(PERMISSIONS))
ALL = {"group": GROUP, "filter": {}, "is_all": True}


@pytest.fixture
def shop(stage: Stage) -> Iterator[SimpleConsumer]:
    """A group that gave up order-0 to order-2 and has order-3 to receive."""
    stage.admin.create_group(GROUP, retry_max_times=1)
    with SimpleConsumer(GROUP, stage.broker.namesrv) as consumer:
        for number in range(3):
            stage.producer.send("orders", f"{number}", keys=[f"order-{number}"])
        for _ in range(2):
            for message in received(stage, consumer, 3):
                consumer.nack(message)
        stage.wait_for(lambda: len(letters()) == 3)
        yield consumer


def received(stage: Stage, consumer: SimpleConsumer, count: int) -> list[Received]:
    """So many messages, however many times it takes to ask for them."""
    found: list[Received] = []

    def ask() -> bool:
        found.extend(consumer.receive("orders", wait_ms=1_000))
        return len(found) >= count

    stage.wait_for(ask)
    return found


def letters() -> list[str]:
    return [row.name for row in dead_letters_pages.dead_letters(GROUP, DeadLetterFilter()).rows]


def assigned(browser: Client) -> dict[str, str]:
    """What the page of the group says of whom its queues are assigned to, by topic."""
    page = browser.get(f"/groups/{GROUP}/").content.decode()
    rows = re.findall(r'<tr id="progress-.*?</tr>', page, re.DOTALL)
    cells = [[" ".join(re.sub("<[^>]*>", " ", cell).split()) for cell in row.split("</td>")] for row in rows]
    return {row[0]: row[-2] for row in cells}


def waits(stage: Stage) -> tuple[int | None, int | None]:
    """Lag of the group, and what of it waits for another try."""
    stage.mirror.run_once()
    row = groups_read.group(GROUP).group
    assert row is not None
    return row.lag, row.retry


def test_sent_back_they_are_counted_received_and_gone(stage: Stage, shop: SimpleConsumer, operator: Client) -> None:
    assert waits(stage) == (0, 0)
    preview = workflow.draft("dead_letters.send_back", ALL, ACTOR).preview
    assert (preview["lag_before"], preview["lag_after"]) == (0, 3)
    done = workflow.start("dead_letters.send_back", ALL, ACTOR, reason="the bank is up again")
    assert done.results == {"sent_back": 3}
    stage.wait_for(lambda: waits(stage) == (3, 3))
    page = groups_read.group(GROUP)
    (row,) = [row for row in page.queues if row.lag]
    assert (row.topic, row.lag) == (f"%RETRY%{GROUP}", 3)
    assert f"%RETRY%{GROUP}" in words(operator.get(f"/groups/{GROUP}/"))

    again = received(stage, shop, 3)
    assert sorted(message.message.keys[0] for message in again) == ["order-0", "order-1", "order-2"]
    assert {(message.message.topic, message.attempt) for message in again} == {("orders", 4)}
    assert waits(stage) == (3, 3), "they are held and not done"
    later = shop.extend(again[0], 60_000)
    shop.ack(later, *again[1:])
    assert waits(stage) == (0, 0)
    assert shop.receive("orders", wait_ms=200) == []
    assert "resent to its group" in words(operator.get(f"/dead-letters/of/{GROUP}/"))


def test_one_that_fails_again_is_a_dead_letter_again(stage: Stage, shop: SimpleConsumer) -> None:
    named = {"group": GROUP, "targets": [{"queueId": 0, "offset": 1}]}
    assert workflow.start("dead_letters.send_back", named, ACTOR, reason="try").results == {"sent_back": 1}
    (again,) = received(stage, shop, 1)
    shop.nack(again)
    stage.wait_for(lambda: len(letters()) == 4)
    assert letters()[0] == again.message.keys[0]
    newest = {"group": GROUP, "targets": [{"queueId": 0, "offset": 3}]}
    assert workflow.start("dead_letters.send_back", newest, ACTOR, reason="try").results == {"sent_back": 1}
    (last,) = received(stage, shop, 1)
    shop.ack(last)
    assert waits(stage) == (0, 0)


def test_the_queues_of_a_group_that_pops_are_of_all_its_members(
    stage: Stage, shop: SimpleConsumer, operator: Client
) -> None:
    """They had a dash as who they are assigned to."""
    stage.mirror.run_once()
    told = assigned(operator)
    assert told["orders"] == "all members together (POP)"
    assert set(told.values()) == {"all members together (POP)"}
