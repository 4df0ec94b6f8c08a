"""docs/MOVING.md, live: timers that wait here moved to Apache RocketMQ and back; each fires once, and never early."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from django.core.management import call_command

from broker.client import Admin, ClientError, Message, Producer
from broker.testing import BrokerThread, small_store
from console.operations import workflow
from console.operations.actor import PERMISSIONS, Actor
from console.operations.models import Operation
from console.site.chosen import choice_of, choosing
from tests.console.kept import hang_up
from tests.interop.names import ApacheBroker, ApacheNamesrv
from tests.waiting import until

OURS, THEIRS = "ours-1", "broker-b"
ACTOR = Actor("token shop", frozenset(PERMISSIONS))


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Pair:
    """A broker of ours and one of Apache RocketMQ's at the same name server, with a topic that both have."""

    def __init__(self, namesrv: str, topic: str) -> None:
        self.namesrv, self.topic = namesrv, topic
        self.admins = {name: Admin(namesrv, broker=name) for name in (OURS, THEIRS)}
        for admin in self.admins.values():
            admin.create_topic(topic, queues=2)
        until(lambda: set(self.admins[OURS].route(topic).addresses) == {OURS, THEIRS}, 30)
        self.producer = Producer("shop", namesrv)

    def park(self, broker: str, count: int, due_ms: int, step_ms: int) -> dict[str, int]:
        """Timers `step_ms` apart at a broker; their moments by body."""
        dues = {f"{broker}-{number}": due_ms + number * step_ms for number in range(count)}
        for body, due in dues.items():
            self.producer.send(self.topic, body, keys=[body], deliver_at_ms=due, broker=broker)
        return dues

    def fired(self) -> list[Message]:
        """All that came out, at both."""
        found = []
        for name, admin in self.admins.items():
            for part in admin.topic_stats(self.topic).queues:
                offset = part.min_offset
                while offset < part.max_offset:
                    page = admin.pull(self.topic, part.queue.queue_id, offset, 32, broker=name)
                    found += page
                    offset = page[-1].queue_offset + 1
        return found

    def moved(self, source: str, to: str) -> Operation:
        with choosing(choice_of(source)):
            parameters = {"filter": {"topic": self.topic}, "to": to}
            row = workflow.start("timers.move_to_broker", parameters, ACTOR, reason="tried")
        assert row.state == "done", row.error
        return row

    def await_each_once(self, dues: dict[str, int], timeout_s: float = 40) -> None:
        """Wait until all came out; once, and none before its moment."""
        until(lambda: len(self.fired()) >= len(dues), timeout_s)
        # what would come out twice is due by now, and Apache RocketMQ's wheel is a second behind
        until(lambda: now_ms() > max(dues.values()) + 3_000, 10)
        fired = self.fired()
        assert Counter(each.body.decode() for each in fired) == dict.fromkeys(dues, 1)
        early = {each.body.decode(): each.store_ms - dues[each.body.decode()] for each in fired}
        assert min(early.values()) >= 0, early
        assert max(early.values()) < 5_000, early

    def close(self) -> None:
        self.producer.close()
        for admin in self.admins.values():
            admin.close()
        hang_up()


@pytest.fixture(scope="module")
def namesrv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The name server at which both are registered."""
    work = tmp_path_factory.mktemp("moving")
    names = ApacheNamesrv(work / "names")
    names.start()
    theirs = ApacheBroker(work / "theirs", names.namesrv, THEIRS)
    try:
        theirs.start()
        with BrokerThread(replace(small_store(work / "ours"), broker_name=OURS), register_at=names.namesrv) as ours:
            until(lambda: ours.registered)
            with Admin(names.namesrv) as admin:
                until(lambda: {each.name for each in admin.brokers()} == {OURS, THEIRS}, 30, not_yet=(ClientError,))
            yield names.namesrv
    finally:
        theirs.kill()
        names.kill()


@pytest.fixture
def pair(namesrv: str, transactional_db: None, settings: Any, topic: str) -> Iterator[Pair]:
    settings.ESCAPEMENT_NAMESRV = namesrv
    settings.MOVE_LEAVES_S = 2.0
    made = Pair(namesrv, topic)
    yield made
    made.close()


def test_to_apache_each_fires_there_once_and_never_early(pair: Pair) -> None:
    dues = pair.park(OURS, 60, now_ms() + 3_000, step_ms=117)
    results = pair.moved(OURS, THEIRS).results
    assert set(results) <= {"moved", "left", "already_delivered"}
    assert results["moved"] > 30
    pair.await_each_once(dues)
    assert pair.admins[OURS].timer_status().pending == 0
    moved = [each for each in pair.fired() if each.properties.get("MOVED_FROM", "").startswith(f"{OURS} ")]
    assert len(moved) == results["moved"]


def test_from_apache_each_fires_here_once(pair: Pair) -> None:
    dues = pair.park(THEIRS, 40, now_ms() + 6_000, step_ms=117)
    until(lambda: sum(each.count for each in pair.admins[THEIRS].timer_metrics() if each.topic == pair.topic) == 40, 20)
    results = pair.moved(THEIRS, OURS).results
    assert set(results) <= {"recall_noted", "left", "already_delivered"}
    assert results["recall_noted"] > 10
    pair.await_each_once(dues)


def test_new_sends_go_to_the_other_one_and_come_back(pair: Pair) -> None:
    call_command("sends", OURS, "stop", "--reason", "tried")
    with Producer("stopped", pair.namesrv) as producer:
        assert {producer.send(pair.topic, "x").broker for _ in range(8)} == {THEIRS}
    call_command("sends", OURS, "allow", "--reason", "tried")
    with Producer("allowed", pair.namesrv) as producer:
        assert {producer.send(pair.topic, "x").broker for _ in range(8)} == {OURS, THEIRS}
