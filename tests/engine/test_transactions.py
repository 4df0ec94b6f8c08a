"""Half messages: out of sight until they are decided, decided once, by whom they belong to."""

from __future__ import annotations

from typing import cast

import pytest

from broker.engine.errors import (
    CorruptRecord,
    TimerIllegal,
    TransactionDecided,
)
from broker.engine.log.ticket import Ticket
from broker.engine.testing import SimulatedFiles
from broker.engine.transaction.decision import Ending, Waiting
from broker.rocketmq.message import decode
from broker.rocketmq.topics import HALF_TOPIC, OP_TOPIC, SCHEDULE_TOPIC
from tests.engine.transacting import GROUP, begin, copies, end, transacting


def test_a_half_is_kept_in_rocketmqs_form_and_out_of_sight() -> None:
    driver = transacting()
    now_ms = driver.clock.now_ms
    ticket = driver.engine.append(
        "orders", 3, b"pay", b"UNIQ_KEY\x01A0\x02TRAN_MSG\x01true\x02PGROUP\x01payers\x02TAGS\x01t\x02KEYS\x01k1\x02",
        sys_flag=4 | 1, born_ms=now_ms, born_host=b"\x7f\0\0\1\0\0\0\1", now_ms=now_ms,
    )  # fmt: skip
    driver.settle()
    assert (ticket.topic, ticket.queue_id, ticket.queue_offset) == ("orders", 3, 0)
    half = driver.readable(HALF_TOPIC)[0]
    assert half.sys_flag == 1, "the transaction bits are cleared, others stay"
    assert half.properties == {
        "UNIQ_KEY": "A0", "TRAN_MSG": "true", "PGROUP": "payers", "TAGS": "t", "KEYS": "k1",
        "__transactionId__": "A0", "REAL_TOPIC": "orders", "REAL_QID": "3",
    }  # fmt: skip
    assert copies(driver, 3) == []
    assert driver.engine.find(HALF_TOPIC, "A0", begin_ms=0, end_ms=1 << 60, max_count=9, now_ms=0) == [half.position]


def test_a_commit_leaves_one_copy_and_an_op_record() -> None:
    driver = transacting()
    begin(driver, b"first", key="A0")
    half = begin(driver, TAGS="t")
    assert end(driver, half, commit=True, by="producer 10.0.0.7:5000")
    (copy,) = copies(driver)
    assert (copy.body, copy.sys_flag, copy.prepared_position) == (b"pay", 8, half.position)
    assert "REAL_TOPIC" not in copy.properties
    assert "REAL_QID" not in copy.properties
    assert copy.properties["TRAN_MSG"] == "true"
    assert copy.properties["__transactionId__"] == "A0"
    assert copy.properties["ESC_SOURCE"] == str(half.position)
    (op,) = driver.readable(OP_TOPIC).values()
    assert (op.body, op.properties["TAGS"], op.properties["WAIT"]) == (b"1,", "d", "true")
    assert op.properties["ESC_DECISIONS"] == "c0"
    assert op.properties["ESC_DECIDERS"] == '[["producer 10.0.0.7:5000", ""]]'
    assert op.born_host == op.store_host
    assert len(driver.engine.transactions.table.halves) == 1
    assert driver.engine.pull("orders", 0, 0, 9, 1 << 20, frozenset({ord("t")})).records, "found by its tag"


def test_a_rollback_leaves_an_op_record_only() -> None:
    driver = transacting()
    half = begin(driver)
    assert end(driver, half, commit=False)
    assert copies(driver) == []
    (op,) = driver.readable(OP_TOPIC).values()
    assert (op.body, op.properties["ESC_DECISIONS"]) == (b"0,", "r0")


def test_decisions_of_one_moment_share_one_record() -> None:
    driver = transacting()
    halves = [begin(driver, key=f"A{number}") for number in range(5)]
    for number, half in enumerate(halves):
        asked = Ending(half.queue_offset, half.position, number % 2 == 0, f"p{number % 2}")
        driver.engine.transactions.end(asked, driver.clock.now_ms)
    driver.settle()
    (op,) = driver.readable(OP_TOPIC).values()
    assert (op.body, op.properties["ESC_DECISIONS"]) == (b"0,1,2,3,4,", "c0r1c0r1c0")
    assert len(copies(driver)) == 3


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("durable", [True, False])
def test_the_same_again_is_fine_and_the_opposite_is_refused(commit: bool, durable: bool) -> None:
    driver = transacting()
    half = begin(driver)
    asked = Ending(half.queue_offset, half.position, commit, "producer a", group=GROUP)
    driver.engine.transactions.end(asked, driver.clock.now_ms)
    if durable:
        driver.settle()
    assert driver.engine.transactions.end(asked._replace(by="check a"), driver.clock.now_ms) is not durable
    with pytest.raises(TransactionDecided) as caught:
        driver.engine.transactions.end(asked._replace(commit=not commit, by="ann"), driver.clock.now_ms)
    assert caught.value.by == "producer a"
    assert ("committed" if commit else "rolled back") in str(caught.value)
    driver.settle()
    assert len(copies(driver)) == commit
    assert len(driver.readable(OP_TOPIC)) == 1


def test_who_decided_when_is_read_from_the_log_too() -> None:
    driver = transacting()
    half = begin(driver)
    decided_ms = driver.clock.now_ms
    end(driver, half, commit=False, by="ann", reason="stuck")
    driver.clock.advance(5_000)
    driver.engine.transactions.table.settled.clear()
    assert end(driver, half, commit=False) is False
    with pytest.raises(TransactionDecided) as caught:
        end(driver, half, commit=True)
    assert (caught.value.by, caught.value.at_ms) == ("ann", decided_ms)


def test_everybody_who_waits_for_a_decision_is_told_when_it_is_durable() -> None:
    told: list[str] = []

    class Owner:
        def __init__(self, name: str) -> None:
            self.name = name

        def stored(self, _: Ticket) -> None:
            told.append(self.name)

    driver = transacting()
    half = begin(driver)
    asked = Ending(half.queue_offset, half.position, True, "a")
    assert driver.engine.transactions.end(asked, 0, Owner("first"))
    job = driver.engine.take_sync(driver.clock.now_ms)
    assert job is not None
    assert driver.engine.transactions.end(asked, 0, Owner("second"))
    assert told == []
    job.run()
    for ticket in driver.engine.synced(job, None, driver.clock.now_ms):
        if ticket.owner is not None:
            cast(Waiting, ticket.owner).stored(ticket)
    assert told == ["first", "second"]


def test_a_commit_with_a_delay_level_waits_its_time_after_the_commit() -> None:
    driver = transacting()
    half = begin(driver, DELAY="2")
    driver.advance(60_000)
    assert driver.readable(SCHEDULE_TOPIC, 1) == {}, "a half is not delayed"
    end(driver, half, commit=True)
    (parked,) = driver.readable(SCHEDULE_TOPIC, 1).values()
    assert (parked.sys_flag, parked.prepared_position) == (8, half.position)
    driver.advance(4_999)
    assert copies(driver) == []
    driver.advance(1)
    (copy,) = copies(driver)
    assert (copy.body, copy.sys_flag, copy.prepared_position) == (b"pay", 8, half.position)


def test_a_commit_with_a_moment_waits_for_it_after_the_commit() -> None:
    driver = transacting()
    due_ms = driver.clock.now_ms + 7_345
    half = begin(driver, TIMER_DELIVER_MS=str(due_ms))
    late = begin(driver, b"late", key="B1", TIMER_DELIVER_MS=str(due_ms))
    driver.advance(5_000)
    end(driver, half, commit=True)
    assert copies(driver) == []
    driver.advance(2_344)
    assert copies(driver) == []
    driver.advance(1)
    (copy,) = copies(driver)
    assert (copy.body, copy.sys_flag, copy.prepared_position, copy.store_ms) == (b"pay", 8, half.position, due_ms)
    end(driver, late, commit=True)
    assert [copy.body for copy in copies(driver)] == [b"pay", b"late"], "its moment is over: at once"


@pytest.mark.parametrize("conflict", [{}, {"ESC_ON_CONFLICT": "error"}, {"ESC_ON_CONFLICT": "keep"}])
def test_a_half_with_a_key_that_could_be_found_taken_at_its_commit_is_refused(conflict: dict[str, str]) -> None:
    driver = transacting()
    due_ms = str(driver.clock.now_ms + 7_345)
    with pytest.raises(TimerIllegal, match="ESC_ON_CONFLICT=replace"):
        begin(driver, TIMER_DELIVER_MS=due_ms, ESC_SCHEDULE_KEY="order-1", **conflict)
    assert len(driver.engine.transactions.table.halves) == 0


def test_of_halves_with_one_key_the_last_committed_waits_alone() -> None:
    driver = transacting()
    due_ms = driver.clock.now_ms + 7_345
    asked = {"TIMER_DELIVER_MS": str(due_ms), "ESC_SCHEDULE_KEY": "order-1", "ESC_ON_CONFLICT": "replace"}
    for number, body in enumerate((b"one", b"two")):
        end(driver, begin(driver, body, key=f"A{number}", **asked), commit=True)
    driver.advance(7_345)
    assert [copy.body for copy in copies(driver)] == [b"two"]


def test_unknown_changes_nothing() -> None:
    driver = transacting()
    half = begin(driver)
    assert end(driver, half, commit=None) is False
    assert driver.readable(OP_TOPIC) == {}
    assert len(driver.engine.transactions.table.halves) == 1
    assert end(driver, half, commit=True)
    assert end(driver, half, commit=None) is False


def test_a_topic_deleted_meanwhile_is_made_again_by_the_commit() -> None:
    driver = transacting()
    half = begin(driver)
    driver.engine.delete_topic("orders")
    end(driver, half, commit=True)
    assert [copy.body for copy in copies(driver)] == [b"pay"]


def test_a_damaged_half_cannot_be_committed_and_says_so() -> None:
    files = SimulatedFiles()
    driver = transacting(files)
    half = begin(driver)
    path = "/store/commitlog/00000000000000000000"
    file = files.open(path)
    byte = file.read(1, half.position + 100)[0]
    file.write(bytes([byte ^ 0xFF]), half.position + 100)
    driver.engine.transactions.table.recent.drop(half.queue_offset)
    with pytest.raises(CorruptRecord):
        end(driver, half, commit=True)
    assert copies(driver) == []


def test_the_store_pins_what_is_open() -> None:
    driver = transacting(retention_hours=1)
    half = begin(driver)
    for number in range(40):
        driver.send("orders", b"x" * 900, queue_id=1, UNIQ_KEY=f"{number}")
    driver.clock.advance(3 * 3_600_000)
    driver.upkeep()
    assert decode(driver.engine.record_at(half.position)).body == b"pay"
    end(driver, half, commit=False)
    driver.send("orders", b"new", queue_id=1)
    driver.clock.advance(3 * 3_600_000)
    driver.upkeep()
    assert driver.engine.health().log_min_position > half.position
