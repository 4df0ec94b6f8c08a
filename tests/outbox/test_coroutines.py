"""Transactions from coroutines: one function, one transaction, and nothing of the other coroutines in it."""

from __future__ import annotations

import asyncio

import pytest
from django.contrib.auth.models import Group as Order

from broker.client import Decision
from broker.outbox import producer, run_in_transaction, transactional
from broker.outbox.configuration import AsynchronousBlock
from tests.client.halfbroker import HalfBroker

pytestmark = pytest.mark.django_db(transaction=True)
COUNT = 12


class OutOfStock(Exception):
    """Ends a transaction."""


def sell(number: int) -> int:
    Order.objects.create(name=f"sold {number}")
    producer.send("orders", str(number))
    if number % 2:
        raise OutOfStock
    return number


async def test_many_at_a_time_do_not_mix(broker: HalfBroker) -> None:
    """Beside them others of the event loop write as they like: what fails takes nothing of theirs with it."""
    sales = [run_in_transaction(sell, number) for number in range(COUNT)]
    others = [Order.objects.acreate(name=f"other {number}") for number in range(COUNT)]
    mixed = [each for pair in zip(sales, others, strict=True) for each in pair]
    ended = await asyncio.gather(*mixed, return_exceptions=True)
    assert [isinstance(each, OutOfStock) for each in ended[::2]] == [bool(number % 2) for number in range(COUNT)]
    kept = {name async for name in Order.objects.exclude(name__startswith="console").values_list("name", flat=True)}
    assert {name for name in kept if name.startswith("other")} == {f"other {number}" for number in range(COUNT)}
    assert {name for name in kept if name.startswith("sold")} == {f"sold {number}" for number in range(0, COUNT, 2)}
    codes = {half.body.decode(): half.codes for half in broker.halves.values()}
    assert codes == {str(number): [Decision.ROLLBACK if number % 2 else Decision.COMMIT] for number in range(COUNT)}


async def test_what_cannot_keep_others_out_is_refused() -> None:
    async def work() -> None:
        raise AssertionError("it is not called")

    with pytest.raises(AsynchronousBlock, match="run_in_transaction"):
        async with transactional():
            raise AssertionError("it is not entered")
    with pytest.raises(AsynchronousBlock):
        transactional(work)
    with pytest.raises(AsynchronousBlock):
        transactional(durable=True)(work)
    with pytest.raises(AsynchronousBlock):
        await run_in_transaction(work)
