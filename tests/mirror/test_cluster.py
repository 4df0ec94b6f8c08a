"""The mirror of several brokers: real ones, a real name service, a real PostgreSQL."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from broker.client import Admin, BrokerUnreachable, Producer
from broker.client.admin import TopicConfig
from broker.mirror import cluster as clusters
from broker.mirror.cluster import UNLISTED, follow
from broker.mirror.follower import Mirror, MirrorBusyError
from broker.mirror.models import Broker, MirrorState, Queue, Replica, Topic
from tests.cluster import Cluster
from tests.mirror.test_only_one import elsewhere
from tests.mirror.test_polling import PlainAdmin
from tests.waiting import until


@pytest.fixture
def cluster(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setattr(clusters, "LOOK_INTERVAL_S", 0.3)
    with Cluster(2) as running:
        yield running


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[Admin]:
    with Admin(cluster.namesrv) as made:
        yield made


@contextmanager
def followed(*namesrvs: str, **entries: str) -> Iterator[None]:
    """All brokers of these clusters are mirrored for a `with` block."""
    stop = threading.Event()
    named = dict.fromkeys(("",), namesrvs[0]) | entries
    thread = threading.Thread(target=follow, args=(named, stop))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(20)
        assert not thread.is_alive()


def end_of(broker: str, topic: str = "orders") -> int | None:
    return Queue.objects.filter(broker=broker, topic=topic, queue_id=0).values_list("max_offset", flat=True).first()


def error_of(broker: str) -> str | None:
    return MirrorState.objects.filter(broker=broker).values_list("error", flat=True).first()


def replica(broker: str, number: int = 0) -> Replica:
    """The row of a process; one that says nothing where there is none yet."""
    return Replica.objects.filter(broker=broker, number=number).first() or Replica()


def ends_at(broker: str, end: int) -> Callable[[], bool]:
    return lambda: end_of(broker) == end


def test_each_broker_has_its_own_rows(cluster: Cluster, admin: Admin) -> None:
    admin.create_topic("orders", queues=1)
    with Admin(cluster.namesrv, broker="broker-b") as second:
        second.create_topic("there", queues=1)
    with Producer("shop", cluster.namesrv) as producer, followed(cluster.namesrv):
        sent = [producer.send("orders", "x").broker for _ in range(5)]
        for name in cluster.names:
            until(ends_at(name, sent.count(name)))
        until(lambda: Replica.objects.filter(error="").count() == 2)
        until(lambda: replica("broker-a").log_end_position)
    assert list(Topic.objects.filter(name="there").values_list("broker", flat=True)) == ["broker-b"]
    own = {row.name: row for row in Broker.objects.all()}
    assert {name: row.address for name, row in own.items()} == {name: cluster[name].address for name in cluster.names}
    told = replica("broker-a")
    assert (told.role, told.address) == ("master", cluster["broker-a"].address)
    assert told.version
    assert told.as_of_ms


def test_one_that_dies_is_said_within_ten_seconds_and_takes_no_other_with_it(cluster: Cluster, admin: Admin) -> None:
    admin.create_topic("orders", queues=1)
    with followed(cluster.namesrv), Producer("shop", cluster.namesrv) as producer:
        until(lambda: MirrorState.objects.filter(error="").count() == 2)
        topics = Topic.objects.filter(broker="broker-b").count()
        cluster["broker-b"].stop()
        began_s = time.monotonic()
        until(lambda: error_of("broker-b"))
        until(lambda: replica("broker-b").error)
        assert time.monotonic() - began_s < 10
        began_s = time.monotonic()
        sent = producer.send("orders", "x")
        assert sent.broker == "broker-a"
        until(lambda: (end_of("broker-a") or 0) > sent.queue_offset)
        assert time.monotonic() - began_s < 2
        assert error_of("broker-a") == ""
        assert Topic.objects.filter(broker="broker-b").count() == topics, "rows of one that is away stay"
        cluster["broker-b"].start()
        until(lambda: error_of("broker-b") == "" and replica("broker-b").error == "")


def test_brokers_are_followed_as_they_come_and_after_they_are_delisted(cluster: Cluster, admin: Admin) -> None:
    with followed(cluster.namesrv):
        until(lambda: MirrorState.objects.count() == 2)
        cluster.add("broker-c")
        until(lambda: MirrorState.objects.filter(broker="broker-c", error="").exists())
        cluster.delist("broker-c")
        until(lambda: error_of("broker-c"))
        until(lambda: replica("broker-c").error == UNLISTED)
    assert Broker.objects.filter(name="broker-c").exists()


def test_a_slave_is_read_while_its_master_is_away(cluster: Cluster, admin: Admin) -> None:
    slave = cluster.slave("broker-b")
    admin.create_topic("orders", queues=1)
    with followed(cluster.namesrv):
        until(lambda: MirrorState.objects.filter(broker="broker-b", error="", polling=False).exists())
        until(lambda: replica("broker-b", 1).as_of_ms)
        cluster["broker-b"].stop()
        until(lambda: MirrorState.objects.filter(broker="broker-b", slave_number=1, polling=True, error="").exists())
        assert Broker.objects.get(name="broker-b").address == slave.address
        assert end_of("broker-b") == 0, "what the slave has not copied yet is not gone"
        assert replica("broker-b").error
        cluster["broker-b"].start()
        until(lambda: MirrorState.objects.filter(broker="broker-b", slave_number=None, polling=False).exists())


def test_a_master_that_goes_unasked_is_missed_all_the_same(
    cluster: Cluster, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name service lists it no more before a request to it could fail."""
    monkeypatch.setattr("broker.client._session.MEMBERS_AGE_S", 0.0)
    monkeypatch.setattr("broker.mirror.changes.LISTING_INTERVAL_MS", 0)
    cluster.slave("broker-b")
    admin.create_topic("orders", queues=1)
    with PlainAdmin(cluster.namesrv, broker="broker-b") as source:
        mirror = Mirror(source, "broker-b")
        mirror.run_once()
        assert MirrorState.objects.get().slave_number is None
        cluster.delist("broker-b")
        mirror.run_once()
        assert MirrorState.objects.get().slave_number == 1
        assert Topic.objects.filter(broker="broker-b", name="orders").exists(), "the slave does not list it"
        mirror.close()


def test_a_reading_of_two_processes_is_not_written(
    cluster: Cluster, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The master went while it was read."""
    monkeypatch.setattr("broker.client._session.MEMBERS_AGE_S", 0.0)
    cluster.slave("broker-b")
    admin.create_topic("orders", queues=1)

    class Going(PlainAdmin):
        """Its master is delisted once it is asked for the topics."""

        def topics(self) -> tuple[TopicConfig, ...]:
            if ("broker-b", 0) in cluster.processes:
                cluster.delist("broker-b")
            return super().topics()

    with Going(cluster.namesrv, broker="broker-b") as source:
        mirror = Mirror(source, "broker-b")
        with pytest.raises(BrokerUnreachable):
            mirror.run_once()
        assert not Topic.objects.filter(broker="broker-b").exists()
        mirror.run_once()
        assert MirrorState.objects.get().slave_number == 1
        mirror.close()


def test_without_a_name_service_brokers_are_followed_where_they_were(cluster: Cluster, admin: Admin) -> None:
    admin.create_topic("orders", queues=1)
    with Producer("shop", cluster.namesrv) as producer, followed(cluster.namesrv):
        until(lambda: MirrorState.objects.filter(error="").count() == 2)
        before = producer.send("orders", "x")
        cluster.name_service.stop()
        # one that was restarted is found, too
        cluster[before.broker].stop()
        until(lambda: error_of(before.broker))
        cluster[before.broker].start()
        until(lambda: error_of(before.broker) == "")
        sent = {each.broker: each for each in (producer.send("orders", "x") for _ in range(4))}
        for name, last in sent.items():
            until(ends_at(name, last.queue_offset + 1))


def test_brokers_of_further_clusters_have_their_entry(cluster: Cluster) -> None:
    with Cluster(1, cluster="Other") as other, followed(cluster.namesrv, other=other.namesrv):
        with Admin(other.namesrv) as theirs:
            theirs.create_topic("orders", queues=1)
        until(lambda: end_of("other/broker-a") == 0)
        until(lambda: Replica.objects.count() == 3)
        row = Broker.objects.get(name="other/broker-a")
        assert (row.entry, row.own_name, row.cluster) == ("other", "broker-a", "Other")
        assert Broker.objects.get(name="broker-a").own_name == "broker-a"
        assert end_of("broker-a") is None


def test_each_broker_is_mirrored_once_and_two_are_mirrored_at_a_time(cluster: Cluster) -> None:
    with (
        Admin(cluster.namesrv, broker="broker-a") as first,
        Admin(cluster.namesrv, broker="broker-b") as second,
    ):
        one = Mirror(first, "broker-a")
        one.run_once()
        elsewhere(Mirror(second, "broker-b").run_once)
        with pytest.raises(MirrorBusyError, match="broker-a"):
            elsewhere(Mirror(first, "broker-a").run_once)
        one.close()
        elsewhere(Mirror(first, "broker-a").run_once)
    assert MirrorState.objects.count() == 2


def test_a_rebuild_of_one_leaves_the_rows_of_the_other(cluster: Cluster, admin: Admin) -> None:
    admin.create_topic("orders", queues=1)
    with (
        Admin(cluster.namesrv, broker="broker-a") as first,
        Admin(cluster.namesrv, broker="broker-b") as second,
    ):
        for source, name in ((first, "broker-a"), (second, "broker-b")):
            mirror = Mirror(source, name)
            mirror.run_once()
            kept = list(Topic.objects.filter(broker="broker-a").values_list("pk", flat=True))
            if name == "broker-b":
                assert mirror.rebuild().full
            mirror.close()
    assert list(Topic.objects.filter(broker="broker-a").values_list("pk", flat=True)) == kept
    assert MirrorState.objects.get(broker="broker-b").sequence == 1


class Listener:
    """What pages would hear."""

    def __init__(self) -> None:
        self.heard: list[tuple[int, frozenset[str]]] = []

    def announce(self, sequence: int, kinds: Any) -> None:
        self.heard.append((sequence, frozenset(kinds)))


def test_pages_hear_of_the_broker_with_the_lower_sequence(cluster: Cluster, admin: Admin) -> None:
    admin.create_topic("orders", queues=1)
    listener: Any = Listener()
    with (
        Producer("shop", cluster.namesrv) as producer,
        Admin(cluster.namesrv, broker="broker-a") as first,
        Admin(cluster.namesrv, broker="broker-b") as second,
    ):
        busy = Mirror(first, "broker-a", announcer=listener)
        for _ in range(9):
            producer.send("orders", "x")
            busy.run_once()
        other = Mirror(second, "broker-b", announcer=listener)
        assert other.run_once().sequence < MirrorState.objects.get(broker="broker-a").sequence
        busy.close()
        other.close()
    numbers = [sequence for sequence, _ in listener.heard]
    assert numbers == sorted(set(numbers))
    assert len(numbers) >= 6
