"""Handlers run in the thread of the test, on all that is there and on what comes of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta

import msgspec
import pytest

from broker.client import Consumer, DeadLetter, Message, Producer, RetryIn, Sql, event
from broker.handlers import consumer, forget_all
from broker.testing import Escapement, OutsideRefused
from broker.testing.consuming import chosen
from tests.waiting import until


@pytest.fixture(autouse=True)
def no_handlers() -> Iterator[None]:
    """Those of a test are forgotten behind it."""
    forget_all()
    yield
    forget_all()


class Fails(Exception):
    """What a handler of these tests raises."""


def test_handlers_run_here_until_nothing_is_left(escapement: Escapement) -> None:
    seen: list[tuple[str, bytes, int]] = []

    @consumer("orders", group="billing")
    def bill(message: Message) -> None:
        seen.append(("bill", message.body, threading.get_ident()))
        escapement.send("paid", message.body)

    @consumer("paid", group="shipping")
    def ship(message: Message) -> None:
        seen.append(("ship", message.body, threading.get_ident()))

    escapement.send("orders", "1")
    escapement.send("orders", "2")
    done = escapement.consume_all()
    here = threading.get_ident()
    assert seen == [("bill", b"1", here), ("bill", b"2", here), ("ship", b"1", here), ("ship", b"2", here)]
    assert [(each.group, each.message.text, each.error, each.outcome) for each in done] == [
        ("billing", "1", None, "done"), ("billing", "2", None, "done"),
        ("shipping", "1", None, "done"), ("shipping", "2", None, "done"),
    ]  # fmt: skip
    assert escapement.consume_all() == []


def test_only_some_are_run(escapement: Escapement) -> None:
    seen: list[str] = []

    @consumer("orders", group="billing")
    def bill(message: Message) -> None:
        seen.append("bill")

    @consumer("orders", group="shipping")
    def ship(message: Message) -> None:
        seen.append("ship")

    escapement.send("orders", "1")
    escapement.consume_all(ship)
    assert seen == ["ship"]
    escapement.consume_all(group="billing")
    assert seen == ["ship", "bill"]
    escapement.consume_all([bill, ship])
    escapement.consume_all({"orders": bill, "nothing": ship})  # a group of its own
    assert seen == ["ship", "bill", "bill"]


def test_tags_and_filters_say_what_a_handler_sees(escapement: Escapement) -> None:
    seen: list[tuple[str, bytes]] = []

    @consumer("orders", group="tags", expression="paid || open")
    def by_tag(message: Message) -> None:
        seen.append(("tag", message.body))

    @consumer("orders", group="filter", expression=Sql("amount > 10"))
    def by_filter(message: Message) -> None:
        seen.append(("filter", message.body))

    for number, tag in enumerate(["paid", "closed", "open", "Aa", "BB"]):
        escapement.send("orders", str(number), tag=tag, properties={"amount": str(number * 5)})
    escapement.consume_all()
    assert seen == [("tag", b"0"), ("tag", b"2"), ("filter", b"3"), ("filter", b"4")]
    assert escapement.consume_all() == []


def test_what_a_handler_raises_comes_out_and_its_message_is_not_consumed(escapement: Escapement) -> None:
    seen: list[bytes] = []

    def handle(message: Message) -> None:
        seen.append(message.body)
        if len(seen) == 2:
            raise Fails("the second")

    for number in range(3):
        escapement.send("orders", str(number))
    with pytest.raises(Fails, match="the second") as failure:
        escapement.consume_all({"orders": handle})
    assert failure.traceback[-1].name == "handle"
    assert seen == [b"0", b"1"]
    escapement.consume_all({"orders": handle})
    assert seen == [b"0", b"1", b"1", b"2"]
    escapement.assert_nothing_pending()


def test_what_fails_comes_again_in_growing_steps_and_is_a_dead_letter_at_last(escapement: Escapement) -> None:
    seen: list[int] = []

    @consumer("orders", group="billing", max_reconsume_times=2)
    def bill(message: Message) -> None:
        seen.append(message.reconsume_times)
        assert message.topic == "orders"
        raise Fails

    escapement.send("orders", "4711", tag="t", keys=["k"])
    (first,) = escapement.consume_all(on_error="retry")
    assert (type(first.error), first.outcome) == (Fails, "retry")
    (waiting,) = escapement.pending
    assert (waiting.kind, waiting.group, waiting.topic, waiting.text) == ("retry", "billing", "orders", "4711")
    assert waiting.due == escapement.now + timedelta(seconds=10)
    escapement.forward(seconds=10)
    escapement.consume_all(on_error="retry")
    assert escapement.pending[0].due == escapement.now + timedelta(seconds=30)
    escapement.forward(seconds=30)
    (last,) = escapement.consume_all(on_error="retry")
    assert (last.outcome, seen) == ("dead letter", [0, 1, 2])
    escapement.assert_nothing_pending()
    (dead,) = escapement.dead_letters("billing")
    assert (dead.topic, dead.text, dead.tag, dead.keys) == ("orders", "4711", "t", ["k"])
    assert escapement.dead_letters("others") == ()
    assert [each.topic for each in escapement.sent] == ["orders"]


def test_without_a_number_a_message_is_tried_sixteen_times_more(escapement: Escapement) -> None:
    seen: list[int] = []

    @consumer("orders", group="billing")
    def handle(message: Message) -> None:
        seen.append(message.reconsume_times)
        raise Fails

    escapement.send("orders", "4711")
    while not escapement.dead_letters("billing"):
        escapement.consume_all(on_error="retry")
        escapement.forward(hours=2)
    assert seen == list(range(17))


def test_in_order_a_message_that_failed_holds_up_its_queue(escapement: Escapement) -> None:
    seen: list[tuple[bytes, int]] = []

    @consumer("orders", group="billing", orderly=True, max_reconsume_times=1)
    def bill(message: Message) -> None:
        seen.append((message.body, message.reconsume_times))
        if message.body == b"bad":
            raise Fails

    for body in ("bad", "after"):
        escapement.send("orders", body, queue_id=0)
    escapement.send("orders", "other", queue_id=1)
    assert [each.outcome for each in escapement.consume_all(on_error="retry")] == ["held", "done"]
    assert [each.outcome for each in escapement.consume_all(on_error="retry")] == ["dead letter", "done"]
    assert seen == [(b"bad", 0), (b"other", 0), (b"bad", 1), (b"after", 0)]
    assert [each.text for each in escapement.dead_letters("billing")] == ["bad"]


def test_a_consumer_of_the_group_goes_on_behind_what_was_consumed_here(escapement: Escapement) -> None:
    escapement.send("orders", "here", queue_id=0)
    escapement.consume_all({"orders": lambda message: None}, group="billing")
    escapement.send("orders", "there", queue_id=0)
    seen: list[bytes] = []
    other = Consumer("billing", escapement.namesrv, from_where="first")
    other.subscribe("orders", "*", lambda message: seen.append(message.body))
    with other:
        until(lambda: seen)
    assert seen == [b"there"]
    assert escapement.consume_all({"orders": lambda message: None}, group="billing") == []


async def test_coroutines_run_in_the_loop_of_the_test(escapement: Escapement) -> None:
    seen: list[tuple[str, bytes]] = []

    @consumer("orders", group="billing")
    async def bill(message: Message) -> None:
        seen.append(("coroutine", message.body))

    @consumer("orders", group="shipping")
    def ship(message: Message) -> None:
        seen.append(("function", message.body))

    escapement.send("orders", "4711", delay_ms=60_000)
    await escapement.aforward(minutes=1)
    await escapement.aconsume_all()
    assert seen == [("coroutine", b"4711"), ("function", b"4711")]


def test_coroutines_run_without_a_loop(escapement: Escapement) -> None:
    seen: list[bytes] = []

    async def handle(message: Message) -> None:
        seen.append(message.body)

    escapement.send("orders", "4711")
    escapement.consume_all({"orders": handle})
    assert seen == [b"4711"]


def test_handlers_that_go_round_in_a_circle_are_ended(escapement: Escapement, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.testing.consuming.MOST_HANDLED", 20)
    escapement.send("orders", "4711")
    with pytest.raises(AssertionError, match="does one send to its own topic"):
        escapement.consume_all({"orders": lambda message: escapement.send("orders", "again")})


def test_nothing_to_run_is_said(escapement: Escapement) -> None:
    with pytest.raises(ValueError, match="no function has @consumer"):
        escapement.consume_all()
    with pytest.raises(ValueError, match='with group "billing"'):
        escapement.consume_all(group="billing")
    with pytest.raises(ValueError, match="no handler that @consumer has registered"):
        escapement.consume_all(lambda message: None)
    with pytest.raises(ValueError, match="'raise' or 'retry'"):
        escapement.consume_all({"orders": print}, on_error="again")  # type: ignore[arg-type] # that is refused


def test_a_refusal_of_the_guard_is_no_failure_of_a_handler(escapement: Escapement) -> None:
    def handle(message: Message) -> None:
        raise OutsideRefused("127.0.0.1:9876", ())

    escapement.send("orders", "4711")
    with pytest.raises(OutsideRefused):
        escapement.consume_all({"orders": handle}, on_error="retry")


# What handlers decide, and what they take.


@event("kit.paid", version=1)
class Paid(msgspec.Struct):
    """An event of these tests."""

    number: int


def test_a_handler_decides_when_it_wants_a_message_again(escapement: Escapement) -> None:
    seen: list[int] = []

    @consumer("orders", group="billing")
    def bill(message: Message) -> RetryIn | None:
        seen.append(message.reconsume_times)
        if len(seen) == 1:
            raise RetryIn(timedelta(minutes=7))
        return RetryIn(timedelta(days=2)) if len(seen) == 2 else None

    escapement.send("orders", "4711", keys=["k"])
    (first,) = escapement.consume_all()
    assert first.outcome == "retry"
    (waiting,) = escapement.pending
    assert (waiting.kind, waiting.group, waiting.topic, waiting.keys) == ("retry", "billing", "orders", ["k"])
    assert waiting.due == escapement.now + timedelta(minutes=7)
    escapement.forward(minutes=7)
    escapement.consume_all()
    assert escapement.pending[0].due == escapement.now + timedelta(days=2)
    escapement.forward(days=2)
    assert [each.outcome for each in escapement.consume_all()] == ["done"]
    assert seen == [0, 1, 2]
    escapement.assert_nothing_pending()


def test_a_handler_decides_that_a_message_is_dead(escapement: Escapement) -> None:
    @consumer("orders", group="billing")
    def bill(message: Message) -> None:
        raise DeadLetter("no such order")

    escapement.send("orders", "4711")
    assert [each.outcome for each in escapement.consume_all()] == ["dead letter"]
    (dead,) = escapement.dead_letters("billing")
    assert (dead.topic, dead.text, dead.dead_reason) == ("orders", "4711", "no such order")
    escapement.assert_nothing_pending()


def test_the_steps_of_a_handler_are_kept(escapement: Escapement) -> None:
    @consumer("orders", group="billing", backoff=[timedelta(seconds=1), timedelta(hours=1)], max_reconsume_times=2)
    def bill(message: Message) -> None:
        raise Fails

    escapement.send("orders", "4711")
    for step in (timedelta(seconds=1), timedelta(hours=1)):
        escapement.consume_all(on_error="retry")
        assert escapement.pending[0].due == escapement.now + step
        escapement.forward(step)
    assert [each.outcome for each in escapement.consume_all(on_error="retry")] == ["dead letter"]


def test_batches_are_what_is_there(escapement: Escapement) -> None:
    seen: list[list[bytes]] = []

    @consumer("orders", group="billing", batch=3)
    def bill(messages: list[Message]) -> None:
        seen.append([message.body for message in messages])
        if messages[0].reconsume_times == 0 and len(seen) == 2:
            raise Fails

    for number in range(5):
        escapement.send("orders", str(number))
    done = escapement.consume_all(on_error="retry")
    assert seen == [[b"0", b"1", b"2"], [b"3", b"4"]]
    assert [each.outcome for each in done] == ["done", "done", "done", "retry", "retry"]
    escapement.forward(seconds=10)
    escapement.consume_all()
    assert seen[2] == [b"3", b"4"]


def test_typed_handlers_are_given_events(escapement: Escapement) -> None:
    seen: list[object] = []

    @consumer("orders", group="billing")
    def bill(paid: Paid, message: Message) -> None:
        seen.append((paid, message.topic))

    @consumer("orders", group="shipping")
    async def ship(paid: Paid) -> None:
        seen.append(paid)

    with Producer("shop", escapement.namesrv) as producer:
        producer.send("orders", Paid(4711))
    escapement.consume_all()
    assert seen == [(Paid(4711), "orders"), Paid(4711)]


@pytest.mark.django_db
def test_once_is_once(escapement: Escapement) -> None:
    seen: list[bytes] = []

    @consumer("orders", group="billing", once=True)
    def bill(message: Message) -> None:
        seen.append(message.body)

    escapement.send("orders", "4711")
    escapement.consume_all()
    (message,) = escapement.sent
    for handling in chosen(None, None):
        handling.call([message.message])
    assert seen == [b"4711"]
