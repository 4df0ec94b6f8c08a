"""Halves, decisions, and answers to checks, against a scripted broker; real ones are asked in tests/interop."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from broker.client import (
    BrokerRefused,
    BrokerUnreachable,
    Decision,
    Half,
    HalfNotSafe,
    InvalidArgument,
    Message,
    NotSupported,
    Timeout,
    TransactionProducer,
    plain_sends,
    prepare,
)
from broker.client.errors import PlainSendRefused
from tests.client.halfbroker import HalfBroker

Asked = queue.Queue[Message]
PATIENCE_S = 20


@pytest.fixture
def broker() -> Iterator[HalfBroker]:
    with HalfBroker() as running:
        yield running


class Listener:
    """Does what the test told it to do."""

    def __init__(self, decision: Decision = Decision.COMMIT, failure: Exception | None = None) -> None:
        self.decision = decision
        self.failure = failure
        self.executed: list[tuple[Half, object]] = []
        self.asked: Asked = queue.Queue()

    def execute(self, half: Half, argument: object) -> Decision:
        self.executed.append((half, argument))
        if self.failure is not None:
            raise self.failure
        return self.decision

    def check(self, message: Message) -> Decision:
        self.asked.put(message)
        return self.decision


def producer_of(broker: HalfBroker, listener: Listener) -> TransactionProducer:
    return TransactionProducer("shop", broker.namesrv, listener=listener)


@pytest.mark.parametrize("decision", list(Decision))
def test_what_the_listener_says_is_told_with_the_place_of_the_half(broker: HalfBroker, decision: Decision) -> None:
    listener = Listener(decision)
    with producer_of(broker, listener) as producer:
        result = producer.send_in_transaction("orders", "4711", argument="order", tag="paid", keys=["4711"])
        half = broker.half(result.half.transaction_id)
        broker.wait(lambda: half.decisions)
    assert (half.topic, half.body, half.sys_flag) == ("orders", b"4711", 4)
    assert (half.properties["TRAN_MSG"], half.properties["PGROUP"]) == ("true", "shop")
    assert (half.properties["TAGS"], half.properties["KEYS"]) == ("paid", "4711")
    assert listener.executed == [(result.half, "order")]
    assert (result.decision, result.is_confirmed) == (decision, decision is not Decision.UNKNOWN)
    assert half.decisions == [
        {
            "producerGroup": "shop", "bname": "broker-a", "topic": "orders", "msgId": result.half.transaction_id,
            "transactionId": result.half.transaction_id, "tranStateTableOffset": "0", "commitLogOffset": "0",
            "commitOrRollback": str(int(decision)), "fromTransactionCheck": "false",
        }
    ]  # fmt: skip


def test_a_listener_that_raises_leaves_the_half_to_a_check(broker: HalfBroker) -> None:
    listener = Listener(failure=ValueError("not now"))
    with producer_of(broker, listener) as producer:
        with pytest.raises(ValueError, match="not now"):
            producer.send_in_transaction("orders", "4711")
        (half,) = broker.halves.values()
        assert half.decisions == []
        broker.check(half.properties["UNIQ_KEY"])
        broker.wait(lambda: half.decisions)
        assert half.codes == [Decision.COMMIT]


def test_a_check_is_answered_at_the_place_where_the_broker_now_has_the_half(broker: HalfBroker) -> None:
    listener = Listener(Decision.ROLLBACK)
    with producer_of(broker, listener) as producer:
        half = producer.send_half("orders", prepare("红"))
        broker.check(half.transaction_id, offset=77)
        stored = broker.half(half.transaction_id)
        broker.wait(lambda: stored.decisions)
        message = listener.asked.get(timeout=PATIENCE_S)
    assert (message.topic, message.body.decode(), message.unique_key) == ("orders", "红", half.transaction_id)
    fields = stored.decisions[0]
    assert (fields["tranStateTableOffset"], fields["commitLogOffset"]) == ("77", "77000")
    assert (fields["fromTransactionCheck"], fields["commitOrRollback"]) == ("true", "12")


def test_a_checker_that_fails_answers_unknown_and_is_asked_again(broker: HalfBroker) -> None:
    answers = iter([RuntimeError("no database"), Decision.COMMIT])

    def check(message: Message) -> Decision:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    with TransactionProducer("shop", broker.namesrv, check=check) as producer:
        half = producer.send_half("orders", prepare("4711"))
        for asked in (1, 2):
            broker.check(half.transaction_id)
            broker.wait(lambda asked=asked: len(broker.half(half.transaction_id).decisions) == asked)
    assert broker.half(half.transaction_id).codes == [Decision.UNKNOWN, Decision.COMMIT]


def test_a_coroutine_checks_too_and_who_wants_to_know_is_told(broker: HalfBroker) -> None:
    told: queue.Queue[tuple[str | None, Decision]] = queue.Queue()

    async def check(message: Message) -> Decision:
        return Decision.COMMIT

    producer = TransactionProducer(
        "shop",
        broker.namesrv,
        check=check,
        confirmed=lambda message, decision: told.put((message.unique_key, decision)),
    )
    with producer:
        half = producer.send_half("orders", prepare("4711"))
        broker.check(half.transaction_id)
        assert told.get(timeout=PATIENCE_S) == (half.transaction_id, Decision.COMMIT)


@pytest.mark.parametrize("bad", ["group", "body"])
def test_checks_that_make_no_sense_are_not_answered(broker: HalfBroker, bad: str) -> None:
    listener = Listener()
    with producer_of(broker, listener) as producer:
        half = producer.send_half("orders", prepare("bad"))
        good = producer.send_half("orders", prepare("good"))
        stored = broker.half(half.transaction_id)
        if bad == "group":
            stored.properties["PGROUP"] = "another"
        broker.check(half.transaction_id, group="shop", body=b"nonsense" if bad == "body" else b"")
        broker.check(good.transaction_id)
        broker.wait(lambda: broker.half(good.transaction_id).decisions)
    assert stored.decisions == []


def test_a_half_without_an_answer_is_not_sent_twice(broker: HalfBroker) -> None:
    broker.is_silent_to_halves = True
    with producer_of(broker, Listener()) as producer, pytest.raises(Timeout):
        producer.send_half("orders", prepare("4711"), timeout_ms=300)
    assert len(broker.halves) == 1


def test_a_half_stored_less_safely_is_rolled_back(broker: HalfBroker) -> None:
    broker.send_code = 10
    with producer_of(broker, Listener()) as producer, pytest.raises(HalfNotSafe, match="FLUSH_DISK_TIMEOUT"):
        producer.send_half("orders", prepare("4711"))
    assert [half.codes for half in broker.halves.values()] == [[Decision.ROLLBACK]]


def test_a_refused_half_and_a_refused_decision_say_so(broker: HalfBroker) -> None:
    with producer_of(broker, Listener()) as producer:
        half = producer.send_half("orders", prepare("4711"))
        broker.end_code = 604
        with pytest.raises(BrokerRefused) as refused:
            producer.rollback(half)
        assert refused.value.code == 604
        outcomes = producer.end_all([half, half], Decision.COMMIT)
        assert [getattr(each, "code", None) for each in outcomes] == [604, 604]
        broker.send_code = 16
        with pytest.raises(BrokerRefused):
            producer.send_half("orders", prepare("4711"))


def test_a_lost_commit_is_no_error_of_send_in_transaction(broker: HalfBroker) -> None:
    broker.end_code = 1
    with producer_of(broker, Listener()) as producer:
        assert not producer.send_in_transaction("orders", "4711").is_confirmed


@pytest.mark.parametrize("delay", [{"delay_level": 3}, {"delay_ms": 5000}])
def test_a_broker_that_would_lose_a_delayed_half_is_not_sent_one(broker: HalfBroker, delay: dict[str, int]) -> None:
    with producer_of(broker, Listener()) as producer, pytest.raises(NotSupported, match="loses a half"):
        producer.send_half("orders", prepare("later", **delay))
    assert broker.halves == {}


def test_no_broker_is_said_and_bad_input_refused(free_port: int) -> None:
    with TransactionProducer("shop", f"127.0.0.1:{free_port}", check=lambda message: Decision.UNKNOWN) as producer:
        with pytest.raises(BrokerUnreachable):
            producer.send_half("orders", prepare("4711"))
        with pytest.raises(InvalidArgument, match="listener"):
            producer.send_in_transaction("orders", "4711")
        with pytest.raises(InvalidArgument, match="properties"):
            producer.send_half("orders", prepare("x", properties={"big": "x" * 32_600}), marks={"ESC_X": "y" * 200})
    with pytest.raises(InvalidArgument, match="who answers"):
        TransactionProducer("shop", f"127.0.0.1:{free_port}")


def test_a_producer_that_sends_nothing_is_asked_too(broker: HalfBroker) -> None:
    """The process that only answers: others have sent."""
    listener = Listener()
    with producer_of(broker, listener) as sender:
        half = sender.send_half("orders", prepare("4711"))
    with TransactionProducer("shop", broker.namesrv, check=listener.check) as only_answers:
        only_answers.start()
        broker.wait_for_producer("shop")
        broker.check(half.transaction_id)
        broker.wait(lambda: broker.half(half.transaction_id).decisions)


def test_a_broker_that_comes_back_is_told_who_answers_and_served_again() -> None:
    with HalfBroker() as first, TransactionProducer("shop", first.namesrv, check=lambda _: Decision.COMMIT) as producer:
        half = producer.send_half("orders", prepare("4711"))
        first.wait_for_producer("shop")
        first.stop()
        with HalfBroker(first.port) as again:
            again.halves = first.halves
            again.wait_for_producer("shop")
            again.check(half.transaction_id)
            again.wait(lambda: again.half(half.transaction_id).decisions)
            producer.commit(producer.send_half("orders", prepare("4712"), timeout_ms=10_000))


def test_plain_sends_of_a_thread_can_be_refused(broker: HalfBroker) -> None:
    from_elsewhere: queue.Queue[str] = queue.Queue()
    with producer_of(broker, Listener()) as producer:
        with plain_sends(allowed=False):
            for send in (producer.send, producer.send_oneway):
                with pytest.raises(PlainSendRefused):
                    send("orders", "4711")
            with pytest.raises(PlainSendRefused):
                producer.send_each("orders", [prepare("4711")])
            thread = threading.Thread(target=lambda: from_elsewhere.put(producer.send("orders", "other").status))
            thread.start()
            assert from_elsewhere.get(timeout=PATIENCE_S) == "SEND_OK"
            thread.join()
        producer.send("orders", "after")
    assert [body for _, body in broker.plain] == [b"other", b"after"]


def test_halves_with_an_order_are_decided_one_after_the_other(broker: HalfBroker) -> None:
    """A broker may work at several decisions at a time, so the next is told when the one before was taken."""
    with producer_of(broker, Listener()) as producer:
        ordered = [producer.send_half("orders", prepare(str(number), sharding_key="a")) for number in range(3)]
        others = [producer.send_half("orders", prepare("any")) for _ in range(2)]
        broker.is_silent_to_ends = True
        outcomes = producer.end_all([*ordered, *others], Decision.COMMIT, timeout_ms=200)
        assert [type(outcome) for outcome in outcomes] == [Timeout] * 5
        assert [len(broker.half(half.transaction_id).decisions) for half in ordered] == [1, 0, 0]
        assert [len(broker.half(half.transaction_id).decisions) for half in others] == [1, 1]
        broker.is_silent_to_ends, broker.end_code = False, 604
        assert [type(outcome) for outcome in producer.end_all(ordered, Decision.COMMIT)] == [BrokerRefused] * 3
        broker.end_code = 0
        assert producer.end_all(ordered, Decision.COMMIT) == [None] * 3


@pytest.mark.parametrize("conflict", [{}, {"on_conflict": "error"}, {"on_conflict": "keep"}])
def test_a_half_whose_key_may_be_taken_at_its_commit_must_replace(broker: HalfBroker, conflict: Any) -> None:
    listener = Listener()
    with producer_of(broker, listener) as producer:
        with pytest.raises(InvalidArgument, match="on_conflict='replace'"):
            producer.send_in_transaction("orders", "4711", delay_ms=1000, schedule_key="k", **conflict)
    assert (listener.executed, broker.halves) == ([], {})


def test_a_transaction_s_message_has_a_sharding_key(broker: HalfBroker) -> None:
    broker.queues = 4
    with producer_of(broker, Listener()) as producer:
        half = producer.send_in_transaction("orders", "4711", sharding_key="a").half
        assert broker.half(half.transaction_id).properties["__SHARDINGKEY"] == "a"
        assert half.lane
