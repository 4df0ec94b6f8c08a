"""The Timers pages on an Apache RocketMQ broker: pending timers by pulling, 60 and 61, cancel by recall."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from html import unescape
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from broker.client import Admin, Consumer, Producer
from broker.mirror.follower import Mirror
from console.features.timers import apache_records as timers_apache
from console.features.timers import read as timers_read
from console.features.timers.shapes import TimerFilter
from console.operations.models import AuditEntry, Operation
from console.site.broker import hang_up
from tests.interop.servers import Server
from tests.interop.waiting import wait_until

TOPIC = "TimersPageTopic"
MINUTE_MS = 60_000


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@pytest.fixture
def mirror(apache: Server, transactional_db: None, settings: Any) -> Iterator[Mirror]:
    settings.ESCAPEMENT_NAMESRV = apache.namesrv
    with Admin(apache.namesrv) as admin:
        admin.create_topic(TOPIC, queues=1)
        follower = Mirror(admin)
        follower.run_once()
        yield follower
        follower.close()
    hang_up()
    timers_apache.hang_up()


@pytest.fixture
def producer(apache: Server, mirror: Mirror) -> Iterator[Producer]:
    with Producer(group="timers-page", namesrv=apache.namesrv) as client:
        yield client


@pytest.fixture
def operator(transactional_db: None) -> Client:
    browser = Client()
    browser.force_login(get_user_model().objects.create_superuser("operator", password="a long secret"))
    return browser


def words(page: bytes) -> str:
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", page.decode())))


def waiting(key: str) -> list[str]:
    return [row.name for row in timers_read.timer_list(TimerFilter(TOPIC, key)).rows]


def test_pending_timers_are_pulled_and_in_due_order(mirror: Mirror, producer: Producer) -> None:
    base = now_ms() + 10 * MINUTE_MS
    moments = [base + 7_000, base + 1_234, base + 99_999]
    for number, moment in enumerate(moments):
        producer.send(TOPIC, f"{number}", keys=[f"order-{number}", "pulled"], deliver_at_ms=moment)
    assert wait_until(lambda: len(waiting("pulled")) == 3)
    found = timers_read.timer_list(TimerFilter(TOPIC, "pulled"))
    assert [row.due_ms for row in found.rows] == sorted(moments)
    assert [row.name for row in found.rows] == ["order-1", "order-0", "order-2"]
    assert (found.evidence.requests, found.evidence.stale) == ((202, 11), False)
    assert found.newest_read == found.records
    assert waiting("nobody") == []
    life = timers_read.timer_life(found.rows[0].position)
    assert (life.state, life.timer) == ("pending", found.rows[0])


def test_the_page_says_what_is_there_and_what_is_not(mirror: Mirror, producer: Producer, operator: Client) -> None:
    producer.send(TOPIC, "soon", keys=["shown"], delay_ms=MINUTE_MS)
    assert wait_until(lambda: bool(waiting("shown")))
    # counted when the broker has indexed it, which it does by itself
    assert wait_until(lambda: (timers_read.timers().figures.pending or 0) > 0)
    data = timers_read.timers()
    assert data.polled
    assert data.figures.read_ms is not None
    assert abs(data.figures.read_ms - now_ms()) < MINUTE_MS
    assert data.wheel is not None
    assert data.wheel.rings[1].total >= 1
    assert TOPIC in [row.topic for row in data.topics]
    assert (data.forecast, data.lateness, data.figures.paused, data.figures.early_total) == (None, None, None, None)
    answer = operator.get("/timers/")
    text = words(answer.content)
    assert answer.status_code == 200
    for said in ("shown", TOPIC, "Apache RocketMQ broker", "Not reported by this broker", "requests 202, 11"):
        assert said in text, said
    assert re.search(r"<button[^>]*disabled[^>]*>\s*Pause all timers", answer.content.decode())
    assert operator.post("/operations/draft/", {"kind": "timers.pause"}).status_code == 422
    (row,) = timers_read.timer_list(TimerFilter(TOPIC, "shown")).rows
    own = operator.get(f"/timers/{row.position}/").content.decode()
    for act in ("Reschedule…", "Deliver now…"):
        assert re.search(rf"<button[^>]*disabled[^>]*>\s*{act}", own), act
    assert re.search(r"<button[^>]*timers.cancel[^>d]*>\s*Cancel…", own)


def test_a_cancel_is_a_recall_and_the_message_never_comes(
    apache: Server, mirror: Mirror, producer: Producer, operator: Client
) -> None:
    got: list[str] = []
    consumer = Consumer("timers-page", apache.namesrv, from_where="first")
    consumer.subscribe(TOPIC, "*", lambda message: got.append(message.body.decode()))
    due_ms = now_ms() + 8_000
    producer.send(TOPIC, "cancelled", keys=["victim"], deliver_at_ms=due_ms)
    producer.send(TOPIC, "kept", keys=["kept"], deliver_at_ms=due_ms)
    assert wait_until(lambda: bool(waiting("victim") and waiting("kept")))
    position = timers_read.timer_list(TimerFilter(TOPIC, "victim")).rows[0].position
    drafted = operator.post("/operations/draft/", {"kind": "timers.cancel", "scope": "selected", "position": position})
    assert drafted.status_code == 303
    address = drafted.headers["Location"]
    assert "accepts a recall without reporting the result" in words(operator.get(address).content)
    assert operator.post(address + "confirm/", {"reason": "not needed"}).status_code == 303
    row = Operation.objects.get()
    assert (row.state, row.results) == ("done", {"recall_noted": 1})
    assert [entry.what for entry in AuditEntry.objects.order_by("id")] == ["confirmed", "finished"]
    assert wait_until(lambda: waiting("victim") == [])
    with consumer:
        assert wait_until(lambda: "kept" in got, 30)
        # its slot is the same: once the wheel has gone on it would be here, too
        assert wait_until(lambda: (timers_read.timers().figures.read_ms or 0) > due_ms + 3_000)
        assert "cancelled" not in got


def test_moving_is_refused_there(mirror: Mirror, producer: Producer, operator: Client) -> None:
    producer.send(TOPIC, "stays", keys=["stays"], delay_ms=5 * MINUTE_MS)
    assert wait_until(lambda: bool(waiting("stays")))
    address = operator.post(
        "/operations/draft/", {"kind": "timers.reschedule", "scope": "matching", "topic": TOPIC, "key": "stays"}
    ).headers["Location"]
    assert operator.post(address + "preview/", {"moment": "+1 h"}).status_code == 303
    assert operator.post(address + "confirm/", {"reason": "later"}).status_code == 303
    assert Operation.objects.get().results == {"refused": 1}
    assert "this broker does not support this request" in words(operator.get(address).content)
    assert waiting("stays") == ["stays"]


def test_deleting_a_topic_says_what_is_not_known_and_what_cannot_be_cancelled(
    apache: Server, mirror: Mirror, producer: Producer, operator: Client
) -> None:
    name = f"{TOPIC}Deleted"
    with Admin(apache.namesrv) as admin:
        admin.create_topic(name, queues=1)
        producer.send(name, "x", delay_ms=60 * MINUTE_MS)
        assert wait_until(lambda: any(each.topic == name for each in admin.timer_metrics()))
    drafted = operator.post("/operations/draft/", {"kind": "topics.delete", "name": name})
    assert drafted.status_code == 303
    address = str(drafted.headers["Location"])
    page = words(operator.get(address).content)
    assert "Pending messages 1 1 timer" in page
    assert "This broker does not report what else is pending" in page
    assert "Cancel all of them" not in page
    for pending, said in (("", "Choose what happens"), ("cancel", "This broker cannot cancel")):
        refused = operator.post(
            address + "confirm/", {"reason": "because", "typed": name, "pending": pending}
        )  # fmt: skip
        assert refused.status_code == 422
        assert said in words(refused.content)
    kept = operator.post(address + "confirm/", {"reason": "because", "typed": name, "pending": "keep"})
    assert kept.status_code == 303, words(kept.content)
    assert Operation.objects.get(pk=address.split("/")[2]).results == {"deleted": 1}
    assert "kept: none counted" in words(operator.get(address).content)
