"""transactional(), send_later and handlers of a Django project on two masters and a slave of Apache RocketMQ."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.client import Admin, Producer
from tests.interop.apache_cluster import A, ApacheCluster, B
from tests.interop.process import Child
from tests.interop.transactional_project import (
    START_S,
    Project,
    agree,
    bodies,
    bodies_by_broker,
    kill_at_statements,
    new_project,
    wait_until_all_are_asked,
)
from tests.interop.waiting import wait_until

BOTH = (A, B)
STRIDE = 20


@pytest.fixture
def project(quick_apaches: ApacheCluster, postgres: str, group: str, tmp_path: Path) -> Iterator[Project]:
    """A Django project on a new database."""
    with new_project(quick_apaches, postgres, group, tmp_path) as one:
        yield one


def create(project: Project, *topics: str) -> None:
    """Create topics of two queues at both brokers."""
    with Admin(project.server.namesrv) as admin:
        for topic in topics:
            admin.create_topic(topic, queues=2)
            assert wait_until(lambda name=topic: len(admin.route(name).writable()) == 4)


def made(program: Child, count: int) -> None:
    """Wait until a program has made so many orders more."""
    wanted = count + sum(line.startswith("made") for line in program.lines)
    program.wait_for(lambda lines: sum(line.startswith("made") for line in lines) >= wanted or None, START_S, "orders")


def test_database_and_topics_agree_after_kills(project: Project, topic: str) -> None:
    create(project, topic)
    assert kill_at_statements(project, topic, "commit", STRIDE) > 200
    assert set(bodies_by_broker(project.server, topic)) == set(BOTH)


def test_both_brokers_ask_at_once_when_all_web_processes_are_dead(project: Project, topic: str) -> None:
    create(project, topic)
    ends = [(end, broker) for end in ("dies-open", "dies-committed") for broker in BOTH]
    dying = [
        project.start("tests.interop.transactional_order", topic, f"{end} {broker}", "0", end, broker)
        for end, broker in ends
    ]
    assert [each.process.wait(START_S) for each in dying] == [-signal.SIGKILL] * 4
    wait_until_all_are_asked(project.server, topic)
    assert bodies(project.server, topic) == Counter()
    project.checkback()
    wait_until_all_are_asked(project.server, topic)
    shown = {broker: Counter({f"dies-committed {broker}": 1}) for broker in BOTH}
    assert wait_until(lambda: bodies_by_broker(project.server, topic) == shown, 60)
    assert agree(project, topic)


def test_failed_messages_come_again_and_become_dead_letters_at_both(project: Project, topic: str, group: str) -> None:
    create(project, topic)
    consuming = project.consume(topic, group)
    with Producer("shop", project.server.namesrv) as producer:
        for broker in BOTH:
            for name in ("works", "fails once", "fails always"):
                producer.send(topic, f"{name} {broker}", broker=broker)
    expected = Counter(
        (f"{name} {broker}", times) for broker in BOTH for name, times in (("works", 0), ("fails once", 1))
    )
    assert wait_until(lambda: project.handled() == expected, START_S), project.handled()
    dead = {broker: Counter({f"fails always {broker}": 1}) for broker in BOTH}
    assert wait_until(lambda: bodies_by_broker(project.server, f"%DLQ%{group}") == dead, START_S)
    assert consuming.stop() == 0


def test_a_master_dies_while_orders_are_made(
    quick_apaches: ApacheCluster, project: Project, topic: str, group: str
) -> None:
    later = f"{topic}-later"
    create(project, topic, later)
    workers = [project.checkback(), project.outbox(), project.consume(later, group)]
    programs = [
        project.start("tests.interop.transactional_orders", name, way)
        for name, way in ((topic, "transactional"), (later, "later"))
    ]
    for program in programs:
        made(program, 40)
    with quick_apaches.a.dead():
        for program in programs:
            made(program, 40)
    back = bodies_by_broker(project.server, topic)[A].total()
    assert wait_until(lambda: bodies_by_broker(project.server, topic)[A].total() > back + 20, START_S)
    assert [program.stop() for program in programs] == [0, 0]
    wait_until_all_are_asked(project.server, topic)
    orders = project.orders()
    once = Counter({order: 1 for order in orders if order.startswith("transactional")})
    assert wait_until(lambda: bodies(project.server, topic) == once, 60), bodies(project.server, topic) - once
    wanted = {order for order in orders if order.startswith("later")}
    assert wait_until(lambda: set(bodies(project.server, later)) == wanted, 60)
    assert project.waiting() == 0
    assert wait_until(lambda: {name for name, _ in project.handled()} == wanted, START_S)
    assert [worker.stop() for worker in workers] == [0, 0, 0]
