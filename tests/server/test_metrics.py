"""`/metrics` of a broker: read by a client of OpenMetrics, compared with what was done."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from broker.engine.config import EngineConfig
from broker.engine.lateness import Histogram
from broker.rocketmq.codes import Answer, Request
from broker.server.broker import BrokerService, Protection
from broker.server.sniffing import CONTENT_TYPE
from tests.server.peer import Peer
from tests.server.popper import TOPIC, Popper
from tests.server.test_pages import Shown, asked, request

METRICS = Path(__file__).parents[2] / "docs" / "METRICS.md"
OWN = {"cluster": "DefaultCluster", "node_type": "broker", "node_id": "broker-a"}

Samples = dict[str, list[tuple[dict[str, str], float]]]


def parsed(page: Shown) -> Samples:
    """Name -> (labels without those of the broker, value)."""
    assert (page.status, page.headers["content-type"]) == (200, CONTENT_TYPE.lower())
    samples: Samples = {}
    for family in text_string_to_metric_families(page.body):
        for sample in family.samples:
            labels = {name: value for name, value in sample.labels.items() if (name, value) not in OWN.items()}
            samples.setdefault(sample.name, []).append((labels, sample.value))
            assert sample.name.startswith("process_") or sample.labels.items() >= OWN.items(), sample
    return samples


async def metrics_of(service: BrokerService) -> Samples:
    return parsed(await asked(service.address, request("/metrics")))


async def test_an_empty_broker_tells_of_itself(service: BrokerService) -> None:
    found = await metrics_of(service)
    assert found["rocketmq_broker_permission"] == [({}, 6)]
    assert {labels["escapement_store_state"]: value for labels, value in found["escapement_store_state"]} == {
        "OK": 1, "DEGRADED": 0, "READONLY": 0, "FAILED": 0, "CLOSED": 0,
    }  # fmt: skip
    assert found["rocketmq_storage_size"] == [({"storage_type": "local", "storage_medium": "disk"}, 0)]
    assert found["process_resident_memory_bytes"][0][1] > 1 << 20


async def test_what_comes_goes_and_stays_is_counted(service: BrokerService, peer: Peer) -> None:
    for _ in range(3):
        assert (await peer.send("orders")).code == Answer.SUCCESS
    await peer.heartbeat("me", "billing", topic="orders")
    await peer.pull("orders", group="billing", maxMsgNums="2")
    commit = {"consumerGroup": "billing", "topic": "orders", "queueId": "0", "commitOffset": "1"}
    assert (await peer.ask(Request.UPDATE_CONSUMER_OFFSET, commit)).code == Answer.SUCCESS
    found = await metrics_of(service)
    orders = {"topic": "orders", "is_system": "false"}
    billing = orders | {"consumer_group": "billing", "is_retry": "false"}
    assert found["rocketmq_messages_in_total"] == [(orders, 3)]
    assert found["rocketmq_messages_out_total"] == [(billing, 2)]
    assert (billing, 2) in found["rocketmq_consumer_lag_messages"]
    (age_ms,) = [value for labels, value in found["rocketmq_consumer_lag_latency"] if labels == billing]
    assert 0 <= age_ms < 60_000
    (consumers,) = found["rocketmq_consumer_connections"]
    assert (consumers[0]["consumer_group"], consumers[0]["consume_mode"], consumers[1]) == ("billing", "push", 1)
    assert sum(count for _, count in found["rocketmq_producer_connections"]) == 1
    assert found["rocketmq_storage_size"][0][1] == service.engine.health().log_end_position
    assert {labels["door"]: count for labels, count in found["escapement_connections"]}["broker"] == 2


async def test_how_long_requests_take_is_told_by_request_and_answer(service: BrokerService, peer: Peer) -> None:
    for _ in range(3):
        await peer.send("orders")
    await peer.heartbeat("me", "billing", topic="orders")
    await peer.pull("orders", group="billing")
    await peer.pull("nowhere", group="billing")
    held = {"sysFlag": "6", "suspendTimeoutMillis": "15000"}
    waiting = asyncio.create_task(peer.pull("orders", 3, group="billing", **held))
    await peer.ask(Request.GET_MAX_OFFSET, {"topic": "orders", "queueId": "0"})  # read after the pull, which waits now
    await peer.send("orders")
    assert (await waiting).code == Answer.SUCCESS
    await peer.ask(4711)
    found = await metrics_of(service)
    assert all(labels["protocol_type"] == "remoting" for labels, _ in found["rocketmq_rpc_latency_count"])
    counts = {
        (labels["request_code"], labels["response_code"], labels["is_long_polling"]): count
        for labels, count in found["rocketmq_rpc_latency_count"]
    }
    assert counts["send_message_v2", "success", "false"] == 4
    assert counts["pull_message", "success", "false"] == counts["pull_message", "success", "true"] == 1
    assert counts["pull_message", "topic_not_exist", "false"] == 1
    assert counts["unknown", "request_code_not_supported", "false"] == 1
    assert len(counts) == len(found["rocketmq_rpc_latency_count"])


async def test_a_deleted_topic_and_a_group_that_has_all_are_no_lag(service: BrokerService, peer: Peer) -> None:
    await peer.send("orders")
    for topic, offset in (("orders", 1), ("gone", 0)):
        await peer.create_topic(topic)
        service.engine.offsets.commit("billing", topic, 0, offset)
    service.engine.topics.delete("gone", service.engine.health().log_end_position)
    found = await metrics_of(service)
    lags = {labels["topic"]: value for labels, value in found["rocketmq_consumer_lag_messages"]}
    assert lags == {"orders": 0}
    assert {labels["topic"]: value for labels, value in found["rocketmq_consumer_lag_latency"]} == {"orders": 0}


async def test_what_was_popped_is_in_flight(service: BrokerService, json_peer: Peer, popper: Popper) -> None:
    await json_peer.send(TOPIC)
    await popper.pop()
    found = await metrics_of(service)
    assert [value for labels, value in found["rocketmq_consumer_inflight_messages"] if labels["topic"] == TOPIC] == [1]


async def test_bytes_of_records_are_counted_as_they_come_and_go(
    service: BrokerService, json_peer: Peer, popper: Popper
) -> None:
    for body in (b"x", b"y" * 1000):
        await json_peer.send(TOPIC, body)
    sizes = [entry.size for entry in service.engine.entries(TOPIC, 0, 0, 2)]
    pulled = await json_peer.pull(TOPIC, group="billing", maxMsgNums="1")
    await popper.pop()
    found = await metrics_of(service)
    of_topic = {"topic": TOPIC, "is_system": "false"}
    assert (of_topic, sum(sizes)) in found["rocketmq_throughput_in_total"]
    given = {labels["consumer_group"]: value for labels, value in found["rocketmq_throughput_out_total"]}
    assert given == {"billing": len(pulled.body), "G": sum(sizes)}
    assert len(pulled.body) == sizes[0]


def under(samples: list[tuple[dict[str, str], float]], bound: str) -> float:
    return next(value for labels, value in samples if labels["le"] == bound)


async def test_sizes_and_latencies_of_sends_are_histograms(service: BrokerService, peer: Peer) -> None:
    for body in (b"x", b"x", b"y" * 5000):
        assert (await peer.send("orders", body)).code == Answer.SUCCESS
    sizes = [entry.size for entry in service.engine.entries("orders", 0, 0, 3)]
    found = await metrics_of(service)
    buckets = found["rocketmq_message_size_bucket"]
    assert (under(buckets, "512.0"), under(buckets, "4096.0"), under(buckets, "+Inf")) == (2, 2, 3)
    assert found["rocketmq_message_size_sum"] == [({}, sum(sizes))]
    assert under(found["escapement_send_latency_milliseconds_bucket"], "+Inf") == 3
    assert found["escapement_send_latency_milliseconds_count"] == [({}, 3)]


async def test_how_late_messages_are_released_is_a_histogram(service: BrokerService, json_peer: Peer) -> None:
    delay_ms, has_waited = 50, False
    while not has_waited:  # one that comes too late to wait is delivered at once
        delay_ms *= 2
        topic, due_ms = f"after-{delay_ms}", time.time_ns() // 1_000_000 + delay_ms
        sent = await json_peer.send(topic, properties=f"TIMER_DELIVER_MS\x01{due_ms}\x02")
        has_waited = "escDueMs" in sent.ext
    await json_peer.pull(topic, suspendTimeoutMillis="15000", sysFlag="6")
    found = await metrics_of(service)
    counts = {labels["kind"]: value for labels, value in found["escapement_release_lateness_milliseconds_count"]}
    assert counts == {"level": 0, "timer": 1}


def test_a_histogram_counts_what_is_as_large_as_a_bound_with_it() -> None:
    counted = Histogram((1, 10))
    for value, count in ((0, 1), (1, 1), (2, 3), (10, 1), (11, 2)):
        counted.add(value, count)
    assert list(counted.buckets()) == [(1, 2), (10, 6), (None, 8)]
    assert counted.sum == 39


async def test_delayed_messages_are_counted_by_level(service: BrokerService, peer: Peer) -> None:
    await peer.send("orders", properties="DELAY\x012\x02")
    found = await metrics_of(service)
    assert ({"level": "2"}, 1) in found["escapement_delayed_messages"]


@pytest.fixture
async def guarded(config: EngineConfig) -> AsyncIterator[BrokerService]:
    """A broker whose metrics need a token."""
    running = BrokerService(config, broker_port=0, namesrv_port=0, protection=Protection(metrics_token="a-token"))
    await running.start()
    yield running
    await running.stop()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ((), 403),
        (("Authorization: Bearer another",), 403),
        (("Authorization: Basic a-token",), 403),
        (("Authorization: Bearer a-token",), 200),
        (("authorization: bearer a-token", "X-Forwarded-For: 10.0.0.1"), 200),
    ],
)
async def test_with_a_token_only_who_brings_it_is_told(
    guarded: BrokerService, headers: tuple[str, ...], status: int
) -> None:
    page = await asked(guarded.address, request("/metrics", *headers))
    assert page.status == status
    assert ("rocketmq_topic_number" in page.body) == (status == 200)


async def test_metrics_that_cannot_be_collected_are_an_error_and_nothing_else(
    service: BrokerService, peer: Peer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as broken, caplog.at_level(logging.ERROR, "broker.server"):
        broken.setattr(service.engine, "schedule", None)
        assert (await asked(service.address, request("/metrics"))).status == 500
    assert "could not be collected" in caplog.text
    assert (await peer.ask(Request.GET_BROKER_CONFIG)).code == Answer.SUCCESS
    assert (await asked(service.address, request("/metrics"))).status == 200


def documented() -> set[str]:
    """Names in the table of the broker's metrics."""
    part = METRICS.read_text().partition("## Of the broker")[2].partition("## Of the console")[0]
    return set(re.findall(r"^\| `(\w+)`", part, re.MULTILINE))


async def test_each_metric_is_documented(service: BrokerService) -> None:
    page = await asked(service.address, request("/metrics"))
    families = list(text_string_to_metric_families(page.body))
    told = {f"{family.name}_total" if family.type == "counter" else family.name for family in families}
    assert {name for name in told if not name.startswith("process_")} == documented()
