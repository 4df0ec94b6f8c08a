"""Deleting a group tells all that is lost with it: dead letters, tries, and those that wait for their moment."""

from __future__ import annotations

import pytest
from django.test import Client

from broker.client import Message, SimpleConsumer
from broker.engine import topic_backlog
from broker.mirror.models import Broker, ConsumerGroup, ConsumerOffset, Queue
from broker.rocketmq.codes import Request
from console.features.topics.losses import topics_of_tries
from console.operations import workflow
from tests.console.stage import Stage
from tests.console.topics.test_settings import ACTOR, drafted
from tests.console.ui.test_pages import words


def sent(stage: Stage) -> Message:
    made = stage.producer.send("orders", "pay", queue_id=0)
    return stage.admin.message_by_offset_id(made.offset_message_id)


def lost(name: str) -> tuple[int, dict[str, int | None], list[str]]:
    """Messages, what of them waits, and what is not known of that."""
    found = workflow.draft("groups.delete", {"name": name}, ACTOR).preview
    return found["lost_messages"], found["waiting"], found["missing"]


def waits(**counts: int | None) -> dict[str, int | None]:
    nothing: dict[str, int | None] = {"timers": 0, "delayed": 0, "halves": 0, "parked_halves": 0}
    return nothing | counts


@pytest.fixture
def billing(stage: Stage) -> Stage:
    """A group that pulls: a dead letter, two tries on a delay level, one that waits as a timer."""
    stage.producer.send("orders", "first", queue_id=0)
    stage.consume()
    record = sent(stage)
    stage.admin.send_back("billing", record, delay_level=-1, max_reconsume_times=0)
    for _ in range(2):
        stage.admin.send_back("billing", record, delay_level=18, max_reconsume_times=16)
    policy = {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [3_600_123]}}
    stage.admin.set_group("billing", {"groupRetryPolicy": policy})
    stage.admin.send_back("billing", record, delay_level=0, max_reconsume_times=16)
    stage.producer.send("orders", "another's", delay_level=18)
    stage.mirror.run_once()
    return stage


def test_tries_that_wait_are_lost_too(billing: Stage, operator: Client) -> None:
    assert lost("billing") == (4, waits(timers=1, delayed=2), [])
    page = words(operator.get(drafted(operator, "groups.delete", name="billing")))
    assert "Messages lost 4 its retries and dead letters" in page
    assert "of these not due yet: 1 timer, 2 on delay levels" in page
    assert "at least" not in page


def test_what_is_not_counted_to_the_end_is_said_to_be_at_least_so_many(
    billing: Stage, operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_backlog, "MOST_LOOKED_AT", 1)
    assert lost("billing") == (3, waits(timers=1, delayed=1), ["waiting"])
    page = words(operator.get(drafted(operator, "groups.delete", name="billing")))
    assert "1 on a delay level; at least: counting stopped early" in page


def test_of_a_broker_that_does_not_tell_its_lanes_the_timers_are_counted_and_the_rest_is_said(
    billing: Stage, operator: Client
) -> None:
    nothing = dict.fromkeys(("delayed", "halves", "parked_halves"))
    with billing.broker.without(Request.GET_TOPIC_WAITING):
        assert lost("billing") == (2, {"timers": 1} | nothing, ["waiting_not_told"])
        page = words(operator.get(drafted(operator, "groups.delete", name="billing")))
        assert "This broker does not report which retries wait on delay levels" in page
    with billing.broker.without(Request.GET_TOPIC_WAITING, Request.GET_TIMER_METRICS):
        assert lost("billing") == (1, {"timers": None} | nothing, ["waiting_not_told"])


@pytest.fixture
def popping(stage: Stage) -> Stage:
    """Groups with one begin of their names, each with a message of `orders` that it did not take."""
    sent(stage)
    for name in ("shop", "shop_late"):
        stage.admin.create_group(name)
        with SimpleConsumer(name, stage.broker.namesrv) as consumer:
            for received in consumer.receive("orders", wait_ms=2_000):
                consumer.nack(received)
            stage.wait_for(lambda name=name: stage.admin.topic_settings(f"%RETRY%{name}_orders"))
    stage.mirror.run_once()
    return stage


def test_tries_of_who_pops_are_lost_and_those_of_others_are_not(popping: Stage) -> None:
    assert lost("shop") == (1, waits(), [])
    assert lost("shop_late") == (1, waits(), [])
    popping.producer.send("%RETRY%shop_orders", "x", delay_level=18)
    assert lost("shop") == (2, waits(delayed=1), [])
    assert lost("shop_late") == (1, waits(), [])


def test_a_name_that_can_be_of_two_groups_is_whose_offsets_say_so(stage: Stage) -> None:
    broker = Broker.objects.get()
    named = ("a_orders", "a+orders", "a_b_orders", "a_late", "ab_orders", "a_x_y")
    Queue.mirror_writer.bulk_create(Queue(broker=broker, topic=f"%RETRY%{name}", queue_id=0) for name in named)
    reads = [("a", "orders"), ("a", "late"), ("a", "x_y"), ("a_b", "orders"), ("a_x", "y"), ("ab", "orders")]
    ConsumerOffset.mirror_writer.bulk_create(
        ConsumerOffset(broker=broker, group=group, topic=topic, queue_id=0, offset=0) for group, topic in reads
    )
    ConsumerGroup.mirror_writer.bulk_create([ConsumerGroup(broker=broker, name="a_late")])

    def found(group: str) -> set[str]:
        first, *popped = topics_of_tries(broker.name, group)
        assert first == f"%RETRY%{group}"
        return {name.removeprefix("%RETRY%") for name in popped}

    assert found("a") == {"a_orders", "a+orders"}
    assert found("a_b") == {"a_b_orders"}
    assert found("a_x") == set()
    ConsumerOffset.mirror_writer.bulk_create([
        ConsumerOffset(broker=broker, group="a", topic=f"%RETRY%{name}", queue_id=0, offset=0)
        for name in ("a_late", "a_x_y")
    ])  # fmt: skip
    assert found("a") == {"a_orders", "a+orders", "a_late", "a_x_y"}
