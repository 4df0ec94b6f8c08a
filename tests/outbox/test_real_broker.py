"""Every way of sending from a transaction with a real broker: what a message asks for is what it gets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection, transaction

from broker.client import Admin, Decision, InvalidArgument, Message, Producer
from broker.outbox import send_later, send_on_commit, transactional
from broker.outbox.decisions import check
from broker.outbox.models import OutboxHalf, OutboxMessage
from broker.outbox.transaction_block import close_all
from broker.testing import BrokerThread, small_store
from tests.interop.waiting import wait_until
from tests.waiting import until

pytestmark = pytest.mark.django_db(transaction=True)
QUEUES = 4
MESSAGES = 12
PATIENCE_S = 20
HOUR_MS = 3_600_000
Send = Callable[..., Any]


@pytest.fixture
def broker(tmp_path: Path, settings: Any) -> Iterator[BrokerThread]:
    """A running broker to which Django's settings point."""
    with BrokerThread(small_store(tmp_path)) as running, Admin(running.namesrv) as admin:
        settings.ESCAPEMENT_NAMESRV = running.namesrv
        settings.ESCAPEMENT_PRODUCER_GROUPS = ["shop"]
        admin.create_topic("orders", queues=QUEUES)
        yield running
        close_all()


def within_its_transaction(work: Callable[[Send], None]) -> None:
    with transactional() as block:
        work(block.send)


def by_a_worker(work: Callable[[Send], None]) -> None:
    with transaction.atomic():
        work(send_later)
    call_command("outbox", "--once", stdout=StringIO())


def after_the_commit(work: Callable[[Send], None]) -> None:
    with transaction.atomic():
        work(send_on_commit)


WAYS = [within_its_transaction, by_a_worker, after_the_commit]


def stored(broker: BrokerThread) -> dict[int, list[Message]]:
    """What the topic's queues hold."""
    with Admin(broker.namesrv) as admin:
        return {number: admin.pull("orders", number, 0, 32) for number in range(QUEUES)}


def bodies(queues: dict[int, list[Message]]) -> list[str]:
    return [each.body.decode() for queue in queues.values() for each in queue]


@pytest.mark.parametrize("way", WAYS)
def test_messages_of_one_key_keep_their_order_in_one_queue(way: Any, broker: BrokerThread) -> None:
    def work(send: Send) -> None:
        for number in range(MESSAGES):
            send("orders", f"a{number}", sharding_key="a")
            send("orders", f"c{number}", sharding_key="c")
            send("orders", "any")

    way(work)
    with Producer("java", broker.namesrv) as producer:  # what it chooses is what RocketMQ's selector chooses
        chosen = {key: producer.send("orders", "last", sharding_key=key).queue_id for key in ("a", "c")}
    assert chosen["a"] != chosen["c"]
    queues = stored(broker)
    for key, queue in chosen.items():
        mine = [each for each in queues[queue] if each.properties.get("__SHARDINGKEY") == key]
        assert [each.body.decode() for each in mine] == [*(f"{key}{number}" for number in range(MESSAGES)), "last"]
    assert bodies(queues).count("any") == MESSAGES


@pytest.mark.parametrize("way", WAYS)
def test_messages_for_one_queue_go_there_in_order(way: Any, broker: BrokerThread) -> None:
    way(lambda send: [send("orders", str(number), queue_id=2) for number in range(MESSAGES)])
    queues = stored(broker)
    assert [each.body.decode() for each in queues[2]] == [str(number) for number in range(MESSAGES)]
    assert len(bodies(queues)) == MESSAGES


@pytest.mark.parametrize("way", WAYS)
def test_what_a_message_carries_arrives(way: Any, broker: BrokerThread) -> None:
    options: dict[str, Any] = {
        "tag": "made", "keys": ["4711"], "properties": {"amount": "3"}, "wait_for_disk": False, "queue_id": 1,
    }  # fmt: skip
    way(lambda send: send("orders", "b", **options))
    assert wait_until(lambda: len(stored(broker)[1]) == 1, PATIENCE_S)  # not waiting for the disk, nor for readers
    (message,) = stored(broker)[1]
    carried = {name: message.properties[name] for name in ("TAGS", "KEYS", "amount", "WAIT")}
    assert carried == {"TAGS": "made", "KEYS": "4711", "amount": "3", "WAIT": "false"}


@pytest.mark.parametrize("way", WAYS)
def test_a_timer_of_a_transaction_takes_the_place_of_the_one_with_its_key(way: Any, broker: BrokerThread) -> None:
    for body in ("first", "second"):
        way(lambda send, body=body: send("orders", body, delay_ms=HOUR_MS, schedule_key="4711", on_conflict="replace"))
    assert waiting(broker) == ["second"]


@pytest.mark.parametrize("conflict", [{}, {"on_conflict": "error"}, {"on_conflict": "keep"}])
def test_a_half_is_refused_what_could_not_be_kept_to_at_its_commit(broker: BrokerThread, conflict: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"replace.*send_later") as refused, transactional() as block:
        block.send("orders", "never", delay_ms=HOUR_MS, schedule_key="4711", **conflict)
    assert refused.value.field == "on_conflict"
    assert (waiting(broker), OutboxHalf.objects.count()) == ([], 0)
    with Admin(broker.namesrv) as admin:
        assert "RMQ_SYS_TRANS_HALF_TOPIC" not in {each.name for each in admin.topics()} or not any(
            queue.max_offset for queue in admin.topic_stats("RMQ_SYS_TRANS_HALF_TOPIC").queues
        )


@pytest.mark.parametrize("way", [by_a_worker, after_the_commit])
def test_the_other_ways_keep_to_it(way: Any, broker: BrokerThread) -> None:
    for conflict in ("error", "keep", "error"):
        way(lambda send, each=conflict: send("orders", each, delay_ms=HOUR_MS, schedule_key="4711", on_conflict=each))
    assert waiting(broker) == ["error"]


def waiting(broker: BrokerThread) -> list[str]:
    """Bodies of the timers that wait under the key."""
    with Admin(broker.namesrv) as admin:
        found = admin.timers(0, 2**53, topic="orders", key="4711").items
        return [admin.message_by_offset_id(each.offset_message_id).body.decode() for each in found]


def test_a_row_of_an_older_release_is_sent(broker: BrokerThread) -> None:
    row = send_later("orders", "old", sharding_key="a")
    insert = (
        "INSERT INTO escapement_outbox_message (topic, body, properties, unique_id, written_at, attempts, last_error)"
        " SELECT topic, body, properties, unique_id, written_at, 0, '' FROM escapement_outbox_message"
    )
    with connection.cursor() as cursor:
        cursor.execute(insert)
    row.delete()
    call_command("outbox", "--once", stdout=StringIO())
    assert bodies(stored(broker)) == ["old"]
    assert not OutboxMessage.objects.exists()


def test_a_check_of_what_is_shown_already_rolls_back(broker: BrokerThread) -> None:
    """As of a broker that was killed before the word of the commit was on its disk; the lost one was not shown."""
    with transactional() as block:
        half = block.send("orders", "4711")
    with Admin(broker.namesrv) as admin:
        [shown] = until(lambda: admin.records_by_id("orders", half.transaction_id))
    rows = OutboxHalf.objects.filter(pk=half.transaction_id)
    assert rows.get().state == OutboxHalf.State.CONFIRMED
    assert check(shown) is Decision.ROLLBACK
    assert rows.get().state == OutboxHalf.State.DONE
    OutboxHalf.objects.create(transaction_id="LOST", producer_group="shop", topic="orders")
    assert check(replace(shown, properties=shown.properties | {"UNIQ_KEY": "LOST"})) is Decision.COMMIT
