"""What is asked of a client too late, or twice: it works, or is refused at once; nothing is silently ignored."""

from __future__ import annotations

import asyncio
import inspect
from dataclasses import dataclass, replace
from typing import Any

import pytest

from broker.client import (
    Admin,
    AsyncAdmin,
    AsyncConsumer,
    AsyncLitePullConsumer,
    AsyncProducer,
    AsyncSimpleConsumer,
    AsyncTransactionProducer,
    ClientClosed,
    ClientError,
    Consumer,
    Decision,
    Half,
    InvalidArgument,
    LitePullConsumer,
    Message,
    MessageQueue,
    Producer,
    Receipt,
    SimpleConsumer,
    TransactionProducer,
    prepare,
)
from broker.testing import BrokerThread
from tests.waiting import turn

HOUR_MS = 3_600_000
QUEUE = MessageQueue("t", "broker-a", 0)
TRANSACTIONAL = (TransactionProducer, AsyncTransactionProducer)
CONSUMERS = (Consumer, AsyncConsumer)
LITE = (LitePullConsumer, AsyncLitePullConsumer)
CLASSES = (
    *CONSUMERS, *LITE, *TRANSACTIONAL, Producer, AsyncProducer, SimpleConsumer, AsyncSimpleConsumer, Admin, AsyncAdmin,
)  # fmt: skip
#: What is answered from memory, and what may be said twice.
QUIET = {
    "timers",  # of which each method is asked in test_keyed_timers.py
    "activity",
    "troubles",
    "at_work",
    "core",
    "client_id",
    "assignment",
    "queue_of",
    "check_locks",
    "group",
    "close",
    "stop",
    "queues of a consumer",
}
#: These give an error for each message instead of raising one.
TELLING = {"send_topics", "end_all"}
ADMIN = {"topic_stats": ("t",), "consume_stats": ("g",), "route": ("t",), "topics": ()}


@dataclass(frozen=True)
class Things:
    """What methods are given: all real."""

    message: Message
    handle: str
    half: Half
    receipt: Receipt


class Listener:
    """Decides nothing."""

    def execute(self, half: Half, argument: object) -> Decision:
        return Decision.UNKNOWN

    def check(self, message: Message) -> Decision:
        return Decision.UNKNOWN


def made(kind: Any, namesrv: str) -> Any:
    if kind in TRANSACTIONAL:
        return kind("p", namesrv, listener=Listener())
    return kind(namesrv) if kind in (Admin, AsyncAdmin) else kind("g", namesrv)


def methods(kind: Any) -> list[str]:
    """All that can be asked of a client after its end."""
    if kind in (Admin, AsyncAdmin):
        return list(ADMIN)
    public = {name for name in dir(kind) if not name.startswith("_")} - QUIET
    return sorted(public - ({"queues"} if kind in CONSUMERS else set()))


def arguments(kind: Any, method: str, things: Things) -> tuple[Any, ...]:
    """What a method is given; KeyError for one that was forgotten here."""
    ready = prepare("x")
    if kind in (Admin, AsyncAdmin):
        return ADMIN[method]
    if kind in LITE:
        return {
            "assign": ([QUEUE],), "commit": (), "committed": (QUEUE,), "is_paused": (QUEUE,), "pause": (), "poll": (),
            "position": (QUEUE,), "queues": ("t",), "resume": (), "seek": (QUEUE, 0), "seek_to_begin": (),
            "seek_to_end": (), "seek_to_time": (0,), "subscribe": ("t",), "unsubscribe": ("t",),
        }[method]  # fmt: skip
    alone: dict[str, tuple[Any, ...]] = {
        "ack": (things.receipt,), "backlog": (), "brokers_of": ("t",),
        "commit": (things.half,), "end": (things.half, Decision.COMMIT),
        "end_all": ([things.half], Decision.COMMIT), "extend": (things.receipt, 1000), "nack": (things.receipt,),
        "on": ("t",), "recall": ("t", things.handle), "receive": ("t",), "reply": (things.message, b"x"),
        "request": ("t", b"x"), "rollback": (things.half,), "run": (), "send": ("t", b"x"),
        "send_batch": ("t", [ready]), "send_each": ("t", [ready]), "send_half": ("t", ready),
        "send_in_transaction": ("t", ready), "send_oneway": ("t", ready), "send_prepared": ("t", ready),
        "send_topics": ({"t": [ready]},), "start": (), "subscribe": ("t", "*", print),
    }  # fmt: skip
    return alone[method]


async def ask(client: Any, method: str, *given: Any) -> Any:
    answer = getattr(client, method)(*given)
    if method == "on":
        answer = answer(print)
    return await answer if inspect.isawaitable(answer) else answer


def things_of(broker: BrokerThread) -> Things:
    with (
        TransactionProducer("p", broker.namesrv, check=lambda message: Decision.UNKNOWN) as producer,
        Admin(broker.namesrv) as admin, SimpleConsumer("simple", broker.namesrv) as simple,
    ):  # fmt: skip
        admin.create_topic("t", queues=1)
        handle = producer.send("t", b"x", delay_ms=HOUR_MS).recall_handle
        half = producer.send_half("t", prepare("x"))
        producer.send("t", b"x")
        (received,) = simple.receive("t")
    asked = {"CORRELATION_ID": "c", "REPLY_TO_CLIENT": "nobody", "CLUSTER": "DefaultCluster", "TTL": "1000"}
    question = replace(received.message, properties=dict(received.message.properties) | asked)
    return Things(question, handle or "", half, received.receipt)


def failures(outcome: Any) -> list[Any]:
    return [each for part in outcome.values() for each in part] if isinstance(outcome, dict) else outcome


@pytest.mark.parametrize("has_begun", [True, False])
@pytest.mark.parametrize("kind", CLASSES)
def test_whatever_is_asked_after_the_end_is_refused_at_once(kind: Any, has_begun: bool, broker: BrokerThread) -> None:
    things = things_of(broker)

    async def work() -> None:
        client = made(kind, broker.namesrv)
        if has_begun:
            await begin(kind, client)
        for _ in range(2):
            await ask(client, "close")
        for method in methods(kind):
            given = arguments(kind, method, things)
            async with asyncio.timeout(2):
                if method in TELLING:
                    assert [type(each) for each in failures(await ask(client, method, *given))] == [ClientClosed]
                    continue
                with pytest.raises(ClientClosed, match="make a new one"):
                    await ask(client, method, *given)

    asyncio.run(work())


async def begin(kind: Any, client: Any) -> None:
    """Have a client do what it is for."""
    if kind in CONSUMERS:
        await ask(client, "subscribe", "t", "*", print)
        await ask(client, "start")
    elif kind in LITE:
        await ask(client, "subscribe", "t")
        await ask(client, "poll", 0)
    elif kind in (Admin, AsyncAdmin):
        await ask(client, "topics")
    elif kind in (SimpleConsumer, AsyncSimpleConsumer):
        client = await ask(client, "receive", "t")
    else:
        await ask(client, "send", "t", b"x")


@pytest.mark.parametrize("kind", CLASSES)
def test_what_may_be_said_again_does_no_harm(kind: Any, broker: BrokerThread) -> None:
    things_of(broker)

    async def work() -> None:
        client = made(kind, broker.namesrv)
        await begin(kind, client)
        for method in ("start", "close"):
            for _ in range(2):
                if hasattr(client, method):
                    await ask(client, method)

    asyncio.run(work())


@pytest.mark.parametrize("kind", CONSUMERS)
def test_subscribing_comes_before_the_start(kind: Any, broker: BrokerThread) -> None:
    async def work() -> None:
        client = made(kind, broker.namesrv)
        with pytest.raises(InvalidArgument, match="call subscribe before start"):
            await ask(client, "start")
        await begin(kind, client)
        with pytest.raises(InvalidArgument, match="before that, or with another consumer"):
            await ask(client, "subscribe", "other", "*", print)
        await ask(client, "stop")

    asyncio.run(work())


@pytest.mark.parametrize("kind", LITE)
def test_a_lite_pull_consumer_subscribes_whenever_it_likes(kind: Any, broker: BrokerThread) -> None:
    things_of(broker)

    async def work() -> None:
        client = made(kind, broker.namesrv)
        with pytest.raises(InvalidArgument, match="before the first poll"):
            await ask(client, "poll", 0)
        await begin(kind, client)
        with Admin(broker.namesrv) as admin:
            admin.create_topic("other", queues=1)
        await ask(client, "subscribe", "other")
        assert {queue.topic for queue in client.assignment} == {"t", "other"}
        with pytest.raises(InvalidArgument, match="not both"):
            await ask(client, "assign", [QUEUE])
        await ask(client, "close")

    asyncio.run(work())


async def test_a_stop_during_the_start_ends_it(broker: BrokerThread) -> None:
    client = AsyncConsumer("g", broker.namesrv)
    client.subscribe("t", "*", print)
    starting = asyncio.ensure_future(client.start())
    await turn()
    await client.stop()
    with pytest.raises(ClientError):
        await starting


async def test_a_consumer_is_a_block(broker: BrokerThread) -> None:
    things_of(broker)
    client = AsyncConsumer("g", broker.namesrv)
    client.subscribe("t", "*", print)
    async with client:
        assert [queue.topic for queue in client.queues if queue.topic == "t"] == ["t"]
    with pytest.raises(ClientClosed):
        async with client:
            raise AssertionError


@pytest.mark.parametrize("kind", CONSUMERS)
@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf")])
def test_a_time_to_drain_is_a_time(kind: Any, seconds: float) -> None:
    with pytest.raises(InvalidArgument):
        kind("g", drain_timeout_s=seconds)
