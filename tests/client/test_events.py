"""Typed events: sent as JSON with their name and version, read back as what they are, handlers called with them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from queue import Queue
from typing import Any

import msgspec
import pytest

from broker.client import Consumer, InvalidArgument, Message, Producer, event, prepare
from broker.client import _events as events
from broker.client.errors import NotThisEvent
from broker.testing import BrokerThread

WAIT_S = 30


@event("sold.paid", version=1)
class OrderPaid(msgspec.Struct):
    number: str
    amount: Decimal


@event("sold.paid", version=2)
class OrderPaidNow(msgspec.Struct):
    number: str
    cents: int


@event("sold.cancelled")
class OrderCancelled(msgspec.Struct):
    number: str


PAID = OrderPaid("4711", Decimal("9.99"))


@pytest.fixture
def orders(broker: BrokerThread) -> Iterator[Producer]:
    with Producer("shop", broker.namesrv) as producer:
        yield producer


def got(broker: BrokerThread, topic: str = "orders") -> Message:
    (message,) = broker.messages(topic)
    return message


def test_an_event_is_json_with_its_name_and_version(broker: BrokerThread, orders: Producer) -> None:
    orders.send("orders", PAID, tag="paid", properties={"shop": "7"})
    message = got(broker)
    assert json.loads(message.body) == message.json() == {"number": "4711", "amount": "9.99"}
    told = {name: message.properties[name] for name in ("event", "event_version", "shop", "TAGS")}
    assert told == {"event": "sold.paid", "event_version": "1", "shop": "7", "TAGS": "paid"}
    assert message.event() == PAID
    assert message.event(OrderPaid) == PAID
    assert message.tag == "paid"


def test_a_message_has_the_id_that_its_send_was_answered_with(broker: BrokerThread, orders: Producer) -> None:
    assert orders.send("orders", "x").message_id == got(broker).message_id


def test_what_is_no_event_says_so(broker: BrokerThread, orders: Producer) -> None:
    orders.send("orders", "plain")
    with pytest.raises(NotThisEvent, match="json"):
        got(broker).event()


@pytest.mark.parametrize(
    ("body", "properties", "words"),
    [
        (b"{}", {"event": "sold.paid", "event_version": "9"}, "version 9"),
        (b"{}", {"event": "sold.paid", "event_version": "x"}, "version x"),
        (b"{}", {"event": "sold.cancelled"}, "no sold.cancelled"),
        (b"\xff", {"event": "sold.cancelled"}, "no sold.cancelled"),
        (b"{}", {"event": "sold.lost"}, "sold.lost"),
    ],
)
def test_events_that_cannot_be_read_say_why(body: bytes, properties: dict[str, str], words: str) -> None:
    with pytest.raises(NotThisEvent, match=words):
        events.read_event(body, properties)


def test_an_event_of_another_type_than_asked_for_is_refused(broker: BrokerThread, orders: Producer) -> None:
    orders.send("orders", PAID)
    with pytest.raises(NotThisEvent, match=r"here: sold\.cancelled 1"):
        got(broker).event(OrderCancelled)


def test_structs_that_are_no_events_and_names_in_use_are_refused() -> None:
    class Plain(msgspec.Struct):
        number: str

    with pytest.raises(InvalidArgument, match="@event"):
        prepare(Plain("1"))
    with pytest.raises(InvalidArgument, match="both version 1"):
        event("sold.paid", version=1)(Plain)
    with pytest.raises(InvalidArgument, match="set by the event"):
        prepare(PAID, properties={"event": "mine"})
    for name, version in (("", 1), ("a b", 1), ("x", 0), ("x", True)):
        with pytest.raises(InvalidArgument):
            event(name, version=version)


def takes_event(paid: OrderPaid) -> None: ...
def takes_both(paid: OrderPaid | OrderPaidNow, message: Message) -> None: ...
def takes_option(paid: OrderPaid, retries: int = 3) -> None: ...
def takes_message(message: Message) -> None: ...
def takes_anything(message): ...  # type: ignore[no-untyped-def] # that is the point


@pytest.mark.parametrize(
    ("handler", "expected"),
    [
        (takes_event, ((OrderPaid,), False)),
        (takes_both, ((OrderPaid, OrderPaidNow), True)),
        (takes_option, ((OrderPaid,), False)),
        (takes_message, None),
        (takes_anything, None),
        (print, None),
        (lambda message: None, None),
    ],
)
def test_annotations_say_what_a_handler_takes(handler: Any, expected: Any) -> None:
    found = events.event_input(handler)
    assert (found if found is None else (found.kinds, found.with_message)) == expected


def test_handlers_are_called_with_their_event_and_pass_others_by(broker: BrokerThread, orders: Producer) -> None:
    seen: Queue[object] = Queue()

    def paid(event: OrderPaid | OrderPaidNow, message: Message) -> None:
        seen.put((event, message.tags))

    for body in (OrderCancelled("1"), PAID, OrderPaidNow("4712", 5)):
        orders.send("orders", body, tag="t", queue_id=0)
    consumer = Consumer("billing", broker.namesrv, from_where="first")
    consumer.subscribe("orders", "*", paid)
    with consumer:
        assert [seen.get(timeout=WAIT_S) for _ in range(2)] == [(PAID, "t"), (OrderPaidNow("4712", 5), "t")]
    assert seen.empty()


def test_a_body_that_is_not_the_event_is_a_dead_letter_at_once(broker: BrokerThread, orders: Producer) -> None:
    seen: Queue[object] = Queue()

    def paid(event: OrderPaid) -> None:
        seen.put(event)

    orders.send("orders", "no event at all", queue_id=0)
    orders.send("orders", PAID, queue_id=0)
    consumer = Consumer("billing", broker.namesrv, from_where="first")
    consumer.subscribe("orders", "*", paid)
    with consumer:
        assert seen.get(timeout=WAIT_S) == PAID
    dead = got(broker, "%DLQ%billing")
    assert (dead.body, dead.properties["ESC_DEAD_REASON"][:23]) == (b"no event at all", "The message is no event")
