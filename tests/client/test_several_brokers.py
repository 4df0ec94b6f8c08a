"""The client in a cluster: an admin of one broker, of all; brokers and name services that are away."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from queue import Queue

import pytest

from broker.client import Admin, BrokerRefused, BrokerUnreachable, Consumer, InvalidArgument, Producer
from broker.client.admin import Broker
from broker.testing import BrokerThread
from tests.cluster import Cluster


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(2) as running:
        yield running


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[Admin]:
    with Admin(cluster.namesrv) as made:
        yield made


@pytest.fixture
def second(cluster: Cluster) -> Iterator[Admin]:
    """The admin of broker-b alone."""
    with Admin(cluster.namesrv, broker="broker-b") as made:
        yield made


def test_an_admin_of_one_broker_changes_and_sees_that_one_only(admin: Admin, second: Admin) -> None:
    second.create_topic("there", queues=3)
    second.create_group("there")
    admin.create_topic("both", queues=1)
    assert {topic.broker for topic in second.topics()} == {"broker-b"}
    assert {group.broker for group in second.groups()} == {"broker-b"}
    assert {topic.broker for topic in admin.topics() if topic.name == "both"} == {"broker-a", "broker-b"}
    assert [topic.broker for topic in admin.topics() if topic.name == "there"] == ["broker-b"]
    assert {part.queue.broker for part in second.topic_stats("both").queues} == {"broker-b"}
    assert {part.queue.broker for part in admin.topic_stats("both").queues} == {"broker-a", "broker-b"}
    assert {part.queue.broker for part in second.topic_stats("SCHEDULE_TOPIC_XXXX").queues} <= {"broker-b"}


def test_messages_are_asked_of_one_broker_or_of_all(cluster: Cluster, admin: Admin, second: Admin) -> None:
    admin.create_topic("orders", queues=1)
    with Producer("shop", cluster.namesrv) as producer:
        sent = [producer.send("orders", f"{number}", keys=["k"]) for number in range(4)]
    mine = {each.message_id for each in sent if each.broker == "broker-b"}
    assert 0 < len(mine) < 4
    assert {each.unique_key for each in second.messages_by_key("orders", "k")} == mine
    assert {each.unique_key for each in admin.messages_by_key("orders", "k")} == {each.message_id for each in sent}
    elsewhere = next(each for each in sent if each.broker == "broker-a")
    assert second.message_by_id("orders", elsewhere.message_id) is None
    assert {each.unique_key for each in second.pull("orders", 0, 0, 32)} == mine
    with pytest.raises(InvalidArgument, match="does not list"):
        second.message_by_offset_id(elsewhere.offset_message_id)
    for each in sent:
        assert admin.message_by_offset_id(each.offset_message_id).unique_key == each.message_id


def test_a_queue_is_found_where_it_lies(cluster: Cluster, admin: Admin, second: Admin) -> None:
    admin.create_topic("orders", queues=1)
    second.create_topic("orders", queues=2)
    with Producer("shop", cluster.namesrv) as producer:
        sent = producer.send("orders", "x", queue_id=1)
    assert sent.broker == "broker-b"
    assert [each.unique_key for each in admin.pull("orders", 1, 0, 1)] == [sent.message_id]
    assert admin.queue_entries("orders", 1, 0, 1).max_offset == 1
    for broker in cluster.names:
        found = admin.pull("orders", 0, 0, 32, broker=broker)
        assert admin.queue_entries("orders", 0, 0, 1, broker=broker).max_offset == len(found)
        assert admin.offset_at("orders", 0, 2**40, broker=broker) == len(found)
    with pytest.raises(InvalidArgument, match="broker-b only"):
        second.pull("orders", 0, 0, 1, broker="broker-a")
    with pytest.raises(BrokerRefused, match="broker-z"):
        admin.pull("orders", 0, 0, 1, broker="broker-z")


def test_a_record_is_sent_back_where_it_is_stored(cluster: Cluster, admin: Admin) -> None:
    _sent_back_where_it_is(cluster, admin)


def test_so_it_is_where_brokers_have_ipv6_addresses() -> None:
    with Cluster(2, host="::1") as cluster, Admin(cluster.namesrv) as admin:
        _sent_back_where_it_is(cluster, admin)


def _sent_back_where_it_is(cluster: Cluster, admin: Admin) -> None:
    admin.create_topic("orders", queues=1)
    admin.create_group("billing")
    with Producer("shop", cluster.namesrv) as producer:
        sent = {each.broker: each for each in (producer.send("orders", "x") for _ in range(4))}
    for each in sent.values():
        record = admin.message_by_offset_id(each.offset_message_id)
        admin.send_back("billing", record, delay_level=0, max_reconsume_times=16)
    retried = [part.queue.broker for part in admin.topic_stats("SCHEDULE_TOPIC_XXXX").queues if part.max_offset == 1]
    assert retried == ["broker-a", "broker-b"]


def test_a_topic_deleted_on_one_broker_lives_on_the_other(cluster: Cluster, admin: Admin, second: Admin) -> None:
    admin.create_topic("orders", queues=1)
    asked = len(cluster.name_service.asked)
    second.delete_topic("orders")
    assert 216 not in cluster.name_service.asked[asked:]
    assert list(admin.route("orders").addresses) == ["broker-a"]
    admin.delete_topic("orders")
    assert 216 in cluster.name_service.asked[asked:]


def test_members_are_masters_and_slaves(cluster: Cluster, admin: Admin) -> None:
    slave = cluster.slave("broker-b")
    cluster.delist("broker-b")
    cluster.slave("broker-a", 2)
    assert [(each.name, each.broker_id) for each in admin.members()] == [
        ("broker-a", 0), ("broker-a", 2), ("broker-b", 1),
    ]  # fmt: skip
    assert admin.members()[2] == Broker("broker-b", "DefaultCluster", slave.address, 1)
    assert [each.name for each in admin.brokers()] == ["broker-a"]


def test_the_admin_of_a_broker_without_its_master_asks_the_slave(cluster: Cluster, second: Admin) -> None:
    slave = cluster.slave("broker-b")
    assert second.asked().broker_id == 0
    cluster["broker-b"].stop()
    with pytest.raises(BrokerUnreachable):
        second.topics()
    assert second.asked() == Broker("broker-b", "DefaultCluster", slave.address, 1)
    assert {topic.broker for topic in second.topics()} == {"broker-b"}
    with pytest.raises(BrokerUnreachable):
        second.create_topic("orders")


def test_while_no_name_server_answers_what_is_known_is_used(
    cluster: Cluster, admin: Admin, caplog: pytest.LogCaptureFixture
) -> None:
    admin.create_topic("orders", queues=1)
    with Producer("shop", cluster.namesrv) as producer:
        producer.send("orders", "x")
        before = admin.brokers()
        cluster.name_service.stop()
        producer._core._forget("orders")
        for _ in range(3):
            producer.send("orders", "x")
        assert admin.brokers() == before
        assert [record.levelname for record in caplog.records if "no name server answers" in record.message] == [
            "WARNING"
        ]
        with pytest.raises(BrokerUnreachable):
            admin.route("orders")
    with Admin(cluster.namesrv) as stranger, pytest.raises(BrokerUnreachable):
        stranger.brokers()


def test_a_consumer_goes_on_at_the_slave(cluster: Cluster) -> None:
    """The slave is filled as a master would be, before it is one: it has one message more."""
    got: Queue[bytes] = Queue()
    as_master = BrokerThread(replace(cluster._made("broker-b", 1)._config, broker_id=0))
    for place, count in ((cluster["broker-b"], 1), (as_master, 2)):
        if place is as_master:
            place.start()
        with Admin(place.namesrv) as admin, Producer("shop", place.namesrv) as producer:
            admin.create_topic("orders", queues=1)
            admin.create_group("billing")
            for number in range(count):
                producer.send("orders", f"{number}", tag="a")
    as_master.stop()
    cluster.slave("broker-b")
    consumer = Consumer("billing", cluster.namesrv, from_where="first")
    consumer.subscribe("orders", "a", lambda message: got.put(message.body))
    with consumer:
        assert got.get(timeout=20) == b"0"
        cluster["broker-b"].stop()
        assert got.get(timeout=20) == b"1"
