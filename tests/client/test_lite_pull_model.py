"""Lite pull against a list: whatever is sent, polled, sought and committed, and after any restart."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.client import Admin, LitePullConsumer, Message, MessageQueue, Producer, subscription
from broker.client._offsets import Beginnings
from broker.client._reader import QueueReader, ReadAhead
from broker.client._session import Session
from tests.client.running import BrokerThread, small_store
from tests.client.test_consuming import until

NUMBERS = itertools.count()
PATIENCE_MS = 20_000
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(1, 12)),
        st.tuples(st.just("poll"), st.integers(1, 40)),
        st.tuples(st.just("seek"), st.integers(0, 100)),
        st.tuples(st.sampled_from(["commit", "restart", "begin", "end"]), st.just(0)),
    ),
    max_size=14,
)


@pytest.fixture(scope="module")
def everlasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerThread]:
    """One broker for all examples."""
    with BrokerThread(small_store(tmp_path_factory.mktemp("model"))) as running:
        yield running


class Model:
    """One queue as a list of bodies, and a group's two offsets in it."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.position = 0
        self.committed: int | None = None


def opened(broker: BrokerThread, queue: MessageQueue, ahead: int) -> LitePullConsumer:
    consumer = LitePullConsumer(
        f"group-{queue.topic}", broker.namesrv, from_where="first", auto_commit=False, read_ahead=ahead
    )
    consumer.assign([queue])
    return consumer


def poll(consumer: LitePullConsumer, model: Model, most: int) -> None:
    left = model.log[model.position :]
    polled = [message.body.decode() for message in consumer.poll(PATIENCE_MS if left else 0, most)]
    assert polled == left[: len(polled)]
    assert (1 if left else 0) <= len(polled) <= most
    model.position += len(polled)


@settings(max_examples=30)
@given(steps=STEPS, ahead=st.integers(1, 40))
def test_lite_pull_is_a_cursor_in_a_list(everlasting: BrokerThread, steps: list[tuple[str, int]], ahead: int) -> None:
    queue = MessageQueue(f"topic-{next(NUMBERS)}", "broker-a", 0)
    model = Model()
    with Admin(everlasting.namesrv) as admin, Producer("p", everlasting.namesrv) as producer:
        admin.create_topic(queue.topic, queues=1)
        consumer = opened(everlasting, queue, ahead)
        for step, number in steps:
            match step:
                case "send":
                    sent = [f"{len(model.log) + nth}" for nth in range(number)]
                    producer.send_batch(queue.topic, sent)
                    model.log += sent
                case "poll":
                    poll(consumer, model, number)
                case "seek":
                    model.position = number * len(model.log) // 100
                    consumer.seek(queue, model.position)
                case "begin":
                    model.position = 0
                    consumer.seek_to_begin()
                case "end":
                    model.position = len(model.log)
                    consumer.seek_to_end()
                case "commit":
                    # an offset at which nothing was done yet is none that needs to be told
                    if (model.committed or 0) != model.position:
                        model.committed = model.position
                    consumer.commit()
                case "restart":
                    consumer.close()
                    consumer = opened(everlasting, queue, ahead)
                    model.position = model.committed or 0
            assert consumer.position(queue) == model.position
            assert consumer.committed(queue) == model.committed
        consumer.close()


@pytest.mark.parametrize(("stands", "after"), [(None, None), (5, 0)])
async def test_a_commit_before_the_start_is_known_tells_what_is_new(
    everlasting: BrokerThread, stands: int | None, after: int | None
) -> None:
    """Whether the first offset was told depended on whether the seek or the question of where to begin was quicker."""
    queue = MessageQueue(f"topic-{next(NUMBERS)}", "broker-a", 0)
    with Admin(everlasting.namesrv) as admin, Producer("p", everlasting.namesrv) as producer:
        admin.create_topic(queue.topic, queues=1)
        producer.send_batch(queue.topic, ["x"] * 6)
    session = Session(everlasting.namesrv)
    beginnings = Beginnings(session, "g", from_first=True)
    reader = QueueReader(session, "g", queue, subscription(queue.topic, "*"), lambda *_: None, beginnings)
    if stands is not None:
        await reader.offsets.commit(stands, confirmed=True)
    reader.seek(0)
    await reader.commit(confirmed=True)
    assert await reader.offsets.committed() == after
    await reader.stop()
    await session.close()


def test_no_more_is_read_ahead_than_allowed(broker: BrokerThread) -> None:
    async def read() -> None:
        session = Session(broker.namesrv)
        arrived: list[Message] = []
        reader = QueueReader(
            session, "g", MessageQueue("t", "broker-a", 0), subscription("t"), lambda _, each: arrived.append(each),
            Beginnings(session, "g", from_first=True), ReadAhead(messages=10),
        )  # fmt: skip
        reader.start()
        await until(lambda: len(arrived) == 10)
        for message in arrived[:3]:
            reader.done(message)
        await until(lambda: len(arrived) == 13)
        assert reader.finished_offset == 3
        reader.seek(20)
        await until(lambda: len(arrived) == 23)
        assert arrived[-1].queue_offset == 29
        await reader.stop()
        await session.close()

    with Producer("p", broker.namesrv) as producer:
        producer.send_batch("t", [str(number) for number in range(100)], queue_id=0)
        asyncio.run(read())


def test_bytes_count_too(broker: BrokerThread) -> None:
    with Producer("p", broker.namesrv) as producer:
        for number in range(8):
            producer.send("t", b"%d" % number + bytes(200_000), queue_id=0)
        with LitePullConsumer("g", broker.namesrv, from_where="first", read_ahead_bytes=1) as consumer:
            consumer.subscribe("t")
            polled = [consumer.poll(PATIENCE_MS) for _ in range(8)]
    # a pull has room for one or two such messages, and there is none ahead of what is polled
    assert [message.body[:1] for part in polled for message in part][:4] == [b"0", b"1", b"2", b"3"]
    assert max(len(part) for part in polled) <= 2


def test_a_consumer_goes_on_when_the_broker_comes_back(broker: BrokerThread) -> None:
    with (
        Producer("p", broker.namesrv) as producer,
        LitePullConsumer("g", broker.namesrv, from_where="first") as consumer,
    ):
        producer.send("t", "before")
        consumer.subscribe("t")
        assert [message.body for message in consumer.poll(PATIENCE_MS)] == [b"before"]
        broker.stop()
        broker.start()
        producer.send("t", "after", timeout_ms=10_000)
        assert [message.body for message in consumer.poll(PATIENCE_MS)] == [b"after"]
