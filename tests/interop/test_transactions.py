"""Transactions of the official Java clients, against Apache RocketMQ and against our broker: the same must happen."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.client.remoting import RemotingClient
from broker.rocketmq.codes import Answer, Request
from broker.rocketmq.frame import Command
from broker.rocketmq.message import offset_message_id, pack_host
from tests.interop.conftest import running
from tests.interop.programs import JavaConsumer, JavaProducer, JavaTransactor, read_all
from tests.interop.readiness import is_routed
from tests.interop.servers import Server, StoreShape
from tests.interop.waiting import wait_until
from tests.waiting import until

Consume = Callable[..., JavaConsumer]
#: Seconds instead of half minutes; on Apache RocketMQ a check comes up to two intervals late, and machines are slow.
SHAPE = StoreShape(transaction_timeout_ms=1_000, transaction_interval_ms=1_500, transaction_checks=3)
PATIENCE_S = 40
PARKED = "TRANS_CHECK_MAX_TIME_TOPIC"
CLIENTS = {"4.9.8": ("4.9.8", False), "5.5.0": ("5.5.0", False), "5.5.0 binary": ("5.5.0", True)}


@pytest.fixture(scope="module", params=["apache", "escapement"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Each of the two, asking soon."""
    with running(request.param, tmp_path_factory.mktemp(request.param), SHAPE) as one:
        yield one


@pytest.fixture(params=CLIENTS.values(), ids=CLIENTS.keys())
def transactor(request: pytest.FixtureRequest, server: Server, group: str, tmp_path: Path) -> Iterator[JavaTransactor]:
    """A transaction producer of each client."""
    version, binary = request.param
    started = JavaTransactor(server.namesrv, group, version=version, work=tmp_path, binary_headers=binary)
    yield started
    started.child.kill()


@pytest.fixture
def modern(server: Server, group: str, tmp_path: Path) -> Iterator[JavaTransactor]:
    """A transaction producer of the newest client."""
    started = JavaTransactor(server.namesrv, group, version="5.5.0", work=tmp_path)
    yield started
    started.child.kill()


@pytest.fixture
def consumer(server: Server, producers: Callable[..., JavaProducer], consume: Consume, topic: str) -> JavaConsumer:
    """A consumer that has received one message, so that everything after it comes without waiting for queues."""
    producers(server, "5.5.0").send(topic, "first")
    started = consume(server, f"of-{topic}", topic, version="5.5.0")
    started.receive(1)
    return started


def decided(server: Server, unique_id: str) -> dict[str, Any] | None:
    """The transaction as the broker tells it, once its producer's decision, said one way, has come."""
    told: dict[str, Any] = json.loads(
        asyncio.run(ask(server, Request.GET_TRANSACTION, {"transactionId": unique_id})).body
    )
    return None if told["state"] in ("open", "due") else told


def bodies(consumer: JavaConsumer) -> list[str]:
    return [event["body"] for event in consumer.events("message")][1:]


def test_committed_is_delivered_and_rolled_back_is_not(
    transactor: JavaTransactor, consumer: JavaConsumer, topic: str
) -> None:
    for number, local in enumerate(["COMMIT", "ROLLBACK", "COMMIT"]):
        sent = transactor.begin(topic, f"tx-{number}", local=local, tag="paid")
        assert sent["status"] == "SEND_OK"
        assert sent["transactionId"] == sent["msgId"]
    consumer.await_bodies({"tx-0", "tx-2"}, PATIENCE_S)
    assert sorted(bodies(consumer)) == ["tx-0", "tx-2"]


def test_a_check_decides_what_the_producer_did_not(
    server: Server, transactor: JavaTransactor, consumer: JavaConsumer, topic: str, group: str
) -> None:
    if server.name == "apache":
        # it counts checks that nobody got, and a client of 4.9.8 is unknown to it until its next heartbeat
        transactor.begin(topic, "hello", local="ROLLBACK")
        wait_until(lambda: is_known(server, group), PATIENCE_S)
    for key, checks in (("commits", "COMMIT"), ("rolls back", "ROLLBACK"), ("late", "UNKNOW,COMMIT")):
        transactor.begin(topic, key, checks=checks)
    consumer.await_bodies({"commits", "late"}, PATIENCE_S)
    wait_until(lambda: transactor.checks("rolls back"), PATIENCE_S)
    assert sorted(bodies(consumer)) == ["commits", "late"]
    (check,) = transactor.checks("commits")
    assert (check["topic"], check["body"], check["times"]) == (topic, "commits", "1")
    # what one process printed may be read before what another one printed earlier
    wait_until(lambda: len(transactor.checks("late")) == 2, PATIENCE_S)
    assert [check["times"] for check in transactor.checks("late")] == ["1", "2"]


def test_a_half_nobody_decides_is_parked_after_the_last_check_and_can_be_resumed(
    server: Server, modern: JavaTransactor, consumer: JavaConsumer, topic: str, tmp_path: Path
) -> None:
    modern.begin(topic, "stuck", checks="UNKNOW,UNKNOW,UNKNOW,COMMIT")

    found: list[int] = []

    def parked() -> bool:
        events = read_all(server.namesrv, [PARKED], work=tmp_path)[PARKED]
        found.extend(event["position"] for event in events if event["body"] == "stuck")
        return bool(found)

    # Apache RocketMQ makes the topic when it parks its first
    assert wait_until(lambda: is_routed(server.namesrv, PARKED), PATIENCE_S)
    assert wait_until(parked, PATIENCE_S)
    assert [check["times"] for check in modern.checks("stuck")] == ["1", "2", "3"]
    assert bodies(consumer) == []
    port = int(server.address.rpartition(":")[2])
    identity = offset_message_id(pack_host("127.0.0.1", port), found[0])
    answer = asyncio.run(ask(server, Request.RESUME_CHECK_HALF_MESSAGE, {"topic": PARKED, "msgId": identity}))
    assert answer.code == Answer.SUCCESS, answer.remark
    consumer.await_bodies({"stuck"}, PATIENCE_S)
    assert modern.checks("stuck")[3]["times"] == "1"


def is_known(server: Server, group: str) -> bool:
    return asyncio.run(ask(server, Request.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": group})).code == 0


async def ask(server: Server, code: int, ext: dict[str, str]) -> Command:
    client = RemotingClient()
    try:
        return await client.invoke(server.address, code, ext)
    finally:
        await client.close()


def test_an_immune_half_is_asked_about_when_its_time_is_over(
    modern: JavaTransactor, consumer: JavaConsumer, topic: str
) -> None:
    # each round that finds it immune counts as a check on Apache RocketMQ: no third one may begin within this time
    immunity_s = 2 * SHAPE.transaction_interval_ms // 1000
    began_s = time.monotonic()
    modern.begin(topic, "immune", checks="COMMIT", immunity=str(immunity_s))
    modern.begin(topic, "plain", checks="COMMIT")
    consumer.await_bodies({"plain", "immune"}, PATIENCE_S)
    assert time.monotonic() - began_s >= immunity_s
    assert bodies(consumer) == ["plain", "immune"]


def test_what_is_delivered_says_the_same_on_both(
    server: Server, modern: JavaTransactor, consumer: JavaConsumer, topic: str, group: str
) -> None:
    modern.begin(topic, "said", local="COMMIT", tag="paid")
    consumer.await_bodies({"said"}, PATIENCE_S)
    message = next(event for event in consumer.events("message") if event["body"] == "said")
    properties = {name: text for name, text in message["properties"].items() if not name.startswith("ESC_")}
    assert properties.pop("PGROUP") == group
    assert properties.pop("UNIQ_KEY") == properties.pop("__transactionId__") == message["msgId"]
    added = {"MIN_OFFSET", "MAX_OFFSET", "CONSUME_START_TIME", "__CRC32#", "CLUSTER", "MSG_REGION", "TRACE_ON", "WAIT"}
    assert {k: v for k, v in properties.items() if k not in added} == {
        "TRAN_MSG": "true", "KEYS": "said", "TAGS": "paid",
    }  # fmt: skip


@pytest.mark.parametrize("server", ["escapement"], indirect=True)
def test_one_decision_stands_on_ours(
    server: Server, modern: JavaTransactor, consumer: JavaConsumer, topic: str, group: str
) -> None:
    """Apache RocketMQ delivers a second copy for each further commit, and commits what was rolled back."""
    halves = [modern.begin(topic, "committed", local="COMMIT"), modern.begin(topic, "rolled back", local="ROLLBACK")]
    consumer.await_bodies({"committed"}, PATIENCE_S)
    for half in halves:
        place = until(lambda which=half["transactionId"]: decided(server, which))
        ending = {
            "producerGroup": group,
            "tranStateTableOffset": str(place["offset"]),
            "commitLogOffset": str(place["position"]),
            "transactionId": half["transactionId"],
        }
        said = [
            asyncio.run(ask(server, Request.END_TRANSACTION, ending | {"commitOrRollback": word})).code
            for word in ("8", "12", "8")
        ]
        opposite = Answer.ILLEGAL_OPERATION
        assert said == ([0, opposite, 0] if half is halves[0] else [opposite, 0, opposite])
    modern.begin(topic, "last", local="COMMIT")
    consumer.await_bodies({"last"}, PATIENCE_S)
    assert bodies(consumer) == ["committed", "last"]
