"""Beside the console on two masters and a slave of Apache RocketMQ: alerts, Redisson, snapshots, dashboards."""

from __future__ import annotations

import json
import queue
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from broker.client import Admin, Consumer
from broker.mirror.models import MirrorState, Replica
from broker.redisson import DelayedQueue, StringCodec
from broker.redisson.to_topic import make_reliable, read_mode
from broker.redisson.transfer import transfer_service
from console import snapshots
from console.features.alerts import deliveries, evaluate
from console.features.alerts.models import Alert, AlertRule
from console.features.dashboards.models import DashboardRun
from console.past import Snapshot
from tests.console.alerts.stage import Webhook, rule
from tests.console.alerts.stage import webhook as webhook
from tests.console.ui.test_pages import words
from tests.interop.apache_cluster import A, ApacheCluster, B
from tests.interop.engine_stage import Stage, staged
from tests.interop.redis_servers import RedisServer
from tests.interop.transactional_project import bodies_by_broker
from tests.waiting import until

BOTH = (A, B)
MINUTE_MS = 60_000
#: of a queue of Redisson
VALUES, DUE_EVERY_MS = 400, 20
What = AlertRule.What


@pytest.fixture
def stage(quick_apaches: ApacheCluster, transactional_db: None, settings: Any) -> Iterator[Stage]:
    with staged(quick_apaches.namesrv, BOTH, settings, processes=3) as made:
        yield made


@pytest.fixture
def operator(transactional_db: None) -> Client:
    browser = Client()
    browser.force_login(get_user_model().objects.create_superuser("operator", password="a long secret"))
    return browser


def is_read(what: str, subject: str, value: float) -> bool:
    """Whether a round of alerting reads this now."""
    found = evaluate.read((what,))
    return what in found.told and evaluate.Reading(what, subject, value) in found.readings


def judged(what: str) -> list[str]:
    """The subjects of which one more round tells, as the timetable has it."""
    news = evaluate.watch(evaluate.read((what,)))
    for each in news:
        deliveries.tell(each, timezone.now())
    deliveries.send_due(timezone.now())
    return [each.alert.subject for each in news]


def consumed(stage: Stage, topic: str, group: str, count: int) -> None:
    """Have a consumer of the group take so many messages."""
    inbox: queue.Queue[str] = queue.Queue()
    consumer = Consumer(group, stage.namesrv, from_where="first")
    consumer.subscribe(topic, "*", lambda message: inbox.put(message.body.decode()))
    with consumer:
        for _ in range(count):
            inbox.get(timeout=60)


def test_a_lag_at_both_brokers_is_one_alert_that_ends(stage: Stage, webhook: Webhook, topic: str, group: str) -> None:
    stage.create(topic)
    stage.send_to_each(topic, "before")
    before = sum(stage.stored(topic).values())
    consumed(stage, topic, group, before)
    rule(what=What.BACKLOG, subject=group, limit=15, for_s=0, webhook=f"{webhook.origin}/alerts")
    for broker in BOTH:
        for _ in range(10):
            stage.producer.send(topic, "waits", broker=broker)
    until(lambda: is_read(What.BACKLOG, group, 20), 60)
    assert judged(What.BACKLOG) == [group]
    consumed(stage, topic, group, 20)
    until(lambda: is_read(What.BACKLOG, group, 0), 60)
    assert judged(What.BACKLOG) == [group]
    assert [json.loads(body)["state"] for _, body in webhook.got] == ["raised", "over"]


def test_dead_letters_of_both_are_added(stage: Stage, topic: str, group: str) -> None:
    stage.create(topic)
    for admin in stage.admins.values():
        admin.create_group(group)
    until(lambda: MirrorState.objects.filter(error="", polling=True).count() == 2)
    for sent in stage.send_to_each(topic, "pay").values():
        admin = stage.admins[sent.broker]
        admin.send_back(
            group, admin.message_by_offset_id(sent.offset_message_id), delay_level=-1, max_reconsume_times=0
        )
    until(lambda: is_read(What.DEAD_LETTERS, group, 2), 60)


def test_a_master_that_is_away_is_told_though_its_slave_is_read(quick_apaches: ApacheCluster, stage: Stage) -> None:
    rule(what=What.BROKER_DOWN, limit=12, for_s=0)
    assert judged(What.BROKER_DOWN) == []
    with quick_apaches.a.dead():
        until(lambda: MirrorState.objects.filter(broker=A, slave_number=1, error="").exists(), 60)
        until(lambda: judged(What.BROKER_DOWN) == [A], 60)
    until(lambda: MirrorState.objects.filter(broker=A, slave_number=None, error="").exists(), 60)
    until(lambda: judged(What.BROKER_DOWN) == [A], 60)
    assert Alert.objects.get().state == Alert.State.ENDED


def test_a_snapshot_has_both_brokers(stage: Stage, operator: Client, topic: str, group: str) -> None:
    stage.create(topic)
    for admin in stage.admins.values():
        admin.create_group(group)
    for nth, broker in enumerate(BOTH, start=1):
        for _ in range(nth):
            stage.producer.send(topic, "lane", delay_level=8, broker=broker)
            stage.producer.send(topic, "later", delay_ms=10 * MINUTE_MS, broker=broker)
    taken: dict[str, Snapshot] = {}

    def is_in() -> bool:
        Snapshot.objects.all().delete()
        taken.update({row.broker: row for row in snapshots.take()})
        return [taken[name].lanes_pending for name in BOTH] == [1, 2]

    until(is_in, 60, every_s=1)
    assert [taken[name].why for name in BOTH] == [{}, {}]
    assert [taken[name].timers_pending for name in BOTH] == [1, 2]
    for name in BOTH:
        for page in ("schedule", "timers", "groups"):
            said = words(operator.get(f"/at/{name}/{page}/", {"as_of": taken[name].at_ms}))
            assert f"snapshot of {name}" in said, (name, page, said)


def test_a_snapshot_of_a_dead_broker_says_so(quick_apaches: ApacheCluster, stage: Stage, operator: Client) -> None:
    with quick_apaches.b.dead():
        until(lambda: Replica.objects.get(broker=B, number=0).error)
        until(lambda: MirrorState.objects.get(broker=B).error, 60)
        began_s = time.monotonic()
        taken = {row.broker: row for row in snapshots.take()}
        assert time.monotonic() - began_s < 10
        assert set(taken) == set(BOTH)
        assert taken[A].why == {}
        assert set(taken[B].why) == {"lanes", "timers", "transactions", "groups"}
        for page in ("schedule", "timers", "groups"):
            assert operator.get(f"/at/{B}/{page}/", {"as_of": taken[B].at_ms}).status_code == 200
    until(lambda: MirrorState.objects.filter(broker=B, error="").exists(), 60)


@pytest.fixture
def reliable(quick_apaches: ApacheCluster, topic: str, tmp_path: Path) -> Iterator[DelayedQueue]:
    """A delayed queue in a Valkey whose due values go to a topic of both brokers, and the service that moves them."""
    with Admin(quick_apaches.namesrv) as admin:
        admin.create_topic(topic, queues=2)
        until(lambda: len(admin.route(topic).writable()) == 4)
    server = RedisServer(tmp_path / "valkey").start()
    with server.client() as client:
        ours = DelayedQueue("orders", client, codec=StringCodec())
        make_reliable(ours, topic)
        service = transfer_service(server.url, server.url, quick_apaches.namesrv, queues=[ours.name])
        service.start()
        yield ours
        service.stop()
    server.kill()


def test_due_values_of_redisson_reach_the_topic_while_a_master_dies(
    quick_apaches: ApacheCluster, reliable: DelayedQueue, topic: str
) -> None:
    for number in range(VALUES):
        reliable.offer(f"v{number}", DUE_EVERY_MS * number)
    until(lambda: read_mode(reliable).sent >= 50, 60)
    with quick_apaches.a.dead():
        meanwhile = read_mode(reliable).sent
        until(lambda: read_mode(reliable).sent >= meanwhile + 100, 60)
    until(lambda: read_mode(reliable).sent >= VALUES, 60)
    by_broker = bodies_by_broker(quick_apaches, topic)
    assert set(by_broker) == set(BOTH)
    # at least once: what was on its way to the one that died may come twice
    assert set(sum(by_broker.values(), Counter())) == {f"v{number}" for number in range(VALUES)}
    assert read_mode(reliable).sending == 0 == reliable.size()


def test_dashboards_of_both_brokers(stage: Stage, operator: Client, topic: str) -> None:
    stage.create(topic)
    counts = dict(zip(BOTH, (3, 5), strict=True))
    for broker, count in counts.items():
        for _ in range(count):
            stage.producer.send(topic, "plain", broker=broker)
    for broker in BOTH:
        call_command("dashboards", "run", "flow", "--namesrv", stage.namesrv, "--broker", broker)
    assert set(DashboardRun.objects.filter(state="done").values_list("broker", flat=True)) == set(BOTH)
    for broker, count in counts.items():
        answer: Any = operator.get(f"/at/{broker}/dashboards/flow/data.json?topic={topic}")
        found = json.loads(b"".join(answer.streaming_content))["points"]
        assert sum(row["value"] for row in found if row["series"] == "sent") == count, found
        assert topic in words(operator.get(f"/at/{broker}/dashboards/flow/"))
