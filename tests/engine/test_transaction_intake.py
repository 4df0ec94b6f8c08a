"""What is no half message, what a half must have, and decisions that do not fit: nothing is changed."""

from __future__ import annotations

import pytest

from broker.engine.errors import InvalidMessage, TransactionDecided, TransactionMismatch, TransactionNotFound
from broker.rocketmq.topics import HALF_TOPIC, OP_TOPIC
from tests.engine.transacting import GROUP, begin, copies, end, transacting


@pytest.mark.parametrize("topic", ["%RETRY%readers", "%DLQ%readers"])
def test_what_a_consumer_gives_back_is_no_half_message(topic: str) -> None:
    driver = transacting()
    driver.engine.topics.ensure(topic, 1)
    driver.send(topic, b"again", TRAN_MSG="true", PGROUP=GROUP)
    assert driver.bodies(topic) == [b"again"]
    end(driver, begin(driver), commit=True)
    (copy,) = copies(driver)
    driver.engine.send_back(copy.position, "readers", 1, 16, driver.clock.now_ms)
    driver.engine.send_back(copy.position, "readers", -1, 16, driver.clock.now_ms)
    driver.settle()
    driver.advance(2_000)
    assert (driver.bodies("%RETRY%readers")[-1], driver.bodies("%DLQ%readers")[-1]) == (b"pay", b"pay")
    assert len(driver.engine.transactions.table.halves) == 0


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"group": "thieves"}, TransactionMismatch),
        ({"transaction_id": "B1"}, TransactionMismatch),
        ({"offset": 1}, TransactionMismatch),
        ({"offset": 7}, TransactionMismatch),
        ({"position": 7}, TransactionNotFound),
        ({"position": -1}, TransactionNotFound),
        ({"position": 1 << 40}, TransactionNotFound),
    ],
)
@pytest.mark.parametrize("commit", [True, False, None])
def test_what_does_not_fit_is_refused_and_changes_nothing(changed, error, commit) -> None:
    driver = transacting()
    half, other = begin(driver, key="A0"), begin(driver, key="B1")
    plain = driver.send("orders", b"plain", queue_id=1)
    for wrong in (changed, {"position": plain.position}, {"position": other.position}):
        with pytest.raises((error, TransactionMismatch, TransactionNotFound)):
            end(driver, half, commit=commit, **wrong)
    assert copies(driver) == []
    assert driver.readable(OP_TOPIC) == {}
    assert len(driver.engine.transactions.table.halves) == 2


def test_late_abort_hits_the_next_transaction_never() -> None:
    """A client sends one message object twice: same key, same group, two transactions.

    https://jepsen.io/analyses/bufstream-0.1.0
    """
    driver = transacting()
    first = begin(driver, b"once", key="SAME")
    end(driver, first, commit=True)
    second = begin(driver, b"twice", key="SAME")
    with pytest.raises(TransactionDecided):
        end(driver, first, commit=False)
    assert end(driver, second, commit=True)
    assert [copy.body for copy in copies(driver)] == [b"once", b"twice"]


def test_a_half_needs_a_group_and_cannot_come_in_a_batch() -> None:
    driver = transacting()
    with pytest.raises(InvalidMessage, match="PGROUP"):
        driver.append("orders", b"x", TRAN_MSG="true")
    with pytest.raises(InvalidMessage, match="batch"):
        driver.append_batch("orders", [b"x"], TRAN_MSG="true", PGROUP="g")
    assert driver.flush() is None


def test_marks_that_only_the_broker_writes_are_not_taken_from_clients() -> None:
    driver = transacting()
    begin(driver, TRANSACTION_CHECK_TIMES="14", TRAN_PREPARED_QUEUE_OFFSET="0", REAL_TOPIC="secrets", ESC_SOURCE="0")
    (half,) = driver.readable(HALF_TOPIC).values()
    assert half.properties.keys() & {"TRANSACTION_CHECK_TIMES", "TRAN_PREPARED_QUEUE_OFFSET", "ESC_SOURCE"} == set()
    assert half.properties["REAL_TOPIC"] == "orders"
