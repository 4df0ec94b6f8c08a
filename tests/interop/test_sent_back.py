"""Sent back from the console to a group that pops: it arrives, or is refused where it never would."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.test import override_settings

from broker.client import Admin, Producer, Received, SimpleConsumer
from broker.mirror.follower import Mirror
from console.operations import workflow
from console.operations.actor import PERMISSIONS, Actor
from console.operations.copies import hang_up as hang_up_copies
from console.site.broker import hang_up
from tests.interop.servers import Server
from tests.interop.waiting import wait_until

ACTOR = Actor("token shop", frozenset(PERMISSIONS))


@pytest.fixture
def admin(transactional_db: None, server: Server) -> Iterator[Admin]:
    """An administrator of the server that the console shows."""
    with Admin(server.namesrv) as one, override_settings(ESCAPEMENT_NAMESRV=server.namesrv):
        yield one
    hang_up()
    hang_up_copies()


def received(consumer: SimpleConsumer, topic: str) -> Received:
    """The next message, whenever it comes."""
    found: list[Received] = []
    assert wait_until(lambda: found.extend(consumer.receive(topic, wait_ms=5_000)) or found, timeout_s=60)
    return found[0]


def mirror(admin: Admin) -> None:
    """Have the console know what there is."""
    one = Mirror(admin)
    one.run_once()
    one.close()


def test_a_dead_letter_arrives_or_is_refused(server: Server, admin: Admin, topic: str, group: str) -> None:
    admin.create_topic(topic, queues=1)
    admin.create_group(group)
    with Producer("senders", server.namesrv) as producer, SimpleConsumer(group, server.namesrv) as consumer:
        producer.send(topic, "pay", keys=["order-1"])
        consumer.nack(received(consumer, topic), delay_ms=1_000)
        again = received(consumer, topic)
        assert again.attempt == 2
        admin.send_back(group, again.message, delay_level=-1, max_reconsume_times=0)
        consumer.ack(again)
        assert wait_until(lambda: len(admin.pull(f"%DLQ%{group}", 0, 0, 5)) == 1)
        mirror(admin)
        wanted = {"group": group, "targets": [{"queueId": 0, "offset": 0}]}
        done = workflow.start("dead_letters.send_back", wanted, ACTOR, reason="the bank is up again")
        if server.name == "apache":
            assert done.results == {"refused": 1}
            done = workflow.start("dead_letters.send_as_new", wanted, ACTOR, reason="so it is said")
            assert done.results == {"sent_as_new": 1}
        else:
            assert done.results == {"sent_back": 1}
        last = received(consumer, topic)
        assert (last.body, last.message.keys) == (b"pay", ["order-1"])
        consumer.ack(last)


def test_a_message_of_the_topic_arrives_or_is_refused(server: Server, admin: Admin, topic: str, group: str) -> None:
    admin.create_topic(topic, queues=1)
    admin.create_group(group)
    with Producer("senders", server.namesrv) as producer, SimpleConsumer(group, server.namesrv) as consumer:
        sent = producer.send(topic, "pay", keys=["order-1"])
        consumer.nack(received(consumer, topic), delay_ms=1_000)
        consumer.ack(received(consumer, topic))
        mirror(admin)
        wanted = {"message_id": sent.offset_message_id, "topic": topic, "group": group}
        done = workflow.start("messages.resend", wanted, ACTOR, reason="the bank is up again")
        if server.name == "apache":
            assert done.results == {"refused": 1}
            done = workflow.start("messages.resend", wanted | {"group": ""}, ACTOR, reason="so it is said")
            assert done.results == {"sent_as_new": 1}
        else:
            assert done.results == {"sent_back": 1}
        last = received(consumer, topic)
        assert (last.body, last.message.keys) == (b"pay", ["order-1"])
        consumer.ack(last)


def test_a_pop_of_which_the_mirror_knows_nothing_yet_is_known(
    server: Server, admin: Admin, topic: str, group: str
) -> None:
    admin.create_topic(topic, queues=1)
    admin.create_group(group)
    mirror(admin)
    with Producer("senders", server.namesrv) as producer, SimpleConsumer(group, server.namesrv) as consumer:
        sent = producer.send(topic, "pay", keys=["order-1"])
        consumer.nack(received(consumer, topic), delay_ms=1_000)
        consumer.ack(received(consumer, topic))
        wanted = {"message_id": sent.offset_message_id, "topic": topic, "group": group}
        done = workflow.start("messages.resend", wanted, ACTOR, reason="the bank is up again")
        assert done.results == ({"refused": 1} if server.name == "apache" else {"sent_back": 1})
