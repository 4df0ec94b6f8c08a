"""A stream over a cluster: each message once, over restarts and kills, with queues and brokers that come and go."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from broker.client import Admin, Producer
from broker.testing import BrokerThread, small_store
from spark.cluster_options import parse_cluster_options
from spark.cluster_source import ClusterStreamReader
from spark.offsets import Written
from spark.pulling import MessagesGone
from tests.house.sources import ROOT
from tests.spark.joined import JoinedNames
from tests.waiting import until

EVERYTHING = ReadAllAvailable()
Streams = Callable[..., ClusterStreamReader]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerThread]:
    """A broker with one topic of two queues."""
    with BrokerThread(small_store(tmp_path / "broker")) as one:
        with Admin(one.namesrv) as admin:
            admin.create_topic("orders", queues=2)
        yield one


def send(broker: BrokerThread, numbers: range, topic: str = "orders") -> None:
    with Producer("shop", broker.namesrv) as producer:
        for number in numbers:
            producer.send(topic, f"{number}", queue_id=number % 2)


@pytest.fixture
def stream() -> Iterator[Streams]:
    """Readers of streams, which end with the test."""
    made: list[ClusterStreamReader] = []

    def one(namesrv: str, topics: str = "orders", **options: str) -> ClusterStreamReader:
        made.append(ClusterStreamReader(parse_cluster_options({"namesrv": namesrv, "topics": topics, **options})))
        return made[-1]

    yield one
    for reader in made:
        reader.stop()


def read(reader: ClusterStreamReader, start: Written, end: Written) -> list[str]:
    """The bodies of a batch."""
    parts = reader.partitions(start, end)
    return sorted(body.decode() for part in parts for batch in reader.read(part) for body in batch["body"].to_pylist())


def bodies(numbers: range) -> list[str]:
    return sorted(map(str, numbers))


def test_offsets_are_the_next_messages_by_topic_broker_and_queue(broker: BrokerThread, stream: Streams) -> None:
    send(broker, range(5))
    reader = stream(broker.namesrv)
    start = reader.initialOffset()
    end = reader.latestOffset(start, EVERYTHING)
    assert start == {"orders": {"broker-a": {"0": 0, "1": 0}}}
    assert end == {"orders": {"broker-a": {"0": 3, "1": 2}}}
    assert read(reader, start, end) == bodies(range(5))
    assert reader.latestOffset(end, EVERYTHING) == end
    assert stream(broker.namesrv, start="latest").initialOffset() == end


def test_a_batch_run_again_by_another_process_is_the_same(broker: BrokerThread, stream: Streams) -> None:
    send(broker, range(9))
    start, end = {"orders": {"broker-a": {"0": 1, "1": 0}}}, {"orders": {"broker-a": {"0": 4, "1": 2}}}
    first = read(stream(broker.namesrv), start, end)
    send(broker, range(9, 30))
    assert read(stream(broker.namesrv), start, end) == first == ["1", "2", "3", "4", "6"]


def test_a_batch_has_its_share_of_each_queue(broker: BrokerThread, stream: Streams) -> None:
    send(broker, range(40))
    reader = stream(broker.namesrv, max_offsets_per_trigger="10")
    assert reader.getDefaultReadLimit() == ReadMaxRows(10)
    start = reader.initialOffset()
    assert reader.latestOffset(start, ReadMaxRows(10)) == {"orders": {"broker-a": {"0": 5, "1": 5}}}
    assert reader.latestOffset(start, EVERYTHING) == {"orders": {"broker-a": {"0": 20, "1": 20}}}


def test_available_now_ends_at_what_was_there(broker: BrokerThread, stream: Streams) -> None:
    send(broker, range(6))
    reader = stream(broker.namesrv, max_offsets_per_trigger="4")
    at = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    send(broker, range(6, 20))
    steps = []
    while (following := reader.latestOffset(at, reader.getDefaultReadLimit())) != at:
        steps.append(read(reader, at, following))
        at = following
    assert sorted(body for step in steps for body in step) == bodies(range(6))
    assert len(steps) == 2


def test_queues_and_topics_that_appear_are_read_from_their_beginning(broker: BrokerThread, stream: Streams) -> None:
    send(broker, range(4))
    reader = stream(broker.namesrv, "ord*", start="latest")
    start = reader.initialOffset()
    with Admin(broker.namesrv) as admin:
        admin.create_topic("orders", queues=3)
        admin.create_topic("orders-new", queues=2)
    with Producer("shop", broker.namesrv) as producer:
        producer.send("orders", "third", queue_id=2)
    send(broker, range(10, 12), "orders-new")
    end = reader.latestOffset(start, EVERYTHING)
    assert read(reader, start, end) == ["10", "11", "third"]
    assert read(stream(broker.namesrv, "ord*"), start, end) == ["10", "11", "third"]


def test_a_broker_that_is_away_holds_up_no_other(stream: Streams, tmp_path: Path) -> None:
    configs = [replace(small_store(tmp_path / name), broker_name=name) for name in ("broker-a", "broker-b")]
    with BrokerThread(configs[0]) as one, BrokerThread(configs[1]) as other:
        for each in (one, other):
            send(each, range(4))
        with JoinedNames([one.namesrv, other.namesrv]) as names:
            reader = stream(names.namesrv)
            start = reader.initialOffset()
            other.stop()
            send(one, range(4, 8))
            without = reader.latestOffset(start, EVERYTHING)
            assert read(reader, start, without) == bodies(range(8))
            other.start()
            end = reader.latestOffset(without, EVERYTHING)
            assert read(reader, without, end) == bodies(range(4))


def test_a_stream_outlives_its_name_servers(broker: BrokerThread, stream: Streams) -> None:
    send(broker, range(4))
    with JoinedNames([broker.namesrv]) as names:
        reader = stream(names.namesrv)
        start = reader.initialOffset()
        reader.latestOffset(start, EVERYTHING)
    send(broker, range(4, 6))
    assert read(reader, start, reader.latestOffset(start, EVERYTHING)) == bodies(range(6))


def test_a_topic_that_was_made_anew_is_said(broker: BrokerThread, stream: Streams) -> None:
    send(broker, range(4))
    start = {"orders": {"broker-a": {"0": 70, "1": 2}}}
    with pytest.raises(MessagesGone, match="was read to offset 70, and ends before, at 2"):
        stream(broker.namesrv).latestOffset(start, EVERYTHING)
    lenient = stream(broker.namesrv, fail_on_data_loss="false")
    assert lenient.latestOffset(start, EVERYTHING) == start


def test_spark_goes_on_where_it_was(session: SparkSession, broker: BrokerThread, tmp_path: Path) -> None:
    seen: list[list[str]] = []

    def keep(batch: DataFrame, _: int) -> None:
        seen.append([row[0] for row in batch.selectExpr("string(body)").collect()])

    def run() -> None:
        frame = session.readStream.format("rocketmq").option("namesrv", broker.namesrv)
        frame = frame.option("maxOffsetsPerTrigger", "10").load("orders")
        writer = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path / "followed"))
        writer.trigger(availableNow=True).start().awaitTermination()

    send(broker, range(25))
    run()
    assert len(seen) == 3
    send(broker, range(25, 30))
    run()
    run()
    assert sorted(body for batch in seen for body in batch) == bodies(range(30))


#: Writes what comes into files of Parquet, whose log says which of them count: once, if the source does its part.
PROGRAM = """
import sys
from spark.session import open_session
namesrv, sink, checkpoint, trigger = sys.argv[1:]
session = open_session(master="local[2]", memory_mb=512)
frame = session.readStream.format("rocketmq").option("namesrv", namesrv).option("max_offsets_per_trigger", "100")
writer = frame.load("orders").selectExpr("queue_id", "queue_offset", "string(body) body").writeStream
writer = writer.format("parquet").option("checkpointLocation", checkpoint).option("path", sink)
how = {"availableNow": True} if trigger == "now" else {"processingTime": "0 seconds"}
writer.trigger(**how).start().awaitTermination()
"""


def started(namesrv: str, directory: Path, trigger: str) -> subprocess.Popen[bytes]:
    arguments = [namesrv, str(directory / "sink"), str(directory / "checkpoint"), trigger]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with open(directory / "program.err", "ab") as log:
        return subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *arguments], env=env, start_new_session=True, stdout=log, stderr=log
        )


def test_each_message_once_although_the_reader_was_killed(
    session: SparkSession, broker: BrokerThread, tmp_path: Path
) -> None:
    send(broker, range(1_000))
    commits = tmp_path / "checkpoint" / "commits"
    for at_least in (1, 4):
        killed = started(broker.namesrv, tmp_path, "often")
        try:
            until(lambda at_least=at_least: len(list(commits.glob("[0-9]*"))) >= at_least, 120)  # type: ignore[misc]  # bound
        finally:
            os.killpg(killed.pid, signal.SIGKILL)
            killed.wait()
    kept = [json.loads(line) for line in (tmp_path / "checkpoint" / "offsets" / "0").read_text().splitlines()[2:]]
    assert kept[0].keys() == {"orders"}
    send(broker, range(1_000, 1_050))
    assert started(broker.namesrv, tmp_path, "now").wait(180) == 0, (tmp_path / "program.err").read_text()
    rows = session.read.parquet(str(tmp_path / "sink")).collect()
    assert Counter(row.body for row in rows) == Counter(map(str, range(1_050)))
    assert max(Counter((row.queue_id, row.queue_offset) for row in rows).values()) == 1
