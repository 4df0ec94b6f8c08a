"""Handlers decide: again after a time of their own, a dead letter at once, a time-out, batches."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import timedelta
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from broker.client import Consumer, DeadLetter, InvalidArgument, Message, Producer, RetryIn
from broker.client._verdicts import DONE, Plan, Verdict
from broker.testing import BrokerThread, small_store

WAIT_S = 30
MS = timedelta(milliseconds=1)
FIRST = "first"


def test_a_verdict_is_read_from_what_a_handler_did() -> None:
    plan = Plan.of([timedelta(seconds=1), timedelta(seconds=5)])
    assert Verdict.of(None, plan, 0) is DONE
    assert [Verdict.of(ValueError(), plan, n).retry_ms for n in range(4)] == [1000, 5000, 5000, 5000]
    assert Verdict.of(ValueError(), Plan.of(), 3) == Verdict(is_done=False)
    assert Verdict.of(RetryIn(90 * MS), plan, 0).retry_ms == 90
    assert Verdict.of(DeadLetter("why"), plan, 0) == Verdict(is_done=False, dead="why")


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"backoff": [timedelta(seconds=-1)]}, "backoff"), ({"backoff": [5]}, "backoff"),
        ({"timeout": timedelta()}, "timeout"), ({"timeout": 5}, "timeout"), ({"batch": 0}, "batch"),
        ({"batch": True}, "batch"), ({"batch": 2, "orderly": True}, "batch"),
        ({"batch": 2, "batch_wait": timedelta(hours=1)}, "batch_wait"),
    ],
)  # fmt: skip
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        Plan.of(**options)
    assert refused.value.field == field


@pytest.mark.parametrize("orderly", [False, True])
@pytest.mark.parametrize("how", ["raised", "returned", "backoff"])
def test_a_message_comes_again_when_its_handler_says(broker: BrokerThread, how: str, orderly: bool) -> None:
    seen: Queue[tuple[int, float]] = Queue()

    def handle(message: Message) -> object:
        seen.put((message.reconsume_times, time.monotonic()))
        if message.reconsume_times == 2:
            return None
        if how == "backoff":
            raise ValueError("not yet")
        if how == "raised":
            raise RetryIn(200 * MS, "the bank is closed")
        return RetryIn(200 * MS)

    with Producer("shop", broker.namesrv) as producer:
        producer.send("orders", "4711", delay_ms=1, schedule_key="order-4711")
    consumer = Consumer("billing", broker.namesrv, from_where=FIRST, orderly=orderly)
    consumer.subscribe("orders", "*", handle, backoff=200 * MS)
    with consumer:
        (first, first_s), (second, second_s), (third, third_s) = (seen.get(timeout=WAIT_S) for _ in range(3))
    assert (first, second, third) == (0, 1, 2)
    # the broker's own first step is 10 s
    assert all(0.19 < later - sooner < 5 for sooner, later in ((first_s, second_s), (second_s, third_s)))


@pytest.mark.parametrize("orderly", [False, True])
def test_a_dead_letter_is_one_at_once_and_says_why(broker: BrokerThread, orderly: bool) -> None:
    seen: Queue[bytes] = Queue()

    def handle(message: Message) -> None:
        seen.put(message.body)
        if message.body == b"bad":
            raise DeadLetter("no such\x01 order")

    with Producer("shop", broker.namesrv) as producer:
        for body in ("bad", "good"):
            producer.send("orders", body, keys=["4711"], queue_id=0)
    consumer = Consumer("billing", broker.namesrv, from_where=FIRST, orderly=orderly, threads=1)
    consumer.subscribe("orders", "*", handle)
    with consumer:
        assert [seen.get(timeout=WAIT_S) for _ in range(2)] == [b"bad", b"good"]
    (dead,) = broker.messages("%DLQ%billing")
    told = (dead.body, dead.keys, dead.properties["ESC_DEAD_REASON"], dead.properties["DLQ_ORIGIN_TOPIC"])
    assert told == (b"bad", ["4711"], "no such order", "orders")


def test_the_last_attempt_is_the_last_whatever_the_handler_wants(tmp_path: Path) -> None:
    seen: Queue[int] = Queue()

    def handle(message: Message) -> None:
        seen.put(message.reconsume_times)
        raise RetryIn(20 * MS)

    with BrokerThread(small_store(tmp_path)) as broker:
        with Producer("shop", broker.namesrv) as producer:
            producer.send("orders", "4711")
        consumer = Consumer("billing", broker.namesrv, from_where=FIRST, max_reconsume_times=2)
        consumer.subscribe("orders", "*", handle)
        with consumer:
            assert [seen.get(timeout=WAIT_S) for _ in range(3)] == [0, 1, 2]
        assert [dead.body for dead in broker.messages("%DLQ%billing")] == [b"4711"]


def test_a_handler_that_takes_too_long_has_failed(broker: BrokerThread) -> None:
    seen: Queue[tuple[str, int]] = Queue()
    release = threading.Event()

    def slow(message: Message) -> None:
        seen.put(("thread", message.reconsume_times))
        if message.reconsume_times == 0:
            release.wait(WAIT_S)

    async def stuck(message: Message) -> None:
        seen.put(("coroutine", message.reconsume_times))
        if message.reconsume_times == 0:
            await asyncio.get_running_loop().create_future()

    with Producer("shop", broker.namesrv) as producer:
        producer.send("slow", "x")
        producer.send("stuck", "x")
    consumer = Consumer("billing", broker.namesrv, from_where=FIRST)
    consumer.subscribe("slow", "*", slow, timeout=50 * MS, backoff=MS)
    consumer.subscribe("stuck", "*", stuck, timeout=50 * MS, backoff=MS)
    with consumer:
        told = {seen.get(timeout=WAIT_S) for _ in range(4)}
        release.set()
    assert told == {("thread", 0), ("thread", 1), ("coroutine", 0), ("coroutine", 1)}


def test_a_batch_is_handled_by_one_call_and_fails_as_one(broker: BrokerThread) -> None:
    seen: Queue[list[tuple[bytes, int]]] = Queue()

    def handle(messages: list[Message]) -> None:
        seen.put(sorted((each.body, each.reconsume_times) for each in messages))
        if all(each.reconsume_times == 0 for each in messages) and len(messages) < 4:
            raise ValueError("not yet")

    with Producer("shop", broker.namesrv) as producer:
        for number in range(6):
            producer.send("orders", str(number), queue_id=0)
    consumer = Consumer("billing", broker.namesrv, from_where=FIRST)
    consumer.subscribe("orders", "*", handle, batch=4, batch_wait=300 * MS, backoff=MS)
    with consumer:
        full, rest, again = (seen.get(timeout=WAIT_S) for _ in range(3))
    assert full == [(b"0", 0), (b"1", 0), (b"2", 0), (b"3", 0)]
    assert rest == [(b"4", 0), (b"5", 0)]
    assert again == [(b"4", 1), (b"5", 1)]
