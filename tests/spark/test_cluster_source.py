"""The data source ``rocketmq`` from a real broker: batches, where they begin and end, filters, several brokers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from broker.client import Admin, Decision, Producer, TransactionProducer, prepare
from broker.rocketmq.acl import AccessConfig, User
from broker.testing import BrokerThread, small_store
from spark.cluster import BrokerAway, TopicMissing
from spark.cluster_options import parse_cluster_options
from spark.cluster_source import ClusterReader
from spark.options import parse_options
from spark.source import LogReader
from tests.mirror.running import running_broker
from tests.spark.joined import JoinedNames

Rows = list[dict[str, Any]]


def rows_of(namesrv: str, topics: str = "orders", **options: str) -> Rows:
    """What the source reads, without a session of Spark."""
    reader = ClusterReader(parse_cluster_options({"namesrv": namesrv, "topics": topics, **options}))
    parts = reader.partitions()
    return [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]


def bodies(rows: Rows) -> list[str]:
    return sorted(row["body"].decode() for row in rows)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BrokerThread, Path]]:
    """A broker with messages of every kind, and its store."""
    directory = tmp_path_factory.mktemp("filled")
    with BrokerThread(small_store(directory)) as broker:
        with Admin(broker.namesrv) as admin:
            admin.create_topic("orders", queues=4)
        with Producer("shop", broker.namesrv) as producer:
            for number in range(100):
                properties = {"n": str(number)}
                producer.send("orders", f"{number}", tag="ab"[number % 2], keys=[f"k{number}"], properties=properties)
            producer.send("orders-late", "late", delay_level=2)
            producer.send("orders-late", "timer", delay_ms=3_600_000)
            handle = producer.send("orders-late", "recalled", delay_ms=3_600_000).recall_handle
            assert handle is not None
            producer.recall("orders-late", handle)
        with TransactionProducer("tellers", broker.namesrv, check=lambda _: Decision.UNKNOWN) as tellers:
            for decision in (Decision.COMMIT, Decision.ROLLBACK):
                tellers.end(tellers.send_half("payments", prepare("paid")), decision)
        yield broker, directory / "store"


def test_all_that_a_log_holds_is_pulled_the_same(filled: tuple[BrokerThread, Path]) -> None:
    broker, store = filled
    columns = {"columns": "hosts,names,properties,kinds,body", "levels": "1s 1h", "inflate": "true"}
    pulled = rows_of(broker.namesrv, "*", system_topics="true", split="30", **columns)
    reader = LogReader(parse_options({"path": str(store), "broker": broker.address, **columns}))
    log = [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
    assert {row.pop("broker") for row in log} == {None}
    assert {row.pop("broker") for row in pulled} == {"broker-a"}
    assert {row["kind"] for row in log} >= {"plain", "parked", "delete", "half", "op"}
    assert sorted(pulled, key=lambda row: row["position"]) == log


def test_a_session_reads_and_sums(session: SparkSession, filled: tuple[BrokerThread, Path]) -> None:
    frame = session.read.format("rocketmq").option("namesrv", filled[0].namesrv).option("split", "30").load("orders")
    assert frame.rdd.getNumPartitions() == 4
    row = frame.agg(F.count("*"), F.sum(F.col("properties")["n"]), F.collect_set("broker")).first()
    assert row is not None and tuple(row) == (100, sum(range(100)), ["broker-a"])


def test_messages_of_a_queue_are_in_order(filled: tuple[BrokerThread, Path]) -> None:
    rows = rows_of(filled[0].namesrv)
    for queue_id in range(4):
        assert [row["queue_offset"] for row in rows if row["queue_id"] == queue_id] == list(range(25))


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"tag": "a"}, range(0, 100, 2)),
        ({"tag": "a || b"}, range(100)),
        ({"tag": "c"}, ()),
        ({"sql": "n >= 10 AND n < 20 AND TAGS = 'b'"}, range(11, 20, 2)),
        ({"sql": "n < 10", "split": "7"}, range(10)),
    ],
)
def test_filters_are_the_brokers_business(
    filled: tuple[BrokerThread, Path], options: dict[str, str], wanted: range
) -> None:
    assert bodies(rows_of(filled[0].namesrv, **options)) == sorted(map(str, wanted))


def test_a_filter_that_is_not_understood_says_so(filled: tuple[BrokerThread, Path]) -> None:
    with pytest.raises(Exception, match="not understood"):
        rows_of(filled[0].namesrv, sql="n LIKE 'x'")


def test_a_beginning_stands_for_topics(filled: tuple[BrokerThread, Path]) -> None:
    namesrv = filled[0].namesrv
    assert {row["topic"] for row in rows_of(namesrv, "*")} == {"orders", "payments"}
    assert {row["topic"] for row in rows_of(namesrv, "ord*")} == {"orders"}
    assert rows_of(namesrv, "nothing-*") == []
    assert [row["body"] for row in rows_of(namesrv, "SCHEDULE_TOPIC_XXXX")] == [b"late"]
    assert len(rows_of(namesrv, "rmq_sys_wheel_timer,payments")) == 4


def test_a_topic_that_is_not_there_is_said(filled: tuple[BrokerThread, Path]) -> None:
    with pytest.raises(TopicMissing, match="'order'"):
        rows_of(filled[0].namesrv, "order")
    with pytest.raises(TopicMissing, match="No broker on broker-z"):
        rows_of(filled[0].namesrv, "orders", brokers="broker-z")


def test_edges_by_time_and_by_offset(filled: tuple[BrokerThread, Path]) -> None:
    namesrv = filled[0].namesrv
    stored = {row["body"].decode(): row["store_ms"] for row in rows_of(namesrv)}
    first, last = min(stored.values()), max(stored.values())
    for start, end in ((first, last), (first + 1, last + 1), (stored["40"], stored["60"]), (last, last + 5), (0, 1)):
        wanted = [body for body, at_ms in stored.items() if start <= at_ms < end]
        assert bodies(rows_of(namesrv, start=str(start), end=str(end))) == sorted(wanted)
    start, end = (json.dumps({"orders": {"broker-a": {"1": at, "2": 0}}}) for at in (20, 24))
    found = [(row["queue_id"], row["queue_offset"]) for row in rows_of(namesrv, start=start, end=end)]
    assert [one for one in found if one[0] == 1] == [(1, 20), (1, 21), (1, 22), (1, 23)]
    assert len(found) == 4 + 0 + 25 + 25
    assert rows_of(namesrv, start="latest") == []


def test_single_columns_and_extracted_properties(filled: tuple[BrokerThread, Path]) -> None:
    (row,) = rows_of(filled[0].namesrv, columns="topic,keys", extract="n", sql="n = 7")
    assert row == {"topic": "orders", "keys": "k7", "property_n": "7"}


def test_what_is_wrong_is_said_by_spark_in_our_words(session: SparkSession, filled: tuple[BrokerThread, Path]) -> None:
    reader = session.read.format("rocketmq").option("namesrv", filled[0].namesrv)
    with pytest.raises(AnalysisException, match="Say which topics to read"):
        reader.load()
    with pytest.raises(PySparkException, match="No broker has the topic 'order'"):
        reader.load("order").count()
    with pytest.raises(AnalysisException, match="is not what the options choose"):
        session.read.format("rocketmq").schema("topic string").option("namesrv", filled[0].namesrv).load(
            "orders"
        ).count()


@pytest.fixture
def two(tmp_path: Path) -> Iterator[tuple[JoinedNames, BrokerThread, BrokerThread]]:
    """Two brokers and the name server that knows both; each has five orders."""
    configs = [replace(small_store(tmp_path / name), broker_name=name) for name in ("broker-a", "broker-b")]
    with BrokerThread(configs[0]) as one, BrokerThread(configs[1]) as other:
        for broker in (one, other):
            with Producer("shop", broker.namesrv) as producer:
                for number in range(5):
                    producer.send("orders", f"{number} of {broker.address}")
        with JoinedNames([one.namesrv, other.namesrv]) as names:
            yield names, one, other


def test_two_brokers_are_read_as_one(two: tuple[JoinedNames, BrokerThread, BrokerThread]) -> None:
    names, one, other = two
    found = {(row["broker"], row["body"].decode()) for row in rows_of(names.namesrv)}
    addresses = {"broker-a": one.address, "broker-b": other.address}
    assert found == {(name, f"{n} of {address}") for name, address in addresses.items() for n in range(5)}
    assert {row["broker"] for row in rows_of(names.namesrv, brokers="broker-b")} == {"broker-b"}


def test_a_batch_without_a_broker_is_refused(two: tuple[JoinedNames, BrokerThread, BrokerThread]) -> None:
    names, _, other = two
    rows_of(names.namesrv)
    other.stop()
    with pytest.raises(BrokerAway, match=r"broker-b is not responding.*brokers=NAME"):
        rows_of(names.namesrv)
    assert len(rows_of(names.namesrv, brokers="broker-a")) == 5


def test_the_next_name_server_is_asked(filled: tuple[BrokerThread, Path]) -> None:
    with JoinedNames([]) as gone:
        pass
    assert len(rows_of(f"{gone.namesrv};{filled[0].namesrv}")) == 100


def signed(namesrv: str, access_key: str, secret_key: str) -> Rows:
    return rows_of(namesrv, access_key=access_key, secret_key=secret_key)


def test_requests_are_signed(tmp_path: Path) -> None:
    access = AccessConfig(User("reader", "hush", is_super=True))
    with running_broker(tmp_path / "store", access=access) as broker:
        with Producer("shop", broker.namesrv, access_key="reader", secret_key="hush") as producer:
            producer.send("orders", "one")
        assert bodies(signed(broker.namesrv, "reader", "hush")) == ["one"]
        with pytest.raises(Exception, match="refuses"):
            signed(broker.namesrv, "reader", "wrong")
        with pytest.raises(Exception, match="refuses"):
            rows_of(broker.namesrv)
