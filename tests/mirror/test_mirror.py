"""The mirror against a real broker and a real PostgreSQL."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import DatabaseError, connection, connections

from broker.client import Admin, BrokerUnreachable, ClientError, Producer
from broker.mirror.follower import Mirror, MirrorBusyError
from broker.mirror.models import (
    Broker,
    ConsumerGroup,
    ConsumerOffset,
    MirrorReadOnlyError,
    MirrorState,
    Queue,
    RateHistory,
    ScheduleLevel,
    Topic,
)
from console.features.schedule import read as schedule_read
from console.site.evidence import StaleReason
from tests.mirror.running import RunningBroker, running_broker
from tests.waiting import until

COMPARED = (Topic, Queue, ConsumerGroup, ConsumerOffset, ScheduleLevel)
#: row numbers; histories of what the mirror watched; figures that move by themselves
NOT_COMPARED = {"id", "marks", "released_per_s", "lateness_p50_ms", "lateness_p99_ms"}


def rows() -> dict[str, list[dict[str, Any]]]:
    found = {}
    for model in COMPARED:
        names = [field.attname for field in model._meta.concrete_fields if field.name not in NOT_COMPARED]
        found[model.__name__] = sorted(model.objects.values(*names), key=str)
    return found


def test_first_round_reads_everything(mirror: Mirror, producer: Producer, admin: Admin) -> None:
    admin.create_topic("orders", queues=3)
    for number in range(5):
        producer.send("orders", f"{number}", queue_id=1)
    done = mirror.run_once()
    assert done.full
    assert list(Queue.objects.filter(topic="orders").order_by("queue_id").values_list("max_offset", flat=True)) == [
        0,
        5,
        0,
    ]
    assert ScheduleLevel.objects.count() == 18
    assert Broker.objects.get().state == "OK"
    assert MirrorState.objects.get().token


def test_next_round_reads_what_changed(mirror: Mirror, producer: Producer, admin: Admin) -> None:
    admin.create_topic("orders", queues=1)
    first = mirror.run_once()
    producer.send("orders", "x")
    second = mirror.run_once()
    assert not second.full
    assert second.sequence == first.sequence + 1
    assert Queue.objects.get(topic="orders", queue_id=0).max_offset == 1


def test_a_quiet_round_changes_nothing(mirror: Mirror, producer: Producer, admin: Admin) -> None:
    admin.create_topic("orders", queues=1)
    producer.send("orders", "x", delay_level=18)
    mirror.run_once()
    mirror.run_once()
    assert mirror.run_once().kinds <= {"histories"}


def test_deleted_topic_is_removed(mirror: Mirror, producer: Producer, admin: Admin) -> None:
    admin.create_topic("gone", queues=2)
    producer.send("gone", "x")
    mirror.run_once()
    admin.delete_topic("gone")
    mirror.run_once()
    assert not Topic.objects.filter(name="gone").exists()
    assert not Queue.objects.filter(topic="gone").exists()


def test_dropped_and_rebuilt_is_equal(mirror: Mirror, producer: Producer, admin: Admin) -> None:
    admin.create_topic("orders", queues=4)
    mirror.run_once()
    for number in range(40):
        producer.send("orders", "x" * number, keys=[str(number)], delay_level=(0, 5, 18)[number % 3])
    mirror.run_once()
    before = rows()
    mirror.rebuild()
    assert rows() == before


def test_parked_messages_show_as_backlog(mirror: Mirror, producer: Producer, admin: Admin) -> None:
    admin.create_topic("orders", queues=1)
    sent = [producer.send("orders", "x", delay_level=5) for _ in range(3)]
    mirror.run_once()
    level = ScheduleLevel.objects.get(level=5)
    assert (level.delay_offset, level.max_offset) == (0, 3)
    assert level.next_due_ms == sent[0].due_ms or sent[0].due_ms is None
    assert level.marks, "due times of a lane that filled before the mirror came are sampled"


def test_broker_restart_is_read_whole(tmp_path: Any, transactional_db: None) -> None:
    with running_broker(tmp_path / "store") as broker, Admin(broker.namesrv) as admin:
        admin.create_topic("orders", queues=1)
        first = Mirror(admin)
        first.run_once()
        first.close()
    with running_broker(tmp_path / "store") as broker, Admin(broker.namesrv) as admin:
        again = Mirror(admin)
        assert again.run_once().full
        assert Topic.objects.filter(name="orders").exists()
        again.close()


def test_another_broker_replaces_the_rows(tmp_path: Any, transactional_db: None) -> None:
    for name in ("one", "two"):
        with running_broker(tmp_path / name) as broker, Admin(broker.namesrv) as admin:
            admin.create_topic(name, queues=1)
            mirror = Mirror(admin)
            mirror.run_once()
            mirror.close()
    assert list(Topic.objects.filter(is_system=False).values_list("name", flat=True)) == ["two"]


def test_token_and_rows_are_one_transaction(mirror: Mirror, producer: Producer, admin: Admin) -> None:
    """A round that dies while it writes leaves token and rows of the round before; the next one gets it all."""
    admin.create_topic("orders", queues=1)
    mirror.run_once()
    kept = MirrorState.objects.get().token
    producer.send("orders", "x")
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE broker_mirrorstate ADD CONSTRAINT no_more CHECK (sequence < 2)")
    with pytest.raises(DatabaseError):
        mirror.run_once()
    assert MirrorState.objects.get().token == kept
    assert Queue.objects.get(topic="orders", queue_id=0).max_offset == 0
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE broker_mirrorstate DROP CONSTRAINT no_more")
    mirror.run_once()
    assert Queue.objects.get(topic="orders", queue_id=0).max_offset == 1


def test_a_new_mirror_goes_on_where_the_last_one_ended(mirror: Mirror, producer: Producer, admin: Admin) -> None:
    admin.create_topic("orders", queues=1)
    mirror.run_once()
    mirror.close()
    producer.send("orders", "x")
    successor = Mirror(admin)
    done = successor.run_once()
    successor.close()
    assert not done.full
    assert Queue.objects.get(topic="orders", queue_id=0).max_offset == 1


def test_an_unreachable_broker_changes_nothing(mirror: Mirror, broker: RunningBroker, admin: Admin) -> None:
    mirror.run_once()
    before = rows()
    broker.stop()
    with pytest.raises(ClientError):
        mirror.run_once()
    assert rows() == before


@pytest.mark.parametrize("model", [*COMPARED, Broker, MirrorState, RateHistory])
def test_rows_are_read_only_for_everybody_else(db: None, model: Any) -> None:
    for write in (
        lambda: model.objects.create(),
        lambda: model.objects.all().delete(),
        lambda: model.objects.update(broker="x"),
        lambda: model.objects.bulk_create([model()]),
        lambda: model.objects.get_or_create(),
        lambda: model.objects.update_or_create(),
        lambda: model().save(),
        lambda: model().delete(),
    ):
        with pytest.raises(MirrorReadOnlyError, match="only the mirror writes"):
            write()


def test_a_running_mirror_says_why_it_stands_still(transactional_db: None, tmp_path: Any) -> None:
    stop = threading.Event()
    with running_broker(tmp_path / "store") as broker, Admin(broker.namesrv) as admin:
        thread = threading.Thread(target=followed_until, args=(admin, stop))
        thread.start()
        until(lambda: MirrorState.objects.exists())
        assert not schedule_read.lanes().evidence.stale
        broker.stop()
        until(lambda: MirrorState.objects.get().error != "")
        stop.set()
        thread.join(20)
    evidence = schedule_read.lanes().evidence
    assert evidence.stale_reason is StaleReason.BROKER_UNREACHABLE
    assert evidence.detail == MirrorState.objects.get().error


def followed_until(admin: Admin, stop: threading.Event) -> None:
    Mirror(admin).run(stop)
    connections.close_all()


def test_unreachable_is_a_client_error() -> None:
    with Admin("127.0.0.1:1") as admin, pytest.raises(BrokerUnreachable):
        admin.brokers()
    assert issubclass(MirrorBusyError, RuntimeError)
