"""What keeps a consumer from its work is said once, with the remedy, and once when it is over."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest

from broker.client import Admin, Consumer, Producer
from broker.client._outages import Outages
from broker.client.errors import BrokerRefused, BrokerUnreachable, RouteNotFound
from broker.rocketmq.codes import Answer
from broker.testing import BrokerThread, small_store
from tests.interop.waiting import wait_until

WAIT_S = 30


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.INFO, logger="broker.client"):
        yield caplog


def lines(said: pytest.LogCaptureFixture, words: str) -> list[str]:
    return [each.getMessage() for each in said.records if words in each.getMessage()]


def test_each_thing_is_said_once_and_once_when_it_is_over(said: pytest.LogCaptureFixture) -> None:
    now_s = [0.0]
    outages = Outages("group billing", clock_s=lambda: now_s[0])
    for _ in range(3):
        outages.away("b:1", BrokerUnreachable("b:1", "refused"))
        outages.failed("orders", BrokerUnreachable("b:1", "refused"), "reading topic orders")
        outages.failed("orders", RouteNotFound("orders"), "reading topic orders")
        outages.failed("bills", BrokerRefused(Answer.NO_PERMISSION, "no"), "reading topic bills")
    assert len(said.records) == 3
    assert "access_key" in said.records[-1].getMessage()
    now_s[0] = 12.4
    for _ in range(2):
        outages.end("b:1")
        outages.found("orders")
        outages.works("bills")
    told = [each.getMessage() for each in said.records[3:]]
    assert told == [
        "group billing: b:1 is back after 12 s",
        "group billing: topic orders is there after 12 s",
        "group billing: reading topic bills works again after 12 s",
    ]
    assert not outages


def test_a_worker_says_that_its_broker_is_away_and_that_it_is_back(
    tmp_path: Path, said: pytest.LogCaptureFixture
) -> None:
    got = Event()
    with BrokerThread(small_store(tmp_path)) as broker:
        with Admin(broker.namesrv) as admin:
            admin.create_topic("orders", queues=8)
        consumer = Consumer("billing", broker.namesrv)
        consumer.subscribe("orders", "*", lambda message: got.set())
        consumer.subscribe("later", "*", lambda message: None)
        with consumer:
            assert len(lines(said, "waits for topic later")) == 1
            broker.stop()
            assert wait_until(lambda: bool(lines(said, f"{broker.address} is unreachable")), WAIT_S)
            broker.start()
            assert wait_until(lambda: bool(lines(said, f"{broker.address} is back after")), WAIT_S)
            with Producer("shop", broker.namesrv) as producer:
                producer.send("orders", "x")
            assert got.wait(WAIT_S)
    assert len(lines(said, "unreachable")) == 2  # the broker and its name server
    assert not lines(said, "RETRY")
    assert [each.levelname for each in said.records if "group billing" in each.getMessage()] == ["WARNING"] * 5
