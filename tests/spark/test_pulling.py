"""Ranges are pulled whole, in order, each message once, however the other end answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from broker.rocketmq.codes import Answer
from broker.rocketmq.frame import Command
from spark.asking import Access, ClusterUnreachable, RequestDenied
from spark.columns import Selection
from spark.offsets import Queue, Range
from spark.pulling import DEPTH, MessagesGone, Puller, Wish
from spark.records import decode_pulled
from tests.spark.pullable import Pullable, queue_of

ONE, TWO = Queue("orders", "broker-a", 0), Queue("orders", "broker-a", 1)
ALL = Selection(groups=frozenset({"names", "body"}))


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark.pulling.PAUSE_S", 0.001)


def pulled(
    addresses: Sequence[str], ranges: Sequence[Range], *, expression: str = "*", is_strict: bool = True
) -> list[dict[str, Any]]:
    wish = Wish("readers", expression=expression, is_strict=is_strict)
    pieces = Puller(addresses, Access(), wish).read(ranges)
    batches = decode_pulled(pieces, ALL, is_filtered=wish.is_filtered)
    return [row for batch in batches for row in batch.to_pylist()]


def offsets(rows: list[dict[str, Any]], queue: Queue = ONE) -> list[int]:
    return [row["queue_offset"] for row in rows if row["queue_id"] == queue.queue_id]


@pytest.mark.parametrize("each", [1, 8, 32, 1_000])
@pytest.mark.parametrize("turned", [1, 5])
def test_two_ranges_in_order_however_few_messages_an_answer_has(each: int, turned: int) -> None:
    queues = {("orders", 0): queue_of("orders", 0, 700), ("orders", 1): queue_of("orders", 1, 90)}
    with Pullable(queues, each=each, turned=turned) as broker:
        rows = pulled([broker.address], [Range(ONE, 3, 611), Range(TWO, 0, 90)])
    assert offsets(rows) == list(range(3, 611))
    assert offsets(rows, TWO) == list(range(90))
    assert [row["body"] for row in rows[:2]] == [b"3", b"4"]
    assert {(row["broker"], row["corrupt"]) for row in rows} == {("broker-a", None)}
    assert rows[0]["position"] == 3_000


def test_a_pull_asks_for_no_more_than_its_piece_and_waits_for_nothing() -> None:
    with Pullable({("orders", 0): queue_of("orders", 0, 100)}) as broker:
        pulled([broker.address], [Range(ONE, 0, 40)])
    assert {(one["maxMsgNums"], one["sysFlag"], one["suspendTimeoutMillis"]) for one in broker.asked} == {
        ("32", "4", "0"),
        ("8", "4", "0"),
    }


def test_a_broker_that_gives_more_is_asked_for_more() -> None:
    with Pullable({("orders", 0): queue_of("orders", 0, 20_000)}, each=1_024) as broker:
        assert len(pulled([broker.address], [Range(ONE, 0, 20_000)])) == 20_000
    assert len(broker.asked) < 20_000 // 32 / 2


@pytest.mark.parametrize("each", [3, 32])
def test_a_filter_is_the_brokers_business_and_nothing_comes_twice(each: int) -> None:
    queues = {("orders", 0): queue_of("orders", 0, 20_000)}
    with Pullable(queues, each=each) as broker:
        rows = pulled([broker.address], [Range(ONE, 1_001, 18_003)], expression="a")
    assert offsets(rows) == list(range(1_002, 18_003, 2))


@pytest.mark.parametrize("hangs_up", [[0], [1], [7], [2, 3, 4]])
def test_a_connection_that_ends_is_made_anew(hangs_up: list[int]) -> None:
    with Pullable({("orders", 0): queue_of("orders", 0, 700)}, each=20, hangs_up=list(hangs_up)) as broker:
        assert offsets(pulled([broker.address], [Range(ONE, 0, 700)])) == list(range(700))


def test_a_slave_is_read_while_the_master_is_away() -> None:
    with Pullable({}) as gone:
        pass
    with Pullable({("orders", 0): queue_of("orders", 0, 50)}) as slave:
        assert offsets(pulled([gone.address, slave.address], [Range(ONE, 0, 50)])) == list(range(50))


def test_nobody_there_is_said_with_the_address() -> None:
    with Pullable({}) as gone:
        pass
    with pytest.raises(ClusterUnreachable, match=gone.address):
        pulled([gone.address], [Range(ONE, 0, 50)])


def test_deleted_messages_are_an_error_or_a_row() -> None:
    with Pullable({("orders", 0): queue_of("orders", 0, 50, start=100)}) as broker:
        with pytest.raises(MessagesGone, match=r"those before 100 were deleted.*fail_on_data_loss=false"):
            pulled([broker.address], [Range(ONE, 40, 150)])
        rows = pulled([broker.address], [Range(ONE, 40, 150)], is_strict=False)
    assert [row["queue_offset"] for row in rows if row["corrupt"] is None] == list(range(100, 150))
    assert [row["corrupt"] for row in rows if row["queue_offset"] == 40] == [
        "the broker gave no messages 40 to 99: they are damaged, compacted or deleted there"
    ]


def test_a_queue_that_ends_before_is_an_error_or_a_row() -> None:
    with Pullable({("orders", 0): queue_of("orders", 0, 20)}) as broker:
        with pytest.raises(MessagesGone, match="the broker has none from 20 on"):
            pulled([broker.address], [Range(ONE, 0, 25)])
        rows = pulled([broker.address], [Range(ONE, 0, 25)], is_strict=False)
    assert [row["queue_offset"] for row in rows if row["corrupt"] is None] == list(range(20))
    assert rows[-1]["queue_offset"] == 20 and "20 to 24" in rows[-1]["corrupt"]


def test_a_busy_broker_is_asked_again() -> None:
    def busy(number: int, request: Command) -> Command | None:
        return request.answer(code=Answer.SYSTEM_BUSY, remark="too many requests") if number in (1, 3) else None

    with Pullable({("orders", 0): queue_of("orders", 0, 100)}, look=busy) as broker:
        assert offsets(pulled([broker.address], [Range(ONE, 0, 100)])) == list(range(100))


def test_a_refusal_says_what_the_broker_says() -> None:
    def refuse(_: int, request: Command) -> Command:
        return request.answer(code=Answer.SYSTEM_ERROR, remark="The broker does not support SQL92")

    with Pullable({}, look=refuse) as broker, pytest.raises(RequestDenied, match="does not support SQL92"):
        pulled([broker.address], [Range(ONE, 0, 100)])


def test_a_slave_that_keeps_what_it_found_to_itself_is_named() -> None:
    def keep(_: int, request: Command) -> Command:
        return request.answer({"nextBeginOffset": "32"}, code=Answer.PULL_RETRY_IMMEDIATELY, remark="FOUND")

    with Pullable({}, look=keep) as slave, pytest.raises(ClusterUnreachable, match="slaveReadEnable"):
        pulled([slave.address], [Range(ONE, 0, 100)])


def test_a_record_that_is_damaged_is_a_row_among_the_others() -> None:
    records = queue_of("orders", 0, 50)
    records[7] = records[7][:90] + b"\xff" + records[7][91:]
    with Pullable({("orders", 0): records}) as broker:
        rows = pulled([broker.address], [Range(ONE, 0, 50)])
    assert offsets(rows) == list(range(50))
    assert [(row["queue_offset"], row["topic"], row["position"]) for row in rows if row["corrupt"]] == [
        (7, "orders", 7_000)
    ]


def test_no_more_is_on_its_way_than_was_said() -> None:
    most = 0

    def count(number: int, _: Command) -> None:
        nonlocal most
        most = max(most, number)

    with Pullable({("orders", 0): queue_of("orders", 0, 5_000)}, look=count, turned=10_000) as broker:
        pieces = Puller([broker.address], Access(), Wish("readers")).read([Range(ONE, 0, 5_000)])
        next(pieces)
        assert most <= 2 * DEPTH
        pieces.close()
