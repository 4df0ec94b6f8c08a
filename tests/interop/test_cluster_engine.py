"""Apache RocketMQ as the engine: two masters and a slave, under the mirror, the console, REST and the client."""

from __future__ import annotations

import asyncio
import json
import queue
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from broker.client import Admin, Consumer, Decision, TransactionProducer, prepare
from broker.mirror.models import ConsumerGroup, MirrorState, Replica, Topic
from broker.testing import BrokerThread, small_store
from console.features.dead_letters import pages as dead_letters_pages
from console.features.dead_letters.shapes import DeadLetterFilter, read_after
from console.features.timers import read as timers_read
from console.features.timers.shapes import TimerFilter, TimerRow
from console.features.transactions import pages as transactions_pages
from console.features.transactions.shapes import TransactionFilter, TransactionRow
from console.operations import workflow
from console.operations.actor import PERMISSIONS, Actor
from console.operations.models import Operation
from console.rest.app import create_application
from console.security import tokens as security_tokens
from console.site.chosen import choice_of, choosing
from tests.console.ui.test_pages import words
from tests.interop.apache_cluster import A, ApacheCluster, B
from tests.interop.engine_stage import Stage, crawled, staged
from tests.waiting import until

BOTH = (A, B)
MINUTE_MS = 60_000
OURS = "ours-1"
ACTOR = Actor("token shop", frozenset(PERMISSIONS))


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@pytest.fixture(scope="module")
def apaches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheCluster]:
    with ApacheCluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
def stage(apaches: ApacheCluster, transactional_db: None, settings: Any) -> Iterator[Stage]:
    with staged(apaches.namesrv, BOTH, settings, processes=3) as made:
        yield made


@pytest.fixture
def operator(transactional_db: None) -> Client:
    browser = Client()
    browser.force_login(get_user_model().objects.create_superuser("operator", password="a long secret"))
    return browser


@pytest.fixture
def token(transactional_db: None) -> str:
    return security_tokens.create("test", security_tokens.scope_rows(("*",), ("*",), (), ("*",)))[1]


def done(kind: str, parameters: dict[str, Any], broker: str = "") -> Operation:
    with choosing(choice_of(broker)):
        row = workflow.start(kind, parameters, ACTOR, reason="tried")
    assert row.state == Operation.State.DONE, row.error
    return row


def timers(topic: str) -> tuple[TimerRow, ...]:
    return timers_read.timer_list(TimerFilter(topic)).rows


def halves(topic: str, state: str = "open") -> tuple[TransactionRow, ...]:
    return transactions_pages.read_transaction_list(TransactionFilter(state, topic=topic)).rows


def dead_letters(group: str) -> set[str]:
    return {row.broker for row in dead_letters_pages.dead_letters(group, DeadLetterFilter(), read_after("")).rows}


def filled(stage: Stage, topic: str, group: str) -> None:
    """Something of everything at both brokers."""
    stage.create(topic)
    for admin in stage.admins.values():
        admin.create_group(group)
    for sent in stage.send_to_each(topic, "pay", keys=["order-1"]).values():
        admin = stage.admins[sent.broker]
        record = admin.message_by_offset_id(sent.offset_message_id)
        admin.send_back(group, record, delay_level=-1, max_reconsume_times=0)
    stage.send_to_each(topic, "later", keys=["timer"], deliver_at_ms=now_ms() + 10 * MINUTE_MS)
    stage.send_to_each(topic, "lane", keys=["lane"], delay_level=18)
    with TransactionProducer("engine-payers", stage.namesrv, check=lambda _: Decision.UNKNOWN) as payers:
        begun: set[str] = set()
        while len(begun) < 2:
            begun.add(payers.send_half(topic, prepare("half", keys=["half"])).broker)
    until(lambda: {row.broker for row in timers(topic)} == set(BOTH))
    until(lambda: {row.broker for row in halves(topic)} == set(BOTH))
    until(lambda: dead_letters(group) == set(BOTH))
    # pages know what the mirror has listed, which it does every ten seconds
    until(lambda: Topic.objects.filter(name=topic).count() == 2, 30)
    until(lambda: ConsumerGroup.objects.filter(name=group).count() == 2, 30)


@pytest.mark.core
def test_the_mirror_has_both_masters_and_the_slave(apaches: ApacheCluster, stage: Stage, topic: str) -> None:
    stage.create(topic)
    sent = Counter(stage.producer.send(topic, "x").broker for _ in range(8))
    stage.await_mirrored(topic, dict(sent))
    assert set(Topic.objects.filter(name=topic).values_list("broker", flat=True)) == set(BOTH)
    rows = {(row.broker_id, row.number): row for row in Replica.objects.all()}
    assert {key: (row.role, row.address) for key, row in rows.items()} == {
        (A, 0): ("master", apaches.a.address),
        (A, 1): ("slave", apaches.slave.address),
        (B, 0): ("master", apaches.b.address),
    }
    end = int(stage.admins[A].runtime()["commitLogMaxOffset"])
    until(lambda: (Replica.objects.get(broker=A, number=1).log_end_position or 0) >= end)
    assert set(MirrorState.objects.values_list("broker", "polling", "slave_number")) == {
        (A, True, None),
        (B, True, None),
    }


def test_messages_reach_a_handler_from_both(stage: Stage, topic: str, group: str) -> None:
    stage.create(topic)
    inbox: queue.Queue[str] = queue.Queue()
    consumer = Consumer(group, stage.namesrv, from_where="first")
    consumer.subscribe(topic, "*", lambda message: inbox.put(message.body.decode()))
    with consumer:
        sent = [stage.producer.send(topic, str(number)).broker for number in range(20)]
        stage.producer.send(topic, "in a second", delay_level=1)
        stage.producer.send(topic, "at a moment", deliver_at_ms=now_ms() + 2_000)
        got = {inbox.get(timeout=40) for _ in range(22)}
    assert set(sent) == set(BOTH)
    assert got == {*map(str, range(20)), "in a second", "at a moment"}


def test_one_broker_is_asked_by_its_name(stage: Stage, topic: str) -> None:
    with Admin(stage.namesrv, broker=B) as second:
        second.create_topic(topic, queues=1)
        until(lambda: topic in {each.name for each in second.topics()})
    assert topic not in {each.name for each in stage.admins[A].topics()}


def test_offsets_are_reset_at_both(stage: Stage, topic: str, group: str) -> None:
    stage.create(topic)
    inbox: queue.Queue[str] = queue.Queue()
    consumer = Consumer(group, stage.namesrv, from_where="first")
    consumer.subscribe(topic, "*", lambda message: inbox.put(message.body.decode()))
    with consumer:
        sent = Counter(stage.producer.send(topic, "x").broker for _ in range(8))
        for _ in range(8):
            inbox.get(timeout=40)

    def read_at() -> Counter[str]:
        found: Counter[str] = Counter()
        for name, admin in stage.admins.items():
            for part in admin.consume_stats(group).queues:
                if part.queue.topic == topic:
                    found[name] += part.consumer_offset
        return found

    until(lambda: read_at() == sent)
    stage.await_mirrored(topic, dict(sent))
    reset = done("groups.reset_offsets", {"group": group, "topic": topic, "to": "first"})
    assert {item.label["broker"] for item in reset.items.all()} == set(BOTH)
    assert read_at() == Counter()


def test_rest_sends_and_looks_at_both(stage: Stage, token: str, topic: str) -> None:
    stage.create(topic)

    async def sent_and_seen() -> list[tuple[str, str]]:
        application = create_application(stage.namesrv)
        found: list[tuple[str, str]] = []
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(application), base_url="http://testserver",
            headers={"authorization": f"Bearer {token}"},
        ) as api:  # fmt: skip
            for number in range(8):
                sent = await api.post(f"/api/v1/topics/{topic}/messages", json={"body": str(number)})
                assert sent.status_code == 201, sent.text
                looked = await api.get(f"/api/v1/messages/{sent.json()['id']}")
                assert looked.status_code == 200, looked.text
                found.append((sent.json()["broker"], json.dumps(looked.json())))
            later = await api.post(
                f"/api/v1/topics/{topic}/messages", json={"body": "later", "delay_ms": 10 * MINUTE_MS}
            )
            assert later.status_code == 201, later.text
            chosen = {"timers": [{"id": later.json()["id"]}], "reason": "tried"}
            gone = await api.post("/api/v1/timers:cancel", json=chosen)
            assert gone.json().get("results") == {"recall_noted": 1}, gone.text
        await application.state.holder.close()
        return found

    found = asyncio.run(sent_and_seen())
    assert {broker for broker, _ in found} == set(BOTH)
    for broker, looked in found:
        assert broker in looked


def test_one_of_ours_stands_beside_them(
    apaches: ApacheCluster, transactional_db: None, settings: Any, operator: Client, topic: str, tmp_path: Path
) -> None:
    config = replace(small_store(tmp_path), broker_name=OURS)
    with BrokerThread(config, register_at=apaches.namesrv) as ours:
        until(lambda: ours.registered)
        with staged(apaches.namesrv, (*BOTH, OURS), settings, processes=4) as stage:
            stage.create(topic)
            sent = stage.send_to_each(topic, "later", keys=["mixed"], deliver_at_ms=now_ms() + 10 * MINUTE_MS)
            assert set(sent) == {*BOTH, OURS}
            until(lambda: {row.broker for row in timers(topic)} == {*BOTH, OURS})
            until(lambda: Topic.objects.filter(name=topic).count() == 3, 30)
            _, failed = crawled(operator, "/", f"/topics/{topic}/", "/timers/list/")
            assert failed == []
            for address in ("/", "/topics/", f"/topics/{topic}/", "/timers/list/", "/clients/"):
                said = words(operator.get(address))
                assert [name for name in (*BOTH, OURS) if name not in said] == [], address


def test_a_master_dies_and_comes_back(
    apaches: ApacheCluster, stage: Stage, operator: Client, topic: str, group: str
) -> None:
    stage.create(topic)
    counts = Counter(stage.producer.send(topic, f"before {number}").broker for number in range(12))
    stage.await_mirrored(topic, dict(counts))
    apaches.await_copied(topic)
    topics = set(Topic.objects.filter(broker=A).values_list("name", flat=True))
    apaches.a.kill()
    began_s = time.monotonic()
    until(lambda: Replica.objects.get(broker=A, number=0).error)
    assert time.monotonic() - began_s < 10
    until(lambda: MirrorState.objects.filter(broker=A, slave_number=1, error="").exists(), 15)
    assert topics <= set(Topic.objects.filter(broker=A).values_list("name", flat=True)), "its rows stay"
    assert apaches.slave.address in words(operator.get("/"))
    _, failed = crawled(operator, "/", f"/topics/{topic}/", f"/at/{A}/topics/{topic}/", "/timers/list/", "/groups/")
    assert failed == []
    inbox: queue.Queue[str] = queue.Queue()
    consumer = Consumer(group, stage.namesrv, from_where="first")
    consumer.subscribe(topic, "*", lambda message: inbox.put(message.body.decode()))
    with consumer:
        assert {inbox.get(timeout=60) for _ in range(12)} == {f"before {number}" for number in range(12)}
        assert {stage.producer.send(topic, "meanwhile").broker for _ in range(4)} == {B}
        assert [inbox.get(timeout=60) for _ in range(4)] == ["meanwhile"] * 4
        apaches.a.start()
        until(lambda: MirrorState.objects.filter(broker=A, slave_number=None, error="").exists(), 60)
        until(lambda: not Replica.objects.filter(broker=A).exclude(error="").exists(), 30)
        until(lambda: stage.producer.send(topic, "after").broker == A, 60)
        until(lambda: inbox.get(timeout=60) == "after")
    apaches.await_copied()


def test_every_page_in_total_and_at_each_broker(stage: Stage, operator: Client, topic: str, group: str) -> None:
    filled(stage, topic, group)
    consumer = Consumer(group, stage.namesrv, from_where="first")
    consumer.subscribe(topic, "*", lambda _: None)
    with consumer:
        until(lambda: len([each for each in consumer.queues if each.topic == topic]) == 4)
        until(lambda: all(len(admin.consumers([group])) == 1 for admin in stage.admins.values()))
        opened, failed = crawled(operator, "/", f"/topics/{topic}/", f"/groups/{group}/", f"/dead-letters/of/{group}/")
    assert failed == []
    for name in BOTH:
        assert any(address.startswith(f"/at/{name}/timers/") for address in opened)
    assert len(opened) > 60
    for address, what in {
        "/topics/": topic, "/groups/": group, "/timers/list/": "timer", "/transactions/list/": "half",
        "/dead-letters/": group, f"/dead-letters/of/{group}/": "order-1", f"/messages/?topic={topic}&key=order-1": "",
    }.items():  # fmt: skip
        said = words(operator.get(address))
        assert what in said
        assert A in said, address
        assert B in said, address


def test_transactions_are_shown_from_both(stage: Stage, topic: str, group: str) -> None:
    stage.create(topic)
    with TransactionProducer(group, stage.namesrv, check=lambda _: Decision.UNKNOWN) as producer:
        begun = [producer.send_half(topic, prepare(str(number))) for number in range(8)]
        assert {half.broker for half in begun} == set(BOTH)
        for number, half in enumerate(begun):
            (producer.rollback if number == 7 else producer.commit)(half)
    until(lambda: stage.stored(topic) == Counter(map(str, range(7))))


def test_operations_are_done_where_the_message_lies(stage: Stage, topic: str, group: str) -> None:
    filled(stage, topic, group)
    letters = dead_letters_pages.dead_letters(group, DeadLetterFilter(), read_after("")).rows
    again = done("dead_letters.send_as_new", {"group": group, "filter": {}, "is_all": True})
    assert again.results == {"sent_as_new": len(letters)}
    assert {item.label["broker"] for item in again.items.all()} == set(BOTH)
    for name in BOTH:
        (timer,) = [row for row in timers(topic) if row.broker == name][:1]
        recalled = done("timers.cancel", {"targets": [{"position": timer.position}]}, name)
        assert (recalled.broker, recalled.results) == (name, {"recall_noted": 1})
        until(
            lambda row=timer: row.position not in {each.position for each in timers(topic) if each.broker == row.broker}
        )
        (half,) = [row for row in halves(topic) if row.broker == name][:1]
        decided = done("transactions.commit", {"targets": [{"offset": half.offset, "position": half.position}]}, name)
        assert decided.broker == name, decided.results
        until(lambda row=half: (row.broker, row.offset) not in {(each.broker, each.offset) for each in halves(topic)})
    until(lambda: stage.stored(topic)["half"] == 2)
