"""Sends that came together leave the same bytes behind, and have the same tickets, as those that came one by one."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.engine.errors import BrokerError, StoreBusy, TopicNotFound, TopicNotWritable
from broker.engine.log.append import Sends
from broker.engine.log.ticket import Ticket
from broker.engine.testing import Driver, SimulatedFiles, open_engine
from broker.engine.testing.driver import START_MS
from broker.rocketmq.properties import format_properties

HOST = b"\x7f\0\0\1\0\0\x9c\x40"
TOLD = (
    "owner",
    "topic",
    "queue_id",
    "queue_offset",
    "position",
    "size",
    "store_ms",
    "store_host",
    "due_ms",
    "is_timer",
)


@dataclass(frozen=True)
class Send:
    """One message; `number` is its owner."""

    number: int
    queue_id: int
    body: bytes
    properties: bytes
    flag: int
    born_ms: int


def unique(number: int) -> dict[str, str]:
    return {"UNIQ_KEY": f"7F00000100002A139A5{number // 3:09X}{number % 3:04X}", "WAIT": "true"}


KINDS = [
    {},
    {},
    {"TAGS": "paid"},
    {"KEYS": "4711 4712", "TAGS": "späte"},
    {"KEYS": "k" * 30},
    {"amount": "12", "CLUSTER": "DefaultCluster"},
]
#: of timers; the clock moves by 0.7 s a read
TIMERS = [
    {"TIMER_DELAY_SEC": "5"},
    {"TIMER_DELAY_MS": "1200", "TAGS": "paid", "KEYS": "4711"},
    {"TIMER_DELIVER_MS": str(START_MS + 2_000)},
    {"TIMER_DELIVER_MS": str(START_MS + 60_000)},
]


@st.composite
def rounds(draw: st.DrawFn) -> list[list[Send]]:
    """Some reads, each of some sends."""
    number, found = 0, []
    for _ in range(draw(st.integers(1, 4))):
        one = []
        kinds = draw(st.sampled_from([[{}], KINDS, TIMERS, TIMERS[2:], KINDS + TIMERS]))
        for _ in range(draw(st.integers(1, 12))):
            kind = draw(st.sampled_from(kinds))
            raw = format_properties({**unique(number), **kind})
            body = bytes([65 + number % 26]) * draw(st.integers(0, 300))
            flag = draw(st.sampled_from([0, 0, 7, -1]))
            one.append(Send(number, draw(st.integers(0, 2)), body, raw, flag, draw(st.integers(5, 7))))
            number += 1
        found.append(one)
    return found


def sends_of(sends: list[Send]) -> Sends:
    return Sends(
        [each.queue_id for each in sends],
        [each.body for each in sends],
        [each.properties for each in sends],
        [each.flag for each in sends],
        [each.born_ms for each in sends],
        [each.number for each in sends],
    )


def take_one_by_one(driver: Driver, sends: list[Send], topic: str = "orders") -> list[Ticket]:
    return [
        driver.engine.append(
            topic,
            each.queue_id,
            each.body,
            each.properties,
            flag=each.flag,
            born_ms=each.born_ms,
            born_host=HOST,
            now_ms=driver.clock.now_ms,
            owner=each.number,
        )
        for each in sends
    ]


def take_together(driver: Driver, sends: list[Send], topic: str = "orders") -> list[Ticket] | None:
    return driver.engine.append_together(topic, sends_of(sends), born_host=HOST, now_ms=driver.clock.now_ms)


def stored(reads: list[list[Send]], *, together: bool) -> tuple[dict[str, bytes], list[tuple[object, ...]]]:
    """What is on disk after all, and what the tickets say, in the order in which they become durable."""
    disk = SimulatedFiles()
    driver = open_engine(disk, index_slots=5, segment_size_bytes=16_384)
    driver.engine.topics.ensure("orders", 3)
    told: list[tuple[object, ...]] = []
    for sends in reads:
        if not together or take_together(driver, sends) is None:
            take_one_by_one(driver, sends)
        told += [(*(getattr(ticket, name) for name in TOLD), ticket.unique_key) for ticket in driver.flush() or []]
        driver.clock.advance(700)
    for _ in range(8):
        driver.advance(1_000)
    waiting = driver.engine.timers.listing.page(0, 1 << 50, limit=1_000, now_ms=driver.clock.now_ms)
    told += [tuple(item.items()) for item in waiting["items"]]
    driver.close()
    return disk.contents(), told


@given(rounds())
def test_together_is_one_by_one(reads: list[list[Send]]) -> None:
    assert stored(reads, together=True) == stored(reads, together=False)


def opened(**config: int) -> Driver:
    driver = open_engine(SimulatedFiles(), **config)
    driver.engine.topics.ensure("orders", 3)
    return driver


def plain(count: int = 5, **kind: str) -> list[Send]:
    return [Send(n, n % 3, b"body", format_properties({**unique(n), **kind}), 0, 7) for n in range(count)]


def with_one(**other: str) -> list[Send]:
    return [*plain(), Send(9, 0, b"body", format_properties({**unique(9), **other}), 0, 7)]


@pytest.mark.parametrize(
    "sends",
    [
        with_one(DELAY="2"),
        with_one(TIMER_DELAY_SEC="5"),
        with_one(TRAN_MSG="true", PGROUP="shop"),
        [*plain(), Send(9, -1, b"body", format_properties(unique(9)), 0, 7)],
    ],
)
def test_what_is_more_than_a_plain_send_is_left_to_be_taken_alone(sends: list[Send]) -> None:
    driver = opened()
    assert take_together(driver, sends) is None
    assert driver.flush() in (None, [])
    assert len(take_one_by_one(driver, sends)) == len(sends)


@pytest.mark.parametrize(
    "wrong",
    [
        Send(9, 3, b"body", format_properties(unique(9)), 0, 7),
        Send(9, 0, b"b" * 3000, format_properties(unique(9)), 0, 7),
        Send(9, 0, b"body", format_properties({**unique(9), "more": "x" * 1100}), 0, 7),
        Send(9, 0, b"body", format_properties(unique(9)), 1 << 31, 7),
        Send(9, 0, b"body", format_properties(unique(9)), 0, -1),
        Send(9, 0, b"body", b"UNIQ_KEY\x01\xff\x02", 0, 7),
        Send(9, 0, b"body", b"UNIQ_KEY", 0, 7),
    ],
)
@pytest.mark.parametrize("place", [0, 2, 5])
def test_one_that_is_refused_keeps_the_others_out_until_they_are_taken_alone(wrong: Send, place: int) -> None:
    driver = opened()
    sends = plain()
    with pytest.raises(BrokerError) as together:
        take_together(driver, [*sends[:place], wrong, *sends[place:]])
    assert driver.flush() in (None, [])
    with pytest.raises(type(together.value)):
        take_one_by_one(driver, [wrong])
    assert [ticket.position for ticket in take_one_by_one(driver, sends)][:1] == [0]


def test_a_topic_that_is_not_there_or_not_written_refuses_all() -> None:
    driver = opened()
    with pytest.raises(TopicNotFound):
        take_together(driver, plain(), "others")
    with pytest.raises(TopicNotWritable):
        take_together(driver, plain(), "SCHEDULE_TOPIC_XXXX")


def test_a_store_with_too_much_to_write_takes_none() -> None:
    driver = open_engine(SimulatedFiles(), pending_limit_bytes=500)
    driver.engine.topics.ensure("orders", 3)
    assert take_together(driver, plain()) is not None
    with pytest.raises(StoreBusy):
        take_together(driver, plain())
    assert len(driver.flush() or []) == 5


def test_what_does_not_fit_a_segment_goes_into_two() -> None:
    driver = opened()
    count = 0
    while (tickets := take_together(driver, plain())) is not None:
        count += len(tickets)
    assert count > 0
    taken = take_one_by_one(driver, plain())
    driver.settle()
    assert taken[-1].position > driver.engine.config.segment_size_bytes
    assert sum(len(driver.readable("orders", queue_id)) for queue_id in range(3)) == count + 5


def timers(count: int = 12, **kind: str) -> list[Send]:
    return plain(count, **(kind or {"TIMER_DELAY_SEC": "5"}))


def test_timers_that_came_together_are_taken_together_and_leave_in_time() -> None:
    driver = opened(segment_size_bytes=16_384)
    tickets = take_together(driver, timers())
    assert tickets is not None
    assert {(ticket.topic, ticket.is_timer, ticket.due_ms) for ticket in tickets} == {
        ("orders", True, START_MS + 5_000)
    }
    driver.settle()
    driver.advance(4_999)
    assert [driver.readable("orders", queue_id) for queue_id in range(3)] == [{}, {}, {}]
    driver.advance(1)
    assert [len(driver.readable("orders", queue_id)) for queue_id in range(3)] == [4, 4, 4]


@pytest.mark.parametrize(
    ("sends", "limits"),
    [
        (timers(TIMER_DELIVER_MS=str(START_MS)), {}),
        ([*timers(), *plain()], {}),
        (timers(TIMER_DELAY_SEC="5", ESC_SCHEDULE_KEY="unpaid"), {}),
        (timers(TIMER_DELAY_SEC="5", TIMER_DELAY_MS="7000"), {}),
        (timers(TIMER_DELAY_SEC="999999999"), {}),
        (timers(), {"timer_max_pending": 11}),
        (timers(), {"timer_max_per_slot": 90}),
    ],
    ids=["over", "mixed", "keyed", "two moments", "too far", "too many", "limit of a second"],
)
def test_timers_that_need_a_closer_look_are_left_to_be_taken_alone(sends: list[Send], limits: dict[str, int]) -> None:
    driver = opened(segment_size_bytes=16_384, **limits)
    assert take_together(driver, sends) is None
    assert driver.flush() in (None, [])


def test_timers_that_fill_the_limit_are_taken_together() -> None:
    driver = opened(segment_size_bytes=16_384, timer_max_pending=12)
    assert take_together(driver, timers()) is not None
    assert take_together(driver, timers(10)) is None


def test_timers_one_of_which_was_recalled_are_left_to_be_taken_alone() -> None:
    driver = opened(segment_size_bytes=16_384)
    driver.engine.recall_timer("orders", unique(5)["UNIQ_KEY"], START_MS + 5_000, now_ms=START_MS)
    driver.settle()
    assert take_together(driver, timers()) is None
    take_one_by_one(driver, timers())
    driver.settle()
    driver.advance(6_000)
    assert sum(len(driver.readable("orders", queue_id)) for queue_id in range(3)) == 11
