"""`timeout_ms` is the time of the whole call, whatever it waits for; and the error says what that was."""

from __future__ import annotations

import asyncio
import inspect
import re
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from broker.client import (
    AsyncAdmin,
    AsyncProducer,
    AsyncTransactionProducer,
    BrokerUnreachable,
    Decision,
    Half,
    Message,
    Producer,
    Timeout,
    TransactionListener,
    TransactionProducer,
    prepare,
)
from broker.client._event_loop import event_loop_thread
from broker.client.errors import ClientError
from broker.testing import BrokerThread
from tests.client.halfbroker import HalfBroker

SHORT_MS = 150
#: Long enough for anything that does not hang, on any machine.
LONG_MS = 30_000
#: Enough for a half on a busy machine, and other than what calls take where nothing is said.
DECIDED_MS = 1_500
QUESTION = Message("t", 0, 0, 0, 0, b"", {"CLUSTER": "c", "CORRELATION_ID": "1", "REPLY_TO_CLIENT": "a"}, 0, 0, 0,
                   ("127.0.0.1", 1), 0, ("127.0.0.1", 1), 0, 0)  # fmt: skip
CALLS: dict[str, Callable[[TransactionProducer], object]] = {
    "send": lambda producer: producer.send("t", "x", timeout_ms=SHORT_MS),
    "send_each": lambda producer: producer.send_each("t", [prepare("x")], timeout_ms=SHORT_MS),
    "send_batch": lambda producer: producer.send_batch("t", ["x"], timeout_ms=SHORT_MS),
    "send_oneway": lambda producer: producer.send_oneway("t", "x", timeout_ms=SHORT_MS),
    "request": lambda producer: producer.request("t", "x", timeout_ms=SHORT_MS),
    "reply": lambda producer: producer.reply(QUESTION, "x", timeout_ms=SHORT_MS),
    "send_half": lambda producer: producer.send_half("t", prepare("x"), timeout_ms=SHORT_MS),
    "send_in_transaction": lambda producer: producer.send_in_transaction("t", "x", timeout_ms=SHORT_MS),
}


class Committing(TransactionListener):
    """Decides as soon as the local work, if there is any, is done."""

    def execute(self, half: Half, argument: Callable[[], object] | None) -> Decision:
        if argument is not None:
            argument()
        return Decision.COMMIT

    def check(self, message: Message) -> Decision:
        return Decision.UNKNOWN


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of who takes connections (the system does) and answers nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def full() -> Iterator[str]:
    """The address of a listener with no room: it does not even take connections."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        crowd = []
        for _ in range(4):
            one = socket.socket()
            one.setblocking(False)
            one.connect_ex(listener.getsockname())
            crowd.append(one)
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        for one in crowd:
            one.close()


@pytest.fixture
def nameless(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An address whose name nobody ever looks up."""
    over = threading.Event()
    known = socket.getaddrinfo

    def find(host: Any, *rest: Any, **more: Any) -> Any:
        if host == "nobody.invalid":
            over.wait(5)
        return known(host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", find)
    yield "nobody.invalid:9876"
    over.set()


@pytest.fixture(params=["silent", "full", "nameless"])
def nowhere(request: pytest.FixtureRequest) -> str:
    """Each kind of a name server that cannot be had."""
    address: str = request.getfixturevalue(request.param)
    return address


def transaction_producer(namesrv: str) -> TransactionProducer:
    return TransactionProducer("p", namesrv, listener=Committing())


@pytest.mark.parametrize("call", CALLS)
def test_every_call_is_over_in_time(nowhere: str, call: str) -> None:
    producer = transaction_producer(nowhere)
    try:
        with pytest.raises(Timeout) as caught:
            CALLS[call](producer)
        assert (caught.value.timeout_ms, nowhere in str(caught.value)) == (SHORT_MS, True)
    finally:
        producer.close()


def test_all_calls_that_take_a_time_are_tried() -> None:
    taking = {
        name
        for kind in (Producer, TransactionProducer)
        for name, method in inspect.getmembers(kind, inspect.isfunction)
        if "timeout_ms" in inspect.signature(method).parameters
    }
    # the others: of what exists already, or made of these
    assert taking - set(CALLS) == {
        "brokers_of",
        "commit",
        "rollback",
        "end",
        "end_all",
        "recall",
        "send_prepared",
        "send_topics",
    }


def test_decisions_are_over_in_time(silent: str) -> None:
    half = Half("A", "t", "p", "broker-a", silent, 0, 0)
    producer = transaction_producer(silent)
    try:
        for decide in (producer.commit, producer.rollback):
            with pytest.raises(Timeout, match=f"{SHORT_MS} ms"):
                decide(half, timeout_ms=SHORT_MS)
        (error,) = producer.end_all([half], Decision.COMMIT, timeout_ms=SHORT_MS)
        assert isinstance(error, Timeout)
        (each,) = producer.send_topics({"t": [prepare("x")]}, timeout_ms=SHORT_MS)["t"]
        assert isinstance(each, Timeout)
    finally:
        producer.close()


@pytest.mark.parametrize("kind", ["full", "nameless"])
def test_telling_that_nothing_is_known_is_over_in_time(request: pytest.FixtureRequest, kind: str) -> None:
    """It is not answered, but somebody must be there to be told."""
    half = Half("A", "t", "p", "broker-a", request.getfixturevalue(kind), 0, 0)
    producer = transaction_producer(half.address)
    try:
        (error,) = producer.end_all([half], Decision.UNKNOWN, timeout_ms=SHORT_MS)
        assert isinstance(error, Timeout)
        assert 0 < error.timeout_ms <= SHORT_MS
    finally:
        producer.close()


def test_the_decision_of_a_transaction_gets_what_its_half_left_of_the_time(caplog: pytest.LogCaptureFixture) -> None:
    with HalfBroker() as broker, transaction_producer(broker.namesrv) as producer:
        broker.is_silent_to_ends = True
        result = producer.send_in_transaction("t", "x", timeout_ms=DECIDED_MS)
    assert (result.decision, result.is_confirmed) == (Decision.COMMIT, False)
    (said,) = [record.getMessage() for record in caplog.records if "did not reach the broker" in record.getMessage()]
    found = re.search(r"within (\d+) ms", said)
    assert found is not None
    assert int(found[1]) <= DECIDED_MS


def test_local_work_takes_nothing_of_the_time(silent: str) -> None:
    """It is the caller's own, and must not be cut off: it may have committed."""

    def work() -> None:
        # twice the time passes before this call is over
        with Producer("q", silent) as other, pytest.raises(Timeout):
            other.send("t", "y", timeout_ms=2 * DECIDED_MS)

    with HalfBroker() as broker, transaction_producer(broker.namesrv) as producer:
        result = producer.send_in_transaction("t", "x", work, timeout_ms=DECIDED_MS)
    assert (result.decision, result.is_confirmed) == (Decision.COMMIT, True)


async def test_the_asynchronous_ones_are_as_good(nowhere: str) -> None:
    async with AsyncProducer("p", nowhere) as producer:
        for call in (producer.send("t", "x", timeout_ms=SHORT_MS), producer.send_oneway(
            "t", prepare("x"), timeout_ms=SHORT_MS
        )):  # fmt: skip
            with pytest.raises(Timeout, match=f"{SHORT_MS} ms"):
                await call
    producer = AsyncTransactionProducer("p", nowhere, check=lambda message: Decision.UNKNOWN)
    with pytest.raises(Timeout, match="waiting for brokers from"):
        await producer.send_half("t", prepare("x"), timeout_ms=SHORT_MS)
    await producer.close()


def test_a_name_server_that_hangs_does_not_keep_from_the_next_one(silent: str, broker: BrokerThread) -> None:
    with Producer("p", f"{silent};{broker.namesrv}") as producer:
        assert producer.send("t", "x").status == "SEND_OK"


async def test_a_broker_that_hangs_harms_no_message_for_another(silent: str, broker: BrokerThread) -> None:
    async with AsyncProducer("p", broker.namesrv, retries=0) as producer:
        known = await _known(producer, broker)
        known.all = (*known.all, *(_elsewhere(each, silent) for each in known.all))
        outcomes = []
        for destination in known.all:
            known._turn = iter([destination])
            try:
                outcomes.append((await producer.send("t", "y", timeout_ms=2_000)).status)
            except Timeout as error:
                outcomes.append(error.address or error.waited_for)
        half = len(known.all) // 2
        assert outcomes == ["SEND_OK"] * half + [silent] * half


async def _known(producer: AsyncProducer, broker: BrokerThread) -> Any:
    """Where the messages of a topic go, as the producer knows it for some time."""
    async with AsyncAdmin(broker.namesrv) as admin:
        await admin.create_topic("t", queues=2)
    await producer.send("t", "x", timeout_ms=LONG_MS)
    return producer._destinations["t", "p"]


def _elsewhere(destination: Any, address: str) -> Any:
    return replace(destination, address=address)


def test_a_loop_that_is_busy_is_said(broker: BrokerThread) -> None:
    begun, over = threading.Event(), threading.Event()
    with Producer("p", broker.namesrv) as producer:
        producer.send("t", "x", timeout_ms=LONG_MS)

        async def block() -> None:
            begun.set()
            over.wait(LONG_MS / 1000)

        blocking = threading.Thread(target=lambda: event_loop_thread.run(block()))
        blocking.start()
        begun.wait()
        try:
            with pytest.raises(Timeout, match="event loop, which is busy"):
                producer.send("t", "y", timeout_ms=SHORT_MS)
        finally:
            over.set()
            blocking.join()


def test_a_broker_that_does_not_read_ends_a_oneway_send(broker: BrokerThread) -> None:
    async def told() -> ClientError | None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            async with AsyncProducer("p", broker.namesrv) as producer:
                known = await _known(producer, broker)
                address = f"127.0.0.1:{listener.getsockname()[1]}"
                known.all = tuple(_elsewhere(each, address) for each in known.all)
                known._turn = iter(known.all * 100)
                large = prepare(bytes(4_000_000))
                for _ in range(20):
                    try:
                        await producer.send_oneway("t", large, timeout_ms=SHORT_MS)
                    except (Timeout, BrokerUnreachable) as error:
                        return error
                    await asyncio.to_thread(int)  # the loop writes what it was given
        return None

    error = asyncio.run(told())
    assert isinstance(error, Timeout)
    assert "to read what was sent before" in str(error)
