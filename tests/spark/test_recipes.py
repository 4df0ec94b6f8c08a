"""The questions of docs/SPARK.md: every recipe runs, and its answer is the one of a loop in plain Python."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from broker.client import Producer
from broker.rocketmq.message import Message
from broker.testing import BrokerThread
from tests.house.sources import ROOT
from tests.spark.count import count_all
from tests.spark.plain import due_ms, messages
from tests.spark.randomlog import SIZE, START_MS, RandomLog

RECIPES = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "SPARK.md").read_text(), re.DOTALL)
#: How many of them are about a log; the others are about a cluster.
OF_LOG = 12
HOUR_MS = 3_600_000
PARKED = ("SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer")


def words_of(message: Message) -> list[str]:
    return message.properties.get("KEYS", "").split()


def is_plain(message: Message) -> bool:
    return "ESC_SOURCE" not in message.properties and "REAL_TOPIC" not in message.properties


def expected(log: list[Message]) -> dict[int, Any]:
    held: dict[str, list[int]] = {}
    for message in log:
        held.setdefault(message.topic, []).append(len(message.body))
    sizes: Counter[str] = Counter()
    for message in log:
        sizes[message.topic] += message.size
    hot = Counter(word for message in log for word in words_of(message))
    gone = {message.properties.get("ESC_SOURCE") for message in log}
    ids = Counter((m.topic, m.unique_key) for m in log if m.unique_key and is_plain(m))
    return {
        1: {(topic, len(bodies), sizes[topic]) for topic, bodies in held.items()},
        2: {(m.topic, m.unique_key) for m in log if START_MS <= m.store_ms < START_MS + HOUR_MS},
        3: [(m.topic, m.store_ms) for m in log if "order-3" in words_of(m)],
        4: sorted(hot.items(), key=lambda pair: (-pair[1], pair[0]))[:10],
        5: set(Counter(m.born_host[0] for m in log if m.topic == "orders").items()),
        6: {
            (m.properties.get("REAL_TOPIC"), due_ms(m))
            for m in log
            if m.topic in PARKED and str(m.position) not in gone
        },
        7: {(topic, key, count) for (topic, key), count in ids.items() if count > 1},
        8: {(topic, max(bodies), sum(bodies) / len(bodies)) for topic, bodies in held.items()},
        9: [],
    }


@pytest.fixture(scope="module")
def asked(session: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], RandomLog]:
    log = RandomLog(11).fill(250)
    store = tmp_path_factory.mktemp("recipes") / "store"
    (store / "commitlog").mkdir(parents=True)
    for start, data in log.segments.items():
        (store / "commitlog" / f"{start:020d}").write_bytes(data)
    names: dict[str, Any] = {"store": str(store), "since_ms": START_MS, "now_ms": log.now_ms}
    exec(RECIPES[0], names)  # noqa: S102 - the recipes of our own documentation
    names["log"].cache()
    return names, log


def test_there_are_ten_questions_and_the_stream_and_three_about_a_cluster() -> None:
    assert len(RECIPES) == OF_LOG + 3
    assert ["rocketmq_log" in recipe or "cluster" not in recipe for recipe in RECIPES].index(False) == OF_LOG


@pytest.mark.parametrize("number", range(1, 11))
def test_a_recipe_answers_its_question(asked: tuple[dict[str, Any], RandomLog], number: int) -> None:
    names, log = asked
    exec(RECIPES[number], names)  # noqa: S102 - the recipes of our own documentation
    rows = [tuple(row) for row in names["answer"].collect()]
    if number == 10:
        ledger = count_all(messages(log.segments), log.now_ms, [], SIZE)["ledger"]
        alarms = {key: value for key, value in ledger.items() if key[0] == "alarm"}
        assert alarms and {tuple(row[:5]): row[5] for row in rows} == alarms
        return
    wanted = expected(list(messages(log.segments)))[number]
    found: Callable[[Any], Any] = set if isinstance(wanted, set) else list
    assert wanted or number in (7, 9)
    assert found(row[1:] if number == 2 else row for row in rows) == wanted


def counted(followed: DataFrame, checkpoint: Path) -> dict[str, int]:
    """The last counts of a stream that is read to its present end."""
    seen: dict[str, int] = {}
    query = (
        followed.writeStream.outputMode("complete")
        .foreachBatch(lambda frame, _: seen.update({row[0]: row[1] for row in frame.collect()}))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return seen


def test_the_stream_of_the_document_is_one(asked: tuple[dict[str, Any], RandomLog], tmp_path: Path) -> None:
    names, log = asked
    exec(RECIPES[11], names)  # noqa: S102 - the recipes of our own documentation
    assert counted(names["followed"], tmp_path) == dict(Counter(message.topic for message in messages(log.segments)))


@pytest.fixture(scope="module")
def cluster(session: SparkSession) -> Iterator[dict[str, Any]]:
    """The names that the recipes about a cluster take for known."""
    with BrokerThread() as broker:
        with Producer("shop", broker.namesrv) as producer:
            for number in range(40):
                tag, amount = ("paid", "sent")[number % 2], {"amount": str(number * 10)}
                producer.send("orders", f"{number}", tag=tag, properties=amount, queue_id=number % 4)
        yield {"spark": session, "F": F, "namesrv": broker.namesrv}


def test_a_cluster_is_counted(cluster: dict[str, Any]) -> None:
    exec(RECIPES[OF_LOG], cluster)  # noqa: S102 - the recipes of our own documentation
    rows = {tuple(row) for row in cluster["answer"].collect()}
    assert rows == {("broker-a", queue_id, 10, 9) for queue_id in range(4)}


def test_a_cluster_filters(cluster: dict[str, Any]) -> None:
    exec(RECIPES[OF_LOG + 1], cluster)  # noqa: S102 - the recipes of our own documentation
    rows = {tuple(row) for row in cluster["answer"].collect()}
    assert rows == {(str(number * 10), str(number)) for number in range(12, 40, 2)}


def test_a_cluster_is_followed(cluster: dict[str, Any], tmp_path: Path) -> None:
    exec(RECIPES[OF_LOG + 2], cluster)  # noqa: S102 - the recipes of our own documentation
    assert counted(cluster["followed"], tmp_path) == {"paid": 20, "sent": 20}
