"""One message sent again from its preview: as it is shown, with a reason, once."""

from __future__ import annotations

from django.test import Client

from broker.client import SimpleConsumer
from broker.mirror.models import MirrorState
from console.operations.models import Operation
from tests.console.stage import Stage
from tests.console.ui.test_pages import words

DRAFT = "/operations/draft/"


def count(stage: Stage) -> int:
    return sum(each.max_offset for each in stage.admin.topic_stats("orders").queues)


def test_a_message_is_previewed_and_sent_again(stage: Stage, operator: Client) -> None:
    sent = stage.producer.send("orders", "x", keys=["order-1"])
    stage.mirror.run_once()
    before = count(stage)
    drafted = operator.post(DRAFT, {"kind": "messages.resend", "message_id": sent.offset_message_id, "topic": "orders"})
    assert drafted.status_code == 303, words(drafted)
    address = str(drafted.headers["Location"])
    page = words(operator.get(address))
    assert "Resend a message" in page
    assert "order-1" in page
    assert f"/api/v1/messages/{sent.offset_message_id}:resend" in page
    assert count(stage) == before
    for _ in range(2):
        assert operator.post(address + "confirm/", {"reason": "because"}).status_code == 303
    assert Operation.objects.get().results == {"sent_as_new": 1}
    assert count(stage) == before + 1
    assert "orders" in words(operator.get(address))


def test_what_is_no_message_of_the_topic_is_refused(stage: Stage, operator: Client) -> None:
    sent = stage.producer.send("orders", "x")
    timer = stage.producer.send("orders", "x", delay_ms=3_600_000)
    for message_id, topic in (
        (sent.offset_message_id, "bills"), (timer.offset_message_id, "orders"), ("", "orders"),
        (sent.offset_message_id, "%RETRY%g"), (sent.offset_message_id, "SCHEDULE_TOPIC_XXXX"),
    ):  # fmt: skip
        asked = {"kind": "messages.resend", "message_id": message_id, "topic": topic}
        assert operator.post(DRAFT, asked).status_code == 422
    assert Operation.objects.count() == 0


def test_to_a_group_that_it_would_never_reach_it_is_refused(stage: Stage, operator: Client) -> None:
    sent = stage.producer.send("orders", "x", keys=["order-1"])
    stage.admin.create_group("billing")
    with SimpleConsumer("billing", stage.broker.namesrv) as consumer:
        for received in consumer.receive("orders"):
            consumer.nack(received)
    stage.wait_for(lambda: stage.admin.topic_settings("%RETRY%billing_orders"))
    stage.mirror.run_once()
    # so the mirror says of Apache RocketMQ, where only consumers that pull read what is sent back
    MirrorState.mirror_writer.update(polling=True)
    asked = {"message_id": sent.offset_message_id, "topic": "orders", "group": "billing"}
    drafted = operator.post(DRAFT, {"kind": "messages.resend", **asked})
    assert drafted.status_code == 303, words(drafted)
    address = str(drafted.headers["Location"])
    operator.post(address + "confirm/", {"reason": "because"})
    assert Operation.objects.get().results == {"refused": 1}
    assert "it would not arrive" in words(operator.get(address))
    assert stage.admin.topic_settings("%RETRY%billing") is None
