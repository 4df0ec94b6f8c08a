"""What the admin asks about transactions, and does to them."""

from __future__ import annotations

import pytest

from broker.client import Admin, AsyncAdmin, AsyncProducer, BrokerRefused, Decision, InvalidArgument, as_half, prepare
from broker.client.transactions import MOST_TARGETS, Transaction, TransactionTarget
from broker.testing import BrokerThread


async def begin(producer: AsyncProducer, body: str, *, tag: str | None = None, keys: tuple[str, ...] = ()) -> None:
    """Send a half of group `tests`."""
    (sent,) = await producer.send_each("orders", [as_half(prepare(body, tag=tag, keys=keys), "tests")])
    assert not isinstance(sent, Exception)


def target(row: Transaction) -> TransactionTarget:
    assert row.position is not None
    return TransactionTarget(row.offset, row.position)


async def test_open_ones_are_listed_page_by_page(producer: AsyncProducer, admin: AsyncAdmin) -> None:
    for number in range(3):
        await begin(producer, f"{number}", tag="t", keys=(f"k{number}",))
    first = await admin.transactions(count=2)
    assert first.following is not None
    rest = await admin.transactions(count=2, after=first.following)
    rows = [*first.items, *rest.items]
    assert rest.following is None
    assert [(row.offset, row.state, row.topic, row.group, row.tag) for row in rows] == [
        (number, "open", "orders", "tests", "t") for number in range(3)
    ]
    assert rows[0].next_check_ms == (rows[0].store_ms or 0) + 6_000
    assert (await admin.transactions(topic="others")).items == []
    status = await admin.transaction_status()
    assert (status.open, status.parked, status.max_checks, status.half_total) == (3, 0, 15, 3)
    assert [(each.group, each.open) for each in status.groups] == [("tests", 3)]


async def test_steering_decides_and_says_who(producer: AsyncProducer, admin: AsyncAdmin) -> None:
    await begin(producer, "a")
    await begin(producer, "b")
    rows = (await admin.transactions()).items
    done = await admin.steer_transactions("commit", [target(rows[0])], who="ann", reason="paid by hand")
    assert [result.outcome for result in done.results] == ["done"]
    again = await admin.steer_transactions("commit", [target(row) for row in rows], who="bob")
    assert [result.outcome for result in again.results] == ["already", "done"]
    refused = await admin.steer_transactions("rollback", [target(rows[0])], who="bob")
    assert (refused.results[0].outcome, refused.results[0].code) == ("refused", 604)
    assert "committed by ann" in refused.results[0].error
    life = await admin.transaction(rows[0].transaction_id or "")
    assert (life.state, life.by, life.reason) == ("committed", "ann", "paid by hand")
    assert {event.kind for event in life.life} == {"half", "committed", "delivered"}
    decided = (await admin.transactions("decided")).items
    assert [(row.offset, row.by) for row in decided] == [(1, "bob"), (0, "ann")]


async def test_deciding_as_a_producer_does(producer: AsyncProducer, admin: AsyncAdmin) -> None:
    await begin(producer, "a")
    row = (await admin.transactions()).items[0]

    async def say(decision: Decision, group: str = "tests") -> None:
        key = row.transaction_id or ""
        await admin.end_transaction(
            decision, group=group, offset=row.offset, position=row.position or 0, transaction_id=key
        )

    with pytest.raises(BrokerRefused) as caught:
        await say(Decision.COMMIT, "thieves")
    assert caught.value.code == 29
    await say(Decision.ROLLBACK)
    with pytest.raises(BrokerRefused) as caught:
        await say(Decision.COMMIT)
    assert caught.value.code == 604


async def test_what_is_not_there_is_refused(admin: AsyncAdmin) -> None:
    with pytest.raises(BrokerRefused) as caught:
        await admin.transaction("nobody")
    assert caught.value.code == 22
    with pytest.raises(BrokerRefused):
        await admin.resume_check("nonsense")
    with pytest.raises(InvalidArgument):
        await admin.steer_transactions("commit", [], who=" ")
    with pytest.raises(InvalidArgument):
        await admin.steer_transactions("commit", [TransactionTarget(0, 0)] * (MOST_TARGETS + 1), who="ann")
    assert (await admin.steer_transactions("commit", [], who="ann")).results == []


def test_the_synchronous_admin_says_the_same(broker: BrokerThread) -> None:
    with Admin(broker.namesrv) as admin:
        assert admin.transaction_status().open == 0
        assert admin.transactions("parked").items == []
        assert admin.steer_transactions("check", [TransactionTarget(0, 0)], who="ann").results[0].outcome == "refused"
        for ask in (lambda: admin.transaction("x"), lambda: admin.resume_check("7F00000100002A9F0000000000000000")):
            with pytest.raises(BrokerRefused):
                ask()
        with pytest.raises(BrokerRefused):
            admin.end_transaction(Decision.COMMIT, group="g", offset=0, position=0)
