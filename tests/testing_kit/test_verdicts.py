"""Handlers that take events, batches, or say more than done, run in tests as they do in the command."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from broker.client import DeadLetter, Message, event
from broker.handlers import consumer, forget_all
from broker.testing import Escapement


@event("kit.order.paid")
class OrderPaid(msgspec.Struct):
    number: str


@pytest.fixture(autouse=True)
def no_handlers() -> Iterator[None]:
    forget_all()
    yield
    forget_all()


def test_a_handler_gets_its_event_or_its_batch(escapement: Escapement) -> None:
    seen: list[object] = []

    @consumer("orders", group="billing")
    def bill(paid: OrderPaid) -> None:
        seen.append(paid)

    @consumer("orders", group="counting", batch=10)
    def count(messages: list[Message]) -> None:
        seen.append(len(messages))

    escapement.send("orders", OrderPaid("4711"))
    escapement.consume_all()
    assert sorted(map(str, seen)) == ["1", "OrderPaid(number='4711')"]


@pytest.mark.parametrize("is_returned", [False, True])
def test_a_dead_letter_is_one_at_once(escapement: Escapement, is_returned: bool) -> None:
    @consumer("orders", group="billing")
    def bill(message: Message) -> object:
        if is_returned:
            return DeadLetter("no such order")
        raise DeadLetter("no such order")

    escapement.send("orders", "4711")
    (consumed,) = escapement.consume_all(on_error="retry")
    assert consumed.outcome == "dead letter"
