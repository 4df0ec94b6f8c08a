"""Brokers of ours and of Apache RocketMQ at name servers of either, and the official clients and tools with them."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker.client import Admin, Consumer, Message, Producer, RouteNotFound
from tests.interop.guarded import ROOT
from tests.interop.mqadmin import MqAdmin
from tests.interop.names import ApacheBroker, ApacheNamesrv, GuardedBroker, GuardedNamesrv, OurBroker, OurNamesrv
from tests.interop.programs import JavaConsumer, JavaProducer, JavaScheduler, JavaTransactor, Program
from tests.interop.readiness import is_routed
from tests.waiting import until

Part = OurNamesrv | ApacheNamesrv | ApacheBroker | OurBroker
Kept = Callable[..., Program]
#: Apache RocketMQ notices the end of a connection at once, and takes several such brokers out of its table together.
GONE_S = 15
DELAY_S = 2


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """A directory for each part of the cluster."""
    base = tmp_path_factory.mktemp("names")
    numbers = itertools.count(1)
    return lambda: base / f"part-{next(numbers)}"


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[[Part], Part]]:
    """Start parts that end with the test."""
    parts: list[Part] = []

    def start(part: Part) -> Part:
        parts.append(part)
        part.start()
        return part

    yield start
    for part in reversed(parts):
        part.kill()


@pytest.fixture
def program() -> Iterator[Callable[[Program], Program]]:
    """Have a program end with the test."""
    programs: list[Program] = []

    def keep(one: Program) -> Program:
        programs.append(one)
        return one

    yield keep
    for one in programs:
        one.child.kill()


def brokers_listed(admin: MqAdmin) -> set[tuple[str, str]]:
    """Names and ids of the brokers in mqadmin's list of clusters."""
    lines = [line.split() for line in admin.say("clusterList").out.splitlines()]
    return {(words[1], words[2]) for words in lines if len(words) > 3 and words[2].isdigit()}


def received(consumer: Program, count: int) -> list[str]:
    assert isinstance(consumer, JavaConsumer)
    return [str(event["body"]) for event in consumer.receive(count)]


def test_a_broker_of_apache_registers_at_our_name_service(
    started: Callable[..., Part], program: Kept, tmp_path: Path, topic: str, group: str
) -> None:
    names = started(OurNamesrv(tmp_path / "names"))
    broker = started(ApacheBroker(tmp_path / "apache", names.namesrv))
    admin = program(MqAdmin(names.namesrv, broker.address, work=tmp_path))
    until(lambda: brokers_listed(admin) == {("broker-a", "0")})
    producer = program(JavaProducer(names.namesrv, "p", version="5.5.0", work=tmp_path))
    assert producer.send(topic, "through ours")["status"] == "SEND_OK"
    consumer = program(JavaConsumer(names.namesrv, group, topic, version="5.5.0", work=tmp_path))
    assert received(consumer, 1) == ["through ours"]
    with Producer("python", names.namesrv) as ours, Admin(names.namesrv) as python_admin:
        sent = ours.send(topic, b"from Python")
        assert python_admin.pull(topic, sent.queue_id, sent.queue_offset, 1)[0].body == b"from Python"
    broker.kill()
    until(lambda: not is_routed(names.namesrv, topic), GONE_S)


def test_a_slave_of_apache_is_told_its_master(
    started: Callable[..., Part], program: Kept, tmp_path: Path, topic: str
) -> None:
    names = started(OurNamesrv(tmp_path / "names"))
    master = started(ApacheBroker(tmp_path / "master", names.namesrv))
    slave = started(ApacheBroker(tmp_path / "slave", names.namesrv, broker_id=1))
    admin = program(MqAdmin(names.namesrv, master.address, work=tmp_path))
    until(lambda: brokers_listed(admin) == {("broker-a", "0"), ("broker-a", "1")})
    producer = program(JavaProducer(names.namesrv, "p", version="5.5.0", work=tmp_path))
    producer.send(topic, "copied")
    # the slave knows where to copy from only by what the name service answers to its registration
    until(lambda: "slaveAddr" in (said := admin.say("haStatus -b {broker}").out) or "slave" in said.lower(), 60)
    master.kill()
    until(lambda: brokers_listed(admin) == {("broker-a", "1")}, GONE_S)
    assert is_routed(names.namesrv, topic)
    slave.kill()
    until(lambda: not is_routed(names.namesrv, topic), GONE_S)


@pytest.fixture(scope="module")
def mixed(work: Callable[[], Path]) -> Iterator[tuple[ApacheNamesrv, ApacheBroker, OurBroker]]:
    """Apache's name server with a broker of Apache's and one of ours."""
    names = ApacheNamesrv(work())
    apache = ours = None
    try:
        names.start()
        apache = ApacheBroker(work(), names.namesrv, "apache-a")
        apache.start()
        ours = OurBroker(work(), names.namesrv, "escapement-a")
        ours.start()
        until(lambda: is_routed(names.namesrv, "escapement-a"))
        yield names, apache, ours
    finally:
        for part in (ours, apache, names):
            if part is not None:
                part.kill()


def test_our_broker_is_one_of_an_apache_cluster(
    mixed: tuple[ApacheNamesrv, ApacheBroker, OurBroker], program: Kept, tmp_path: Path, topic: str, group: str
) -> None:
    names, _, ours = mixed
    admin = program(MqAdmin(names.namesrv, ours.address, work=tmp_path))
    until(lambda: brokers_listed(admin) == {("apache-a", "0"), ("escapement-a", "0")})
    assert "success" in admin.say(f"updateTopic -b {{broker}} -t {topic} -r 2 -w 2").out
    until(lambda: is_routed(names.namesrv, topic), 2)
    producer = program(JavaProducer(names.namesrv, "p", version="5.5.0", work=tmp_path))
    assert producer.send(topic, "on ours")["status"] == "SEND_OK"
    consumer = program(JavaConsumer(names.namesrv, group, topic, version="5.5.0", work=tmp_path))
    assert received(consumer, 1) == ["on ours"]
    with Admin(ours.namesrv) as there:
        assert sum(each.max_offset for each in there.topic_stats(topic).queues) == 1


def test_timers_and_transactions_work_on_our_broker_through_apache_s_name_server(
    mixed: tuple[ApacheNamesrv, ApacheBroker, OurBroker], program: Kept, tmp_path: Path, topic: str, group: str
) -> None:
    names, _, ours = mixed
    with Admin(ours.namesrv) as there:
        there.create_topic(topic, queues=1)
    until(lambda: is_routed(names.namesrv, topic), 2)
    scheduler = program(JavaScheduler(names.namesrv, "s", work=tmp_path))
    consumer = program(JavaConsumer(names.namesrv, group, topic, version="5.5.0", work=tmp_path))
    assert isinstance(scheduler, JavaScheduler)
    assert isinstance(consumer, JavaConsumer)
    began_s = time.time()
    assert scheduler.send(topic, "in time", sec=DELAY_S)["status"] == "SEND_OK"
    arrived = consumer.receive(1)[0]
    assert arrived["body"] == "in time"
    assert arrived["arrivedMs"] / 1000 - began_s >= DELAY_S
    transactor = program(JavaTransactor(names.namesrv, "t", version="5.5.0", work=tmp_path))
    assert isinstance(transactor, JavaTransactor)
    transactor.begin(topic, "decided", local="COMMIT")
    transactor.begin(topic, "asked", local="UNKNOW", checks="COMMIT", immunity="1")
    assert {event["body"] for event in consumer.receive(3)} == {"in time", "decided", "asked"}


def test_a_broker_of_ours_that_stops_or_is_killed_is_gone_at_once(
    started: Callable[..., Part], mixed: tuple[ApacheNamesrv, ApacheBroker, OurBroker], tmp_path: Path
) -> None:
    names, _, _ = mixed
    stopping = started(OurBroker(tmp_path / "stopping", names.namesrv, "escapement-s"))
    until(lambda: is_routed(names.namesrv, "escapement-s"))
    assert isinstance(stopping, OurBroker)
    assert stopping.stop() == 0
    until(lambda: not is_routed(names.namesrv, "escapement-s"), GONE_S)
    killed = started(OurBroker(tmp_path / "killed", names.namesrv, "escapement-k"))
    until(lambda: is_routed(names.namesrv, "escapement-k"))
    killed.kill()
    until(lambda: not is_routed(names.namesrv, "escapement-k"), GONE_S)


def test_clients_go_on_when_one_of_two_name_services_is_killed(
    started: Callable[..., Part], program: Kept, tmp_path: Path, topic: str, group: str
) -> None:
    first, second = (started(OurNamesrv(tmp_path / f"names-{number}")) for number in (1, 2))
    both = f"{first.namesrv};{second.namesrv}"
    brokers = [started(OurBroker(tmp_path / name, both, name)) for name in ("one", "two")]
    for names in (first, second):
        until(lambda names=names: all(is_routed(names.namesrv, name) for name in ("one", "two")))
    for broker in brokers:
        with Admin(broker.namesrv) as admin:
            admin.create_topic(topic, queues=2)
    for names in (first, second):
        until(lambda names=names: is_routed(names.namesrv, topic))
    producer = program(JavaProducer(both, "p", version="5.5.0", work=tmp_path))
    consumer = program(JavaConsumer(both, group, topic, version="5.5.0", work=tmp_path))
    got: list[Message] = []
    with Producer("python", both) as python:
        python_consumer = Consumer(f"{group}-python", both, from_where="first")
        python_consumer.subscribe(topic, "*", got.append)
        python_consumer.start()
        producer.send(topic, "before", count=4)
        assert len(received(consumer, 4)) == 4
        first.kill()
        producer.send(topic, "after", count=4)
        sent = {python.send(topic, f"python {number}".encode()).broker for number in range(4)}
        assert sent == {"one", "two"}
        assert len(received(consumer, 12)) == 12
        until(lambda: len(got) == 12, 60)
        python_consumer.stop()


def test_with_access_control_a_broker_of_apache_signs_its_registration(
    started: Callable[..., Part], program: Kept, tmp_path: Path, topic: str
) -> None:
    names = started(GuardedNamesrv(tmp_path / "names"))
    stranger = started(ApacheBroker(tmp_path / "stranger", names.namesrv, "stranger"))
    broker = started(GuardedBroker(tmp_path / "apache", names.namesrv, "signing"))
    signed = {"access_key": ROOT[0], "secret_key": ROOT[1]}
    with Admin(names.namesrv, **signed) as admin:
        until(lambda: [each.name for each in admin.brokers()] == ["signing"], 40)
        admin.create_topic(topic, queues=1)
    with Producer("p", names.namesrv, **signed) as producer:
        until(lambda: producer.send(topic, b"signed").broker == "signing", not_yet=(RouteNotFound,))
    stranger.kill()
    broker.kill()
