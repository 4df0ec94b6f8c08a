"""Timers of the Python API against a real broker: what is told, what is refused, what is done."""

from __future__ import annotations

import time
from typing import Any

import pytest

from broker.client import (
    Admin,
    AsyncAdmin,
    AsyncProducer,
    BrokerRefused,
    InvalidArgument,
    Producer,
    ScheduleKeyTaken,
    SendResult,
    TimerPast,
    TimerTarget,
    TimerTooFar,
    prepare,
)
from broker.testing import BrokerThread

HOUR_MS = 3_600_000
FOREVER_MS = 2**62


def now_ms() -> int:
    return time.time_ns() // 1_000_000


async def test_a_timer_says_when_it_is_due_and_how_to_take_it_back(producer: AsyncProducer, admin: AsyncAdmin) -> None:
    at_ms = now_ms() + HOUR_MS
    sent = await producer.send("orders", "x", tag="t", keys=["k1", "k2"], deliver_at_ms=at_ms, schedule_key="o 1")
    assert (sent.due_ms, sent.conflict) == (at_ms, None)
    timer = (await admin.timers(0, FOREVER_MS)).items[0]
    assert (timer.topic, timer.queue_id, timer.due_ms, timer.schedule_key) == ("orders", sent.queue_id, at_ms, "o 1")
    assert (timer.message_id, timer.keys, timer.tag) == (sent.message_id, ["k1", "k2"], "t")
    assert (timer.handle, timer.offset_message_id, timer.offset) == (
        sent.recall_handle, sent.offset_message_id, sent.queue_offset
    )  # fmt: skip
    assert timer.size_bytes > 91
    assert sent.recall_handle is not None
    assert await producer.recall("orders", sent.recall_handle) == sent.message_id
    assert (await admin.timers(0, FOREVER_MS)).items == []


@pytest.mark.parametrize("handle", ["", "nonsense", None, 5, "x" * 10_000])
async def test_what_is_no_handle_is_refused(producer: AsyncProducer, handle: Any) -> None:
    with pytest.raises(InvalidArgument) as caught:
        await producer.recall("orders", handle)
    assert caught.value.field == "handle"


async def test_a_delay_counts_from_the_brokers_clock(producer: AsyncProducer) -> None:
    before_ms = now_ms()
    sent = await producer.send("orders", "x", delay_ms=HOUR_MS)
    assert sent.due_ms is not None
    assert before_ms <= sent.due_ms - HOUR_MS <= now_ms()


async def test_each_of_many_is_told_its_moment(producer: AsyncProducer) -> None:
    at_ms = now_ms() + HOUR_MS
    results = await producer.send_each("orders", [prepare("x", deliver_at_ms=at_ms + number) for number in range(300)])
    assert [result.due_ms for result in results if isinstance(result, SendResult)] == [at_ms + n for n in range(300)]
    assert len({result.recall_handle for result in results if isinstance(result, SendResult)}) == 300


async def test_what_a_broker_refuses_is_told_apart(producer: AsyncProducer, admin: AsyncAdmin) -> None:
    first = await producer.send("orders", "x", delay_ms=HOUR_MS, schedule_key="k")
    with pytest.raises(ScheduleKeyTaken, match="'k'") as taken:
        await producer.send("orders", "y", delay_ms=5, schedule_key="k")
    assert taken.value.due_ms == first.due_ms
    with pytest.raises(TimerTooFar):
        await producer.send("orders", "y", delay_ms=11 * 366 * 24 * HOUR_MS)
    with pytest.raises(TimerPast):
        await producer.send("orders", "y", deliver_at_ms=1_000_000_000_000, reject_past=True)
    assert len((await admin.timers(0, FOREVER_MS)).items) == 1
    status = await admin.timer_status()
    assert (status.pending, [(row.topic, row.pending) for row in status.by_topic]) == (1, [("orders", 1)])


async def test_a_conflict_is_settled_as_asked(producer: AsyncProducer, admin: AsyncAdmin) -> None:
    first = await producer.send("orders", "first", delay_ms=HOUR_MS, schedule_key="k")
    kept = await producer.send("orders", "second", delay_ms=5, schedule_key="k", on_conflict="keep")
    assert kept.conflict == "kept"
    assert (kept.message_id, kept.offset_message_id, kept.due_ms) == (
        first.message_id, first.offset_message_id, first.due_ms
    )  # fmt: skip
    replaced = await producer.send("orders", "third", delay_ms=2 * HOUR_MS, schedule_key="k", on_conflict="replace")
    assert replaced.conflict == "replaced"
    assert [timer.message_id for timer in (await admin.timers(0, FOREVER_MS)).items] == [replaced.message_id]
    assert (await admin.timer(TimerTarget(topic="orders", message_id=first.message_id))).state in (
        "rescheduled", "cancelled"
    )  # fmt: skip


async def test_one_is_moved_another_cancelled_a_third_unknown(producer: AsyncProducer, admin: AsyncAdmin) -> None:
    one, two = [await producer.send("orders", "x", delay_ms=HOUR_MS, schedule_key=key) for key in ("a", "b")]
    later_ms = now_ms() + 3 * HOUR_MS
    moved = await admin.steer_timers(
        "reschedule", [{"topic": "orders", "scheduleKey": "a"}, {"topic": "orders", "scheduleKey": "c"}],
        due_ms=later_ms, reason="late",
    )  # fmt: skip
    assert [each.outcome for each in moved.results] == ["rescheduled", "unknown"]
    assert (moved.results[0].due_ms, moved.results[0].previous_due_ms) == (later_ms, one.due_ms)
    cancelled = await admin.steer_timers(
        "cancel", [TimerTarget(offset_message_id=two.offset_message_id)], reason="not wanted"
    )
    assert cancelled.results[0].outcome == "cancelled"
    assert [timer.due_ms for timer in (await admin.timers(0, FOREVER_MS)).items] == [later_ms]
    life = await admin.timer(TimerTarget(topic="orders", message_id=two.message_id))
    assert life.state == "cancelled"
    assert [event.kind for event in life.events] == ["accepted", "cancelled"]
    assert life.events[-1].reason == "not wanted"


async def test_a_thousand_are_steered_at_once_and_no_more(producer: AsyncProducer, admin: AsyncAdmin) -> None:
    await producer.send_each("orders", [prepare("x", delay_ms=HOUR_MS, schedule_key=str(n)) for n in range(1000)])
    targets = [TimerTarget(topic="orders", schedule_key=str(n)) for n in range(1001)]
    answer = await admin.steer_timers("cancel", targets[:1000])
    assert {each.outcome for each in answer.results} == {"cancelled"}
    assert [each.schedule_key for each in answer.results] == [str(n) for n in range(1000)]
    for wrong in (targets, []):
        with pytest.raises(InvalidArgument):
            await admin.steer_timers("cancel", wrong)


async def test_a_recall_that_comes_too_late_is_refused_with_604(producer: AsyncProducer, admin: AsyncAdmin) -> None:
    sent = await producer.send("orders", "x", delay_ms=HOUR_MS)
    await admin.steer_timers("deliver_now", [TimerTarget(handle=sent.recall_handle)])
    assert sent.recall_handle is not None
    with pytest.raises(BrokerRefused, match="604"):
        await producer.recall("orders", sent.recall_handle)
    with pytest.raises(InvalidArgument):
        await producer.recall("other", sent.recall_handle)
    with pytest.raises(InvalidArgument):
        await producer.recall("orders", "nonsense")


async def test_checkpoint_and_metrics_are_rocketmqs(producer: AsyncProducer, admin: AsyncAdmin) -> None:
    for topic in ("b", "a", "b"):
        await producer.send(topic, "x", delay_ms=HOUR_MS)
    assert [(metric.topic, metric.count) for metric in await admin.timer_metrics()] == [("a", 1), ("b", 2)]
    checkpoint = await admin.timer_checkpoint()
    assert (checkpoint.queue_offset, checkpoint.master_queue_offset) == (3, 3)
    assert abs(checkpoint.read_ms - now_ms()) < 10_000


async def test_pausing_is_told(producer: AsyncProducer, admin: AsyncAdmin) -> None:
    await producer.send("orders", "x", delay_ms=HOUR_MS)
    assert (await admin.pause_timers(True)).paused
    status = await admin.timer_status()
    assert (status.paused, status.pending) == (True, 1)
    assert not (await admin.pause_timers(False)).paused


def test_timers_have_synchronous_faces(broker: BrokerThread) -> None:
    with Producer("p", broker.namesrv) as producer, Admin(broker.namesrv) as admin:
        at_ms = now_ms() + HOUR_MS
        sent = producer.send("t", "x", deliver_at_ms=at_ms, schedule_key="k")
        producer.send_oneway("t", "y", deliver_at_ms=at_ms + 1)
        producer.send("t", "z", delay_ms=2 * HOUR_MS)
        assert [timer.due_ms for timer in admin.timers(at_ms, at_ms + 2).items] == [at_ms, at_ms + 1]
        second = at_ms // 1000 * 1000
        assert sum(step.count for step in admin.timer_forecast(second, second + 10_000, 1000).buckets) == 2
        assert sum(step.count for step in admin.timer_wheel(second - 1000, second + 10_000, 1000).buckets) == 2
        assert admin.timer({"topic": "t", "scheduleKey": "k"}).state == "pending"
        assert (
            admin.steer_timers("cancel", [TimerTarget(topic="t", schedule_key="k")]).results[0].outcome == "cancelled"
        )
        assert sent.recall_handle is not None
        assert producer.recall("t", sent.recall_handle) == sent.message_id
        assert admin.timer_status().pending == 2
        assert not admin.pause_timers(False).paused
        assert admin.timer_checkpoint().queue_offset >= 3
        assert [metric.count for metric in admin.timer_metrics()] == [2]


def test_after_a_restart_all_still_wait(broker: BrokerThread) -> None:
    with Producer("p", broker.namesrv) as producer, Admin(broker.namesrv) as admin:
        sent = [producer.send("t", "x", delay_ms=HOUR_MS + n, schedule_key=str(n)) for n in range(20)]
        admin.steer_timers("cancel", [TimerTarget(topic="t", schedule_key="7")])
        broker.stop()
        broker.start()
    with Producer("p", broker.namesrv) as producer, Admin(broker.namesrv) as admin:
        kept = [each.message_id for number, each in enumerate(sent) if number != 7]
        assert [timer.message_id for timer in admin.timers(0, FOREVER_MS).items] == kept
        with pytest.raises(ScheduleKeyTaken):
            producer.send("t", "x", delay_ms=5, schedule_key="8")
        assert producer.send("t", "x", delay_ms=HOUR_MS, schedule_key="7").conflict is None
