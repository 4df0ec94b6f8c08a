"""What a request leaves behind goes when it is answered: nothing of the broker's goes round in a circle.

The collector of a broker looks seldom, as there is nothing for it among messages that are under way; what waits for
it all the same waits by the thousand.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta

import pytest

from broker.client import (
    AsyncAdmin,
    AsyncProducer,
    AsyncSimpleConsumer,
    AsyncTransactionProducer,
    BrokerRefused,
    Decision,
    Message,
    ScheduleKeyTaken,
    prepare,
)
from broker.client.transactions import TransactionTarget
from broker.server.broker import BrokerService

TOPIC, HOUR, TIMES = "orders", timedelta(hours=1), 5
OURS = ("broker.engine.", "broker.server.")


@dataclass(frozen=True)
class Clients:
    """One client of each kind."""

    admin: AsyncAdmin
    producer: AsyncProducer
    payments: AsyncTransactionProducer
    consumer: AsyncSimpleConsumer


@pytest.fixture
async def clients(service: BrokerService) -> AsyncIterator[Clients]:
    """Clients of the running broker."""
    namesrv = service.namesrv_address
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        admin, producer = await enter(AsyncAdmin(namesrv)), await enter(AsyncProducer("shop", namesrv))
        payments = await enter(AsyncTransactionProducer("payments", namesrv, check=commit))
        await admin.create_topic(TOPIC, queues=4)
        await admin.create_topic("others", queues=1)
        yield Clients(admin, producer, payments, await enter(AsyncSimpleConsumer("billing", namesrv)))


async def commit(_: Message) -> Decision:
    return Decision.COMMIT


@pytest.fixture
def no_collector() -> Iterator[None]:
    """No collection but a test's own."""
    gc.disable()
    yield
    gc.enable()


async def send(clients: Clients, number: int) -> None:
    await clients.producer.send(TOPIC, b"body", tag="paid", keys=[str(number)])


async def send_each(clients: Clients, number: int) -> None:
    await clients.producer.send_each(TOPIC, [prepare(b"one"), prepare(b"two")])


async def send_later(clients: Clients, number: int) -> None:
    await clients.producer.send(TOPIC, b"body", delay_level=2)


async def put(clients: Clients, number: int) -> None:
    await clients.producer.timers.put(TOPIC, str(number), b"body", delay=HOUR)


async def replace(clients: Clients, number: int) -> None:
    await put(clients, number)
    await clients.producer.timers.put(TOPIC, str(number), b"other", delay=HOUR, on_conflict="replace")


async def move(clients: Clients, number: int) -> None:
    await put(clients, number)
    await clients.producer.timers.move(TOPIC, str(number), delay=2 * HOUR)


async def cancel(clients: Clients, number: int) -> None:
    await put(clients, number)
    for _ in range(2):
        await clients.producer.timers.cancel(TOPIC, str(number))


async def recall(clients: Clients, number: int) -> None:
    sent = await clients.producer.send(TOPIC, b"body", delay=HOUR)
    assert sent.recall_handle is not None
    await clients.producer.recall(TOPIC, sent.recall_handle)


async def decide(clients: Clients, number: int) -> None:
    for decision in (Decision.COMMIT, Decision.ROLLBACK):
        half = await clients.payments.send_half(TOPIC, prepare(b"body"))
        await clients.payments.end(half, decision)


async def decide_as_operator(clients: Clients, number: int) -> None:
    await clients.payments.send_half(TOPIC, prepare(b"body"))
    (half,) = (await clients.admin.transactions()).items
    target = TransactionTarget(half.offset, half.position)
    await clients.admin.steer_transactions("rollback", [target], who="an operator")


async def pop(clients: Clients, number: int) -> None:
    await clients.producer.send(TOPIC, b"body")
    for received in await clients.consumer.receive(TOPIC, max_messages=4, invisible_ms=5_000, wait_ms=1_000):
        await clients.consumer.ack(received)


async def wait_in_vain(clients: Clients, number: int) -> None:
    assert await clients.consumer.receive("others", wait_ms=1) == []


async def be_refused(clients: Clients, number: int) -> None:
    await put(clients, number)
    with pytest.raises(ScheduleKeyTaken):
        await clients.producer.timers.put(TOPIC, str(number), b"other", delay=HOUR, on_conflict="error")
    with pytest.raises(BrokerRefused):
        await clients.admin.pull(TOPIC, 9, 0, 32)


async def look(clients: Clients, number: int) -> None:
    admin = clients.admin
    await admin.pull(TOPIC, 0, 0, 32)
    await admin.topic_stats(TOPIC)
    await admin.timers(0, 1 << 50)
    await admin.timer_status()
    await admin.transactions()


ACTS: Mapping[str, Callable[[Clients, int], Awaitable[None]]] = {
    each.__name__: each
    for each in (
        send, send_each, send_later, put, replace, move, cancel, recall, decide, decide_as_operator, pop, wait_in_vain,
        be_refused, look,
    )
}  # fmt: skip


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
async def test_nothing_waits_for_the_collector(
    clients: Clients, act: Callable[[Clients, int], Awaitable[None]]
) -> None:
    await act(clients, 0)  # what is made once may stay
    gc.collect()
    for number in range(1, TIMES + 1):
        await act(clients, number)
    await clients.admin.topics()  # when this is answered all before it has gone
    assert left_to_the_collector() == {}


def left_to_the_collector() -> dict[str, int]:
    """Count what of the broker's goes with a collection only, by type."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
        names = Counter(f"{type(each).__module__}.{type(each).__qualname__}" for each in gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
    return {name: count for name, count in names.items() if name.startswith(OURS)}
