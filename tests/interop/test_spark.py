"""The Spark source ``rocketmq`` on Apache RocketMQ and on our broker: both are read alike, several brokers too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from broker.client import Admin, Producer, TransactionProducer, prepare
from broker.client import Decision as Fate
from spark.cluster_options import parse_cluster_options
from spark.cluster_source import ClusterReader
from spark.session import open_session
from spark.store import DashboardError
from tests.interop.guarded import GUARDED, ROOT
from tests.interop.programs import JavaProducer, JavaScheduler
from tests.interop.readiness import await_runtime
from tests.interop.servers import START_TIMEOUT_S, ApacheServer, Server, StoreShape, says, served
from tests.interop.waiting import wait_until
from tests.waiting import until

Rows = list[dict[str, Any]]
#: a client compresses bodies above 4 KiB
LARGE = "a sentence that can be said shorter. " * 300


def rows_of(namesrv: str, topics: str, **options: str) -> Rows:
    """What the source reads, without a session of Spark."""
    reader = ClusterReader(parse_cluster_options({"namesrv": namesrv, "topics": topics, **options}))
    parts = reader.partitions()
    return [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]


def create(namesrv: str, topic: str, queues: int, brokers: int = 1) -> None:
    with Admin(namesrv) as admin:
        admin.create_topic(topic, queues=queues)
        assert wait_until(lambda: len(admin.route(topic).readable()) == queues * brokers)


def test_messages_of_the_official_client(server: Server, producers: Callable[..., JavaProducer], topic: str) -> None:
    create(server.namesrv, topic, 2)
    java = producers(server, "5.5.0")
    for number in range(6):
        java.send(topic, f"{number}", tag="ab"[number % 2], keys=f"key-{number}", queue_id=number % 2)
    java.send(topic, LARGE, tag="large", queue_id=0)
    rows = rows_of(server.namesrv, topic)
    assert [row["corrupt"] for row in rows] == [None] * 7
    assert [row["body"].decode() for row in rows if row["tag"] != "large"] == ["0", "2", "4", "1", "3", "5"]
    (large,) = (row for row in rows if row["tag"] == "large")
    assert large["body"].decode() == LARGE and large["body_size"] < 4_096
    (stored,) = rows_of(server.namesrv, topic, tag="large", inflate="false")
    assert len(stored["body"]) == stored["body_size"]
    assert {(row["broker"], row["topic"]) for row in rows} == {("broker-a", topic)}
    assert [dict(row["properties"])["KEYS"] for row in rows[:2]] == ["key-0", "key-2"]
    assert [row["body"] for row in rows_of(server.namesrv, topic, tag="a")] == [b"0", b"2", b"4"]


def test_more_messages_than_pulls_give_at_once(server: Server, topic: str) -> None:
    create(server.namesrv, topic, 3)
    with Producer("shop", server.namesrv) as producer:
        for number in range(30):
            bodies = [prepare(f"{number} {n}", properties={"n": str(n)}) for n in range(50)]
            producer.send_batch(topic, bodies, queue_id=number % 3)
    wait_until(lambda: len(rows_of(server.namesrv, topic)) == 1_500)
    rows = rows_of(server.namesrv, topic, split="170")
    assert Counter(row["body"] for row in rows) == Counter(b"%d %d" % (a, b) for a in range(30) for b in range(50))
    for queue_id in range(3):
        found = sorted(row["queue_offset"] for row in rows if row["queue_id"] == queue_id)
        assert found == list(range(500))
    filtered = rows_of(server.namesrv, topic, sql="n BETWEEN 10 AND 14", columns="body,queue_id")
    assert Counter(row["body"] for row in filtered) == Counter(
        b"%d %d" % (a, b) for a in range(30) for b in range(10, 15)
    )


def test_edges_by_time(server: Server, topic: str) -> None:
    create(server.namesrv, topic, 1)
    with Producer("shop", server.namesrv) as producer:
        for number in range(20):
            producer.send(topic, f"{number}")
    wait_until(lambda: len(rows_of(server.namesrv, topic)) == 20)
    stored = {row["body"]: row["store_ms"] for row in rows_of(server.namesrv, topic)}
    moments = sorted(stored.values())
    for start, end in ((moments[0], moments[-1]), (moments[5], moments[12]), (moments[-1], moments[-1] + 1), (0, 9)):
        found = rows_of(server.namesrv, topic, start=str(start), end=str(end))
        assert sorted(row["body"] for row in found) == sorted(b for b, at in stored.items() if start <= at < end)
    assert rows_of(server.namesrv, topic, start="latest") == []


def test_topics_of_the_broker(server: Server, topic: str, tmp_path: Path) -> None:
    java = JavaScheduler(server.namesrv, "timers", work=tmp_path)
    try:
        java.send(topic, "level", level=18)
        java.send(topic, "timer", sec=3_600)
    finally:
        java.child.kill()
    with TransactionProducer("tellers", server.namesrv, check=lambda _: Fate.UNKNOWN) as tellers:
        tellers.end(tellers.send_half(topic, prepare("rolled back")), Fate.ROLLBACK)

    def parked() -> set[tuple[str, str]]:
        names = "SCHEDULE_TOPIC_XXXX,rmq_sys_wheel_timer,RMQ_SYS_TRANS_HALF_TOPIC"
        found = rows_of(server.namesrv, names, columns="names,body,kinds")
        return {(row["kind"], row["body"].decode()) for row in found if row["shown"] == topic}

    wanted = {("parked", "level"), ("parked", "timer"), ("half", "rolled back")}
    assert wait_until(lambda: parked() == wanted), parked()
    assert wait_until(lambda: rows_of(server.namesrv, "RMQ_SYS_TRANS_OP_HALF_TOPIC"))


def test_beginnings_leave_out_what_is_the_brokers(server: Server, topic: str) -> None:
    create(server.namesrv, topic, 1)
    with Producer("shop", server.namesrv) as producer:
        producer.send(topic, "one")
    assert wait_until(lambda: [row["body"] for row in rows_of(server.namesrv, f"{topic}*") if row["topic"] == topic])
    system = rows_of(server.namesrv, "*", columns="topic,corrupt")
    assert not any(row["topic"].startswith(("rmq_sys", "RMQ_SYS", "SCHEDULE", "%")) for row in system)
    assert rows_of(server.namesrv, "*", system_topics="true")


@pytest.mark.parametrize("kind", ["apache", "escapement"])
def test_signed_requests(kind: str, tmp_path: Path, topic: str) -> None:
    with served(GUARDED[kind](tmp_path / "store", tmp_path / "work", StoreShape())) as server:
        key, secret = ROOT
        with Producer("shop", server.namesrv, access_key=key, secret_key=secret) as producer:
            producer.send(topic, "one")
        found = until(lambda: rows_of(server.namesrv, topic, access_key=key, secret_key=secret))
        assert [row["body"] for row in found] == [b"one"]
        with pytest.raises(Exception, match="refuses"):
            rows_of(server.namesrv, topic, access_key=key, secret_key="wrong")


class Joining(ApacheServer):
    """A further broker of Apache RocketMQ at a name server that is there."""

    def __init__(self, root: Path, work: Path, namesrv: str, **settings: object) -> None:
        super().__init__(root, work, StoreShape())
        self._joined, self._more = namesrv, settings

    @property
    def namesrv(self) -> str:
        return self._joined

    def start(self) -> None:
        """Start the broker alone; it registers at the name server of another."""
        (self.work / "conf").mkdir(parents=True, exist_ok=True)
        settings = {**self._settings(), **self._more}
        (self.work / "broker.conf").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        self.launch().wait_for(says("boot success"), START_TIMEOUT_S, "the broker")
        await_runtime(self.address, START_TIMEOUT_S)


@pytest.fixture
def second(apache: ApacheServer, tmp_path: Path) -> Iterator[Joining]:
    """A second master of the cluster, broker-b."""
    with served(Joining(tmp_path / "store", tmp_path / "work", apache.namesrv, brokerName="broker-b")) as one:
        yield one


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    """A local session of Spark."""
    opened = open_session(master="local[2]", memory_mb=512)
    yield opened
    opened.stop()


def test_two_masters_are_read_as_one(session: SparkSession, apache: ApacheServer, second: Joining, topic: str) -> None:
    with Admin(apache.namesrv) as admin:
        assert wait_until(lambda: len(admin.brokers()) == 2)
    create(apache.namesrv, topic, 2, brokers=2)
    with Producer("shop", apache.namesrv) as producer:
        for number in range(400):
            producer.send(topic, f"{number}")
    frame = session.read.format("rocketmq").option("namesrv", apache.namesrv).load(topic)
    by_broker = {row[0]: row[1] for row in frame.groupBy("broker").agg(F.countDistinct("body")).collect()}
    assert by_broker.keys() == {"broker-a", "broker-b"} and sum(by_broker.values()) == 400
    second.kill()
    with pytest.raises(DashboardError, match="broker-b"):
        rows_of(apache.namesrv, topic, brokers="broker-a,broker-b")
    assert len(rows_of(apache.namesrv, topic, brokers="broker-a")) == by_broker["broker-a"]
