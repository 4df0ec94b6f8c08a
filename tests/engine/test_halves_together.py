"""Halves that came together, and copies of one moment, leave the same bytes and table behind as one by one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.engine.errors import BrokerError, StoreBusy
from broker.engine.log.append import Copy, Sends, append_burst
from broker.engine.log.ticket import Ticket
from broker.engine.message_header import Facts
from broker.engine.testing import Driver, SimulatedFiles, open_engine
from broker.engine.transaction.decision import Ending
from broker.rocketmq.layout import FLAG_TRANSACTION_PREPARED
from broker.rocketmq.properties import format_properties
from broker.rocketmq.topics import HALF_TOPIC

HOST = b"\x7f\0\0\1\0\0\x9c\x40"
TOLD = ("owner", "topic", "queue_id", "queue_offset", "position", "size", "store_ms", "store_host", "due_ms")


@dataclass(frozen=True)
class Half:
    """One half; `number` is its owner. `commit`: what becomes of it in the next round, None: nothing yet."""

    number: int
    queue_id: int
    body: bytes
    properties: bytes
    flag: int
    born_ms: int
    commit: bool | None

    @property
    def key(self) -> str:
        return key_of(self.number)


def key_of(number: int) -> str:
    return f"7F00000100002A139A5{number // 3:09X}{number % 3:04X}"


def raw_of(number: int, **more: str) -> bytes:
    said = {"TRAN_MSG": "true", "PGROUP": "payers", "WAIT": "true", "UNIQ_KEY": key_of(number), **more}
    return format_properties({name: text for name, text in said.items() if text})


KINDS: list[dict[str, str]] = [
    {}, {}, {}, {"TAGS": "paid"}, {"KEYS": "4711 4712", "TAGS": "späte"}, {"KEYS": "k" * 30}, {"TRAN_MSG": ""},
    {"PGROUP": "others"}, {"CHECK_IMMUNITY_TIME_IN_SECONDS": "60"}, {"REAL_TOPIC": "secrets"}, {"UNIQ_KEY": ""},
    {"UNIQ_KEY": "not-alnum"},
]  # fmt: skip
OWN_WAY: list[dict[str, str]] = [{"DELAY": "2"}, {"TIMER_DELAY_SEC": "5"}, {"PGROUP": ""}]


@st.composite
def rounds(draw: st.DrawFn) -> list[list[Half]]:
    """Some reads, each of some halves."""
    number, found = 0, []
    for _ in range(draw(st.integers(1, 4))):
        one = []
        kinds = draw(st.sampled_from([[{}], [{"TAGS": "paid"}], KINDS, KINDS, KINDS + OWN_WAY]))
        for _ in range(draw(st.integers(1, 9))):
            raw = raw_of(number, **draw(st.sampled_from(kinds)))
            body = bytes([65 + number % 26]) * draw(st.integers(0, 300))
            flag, commit = draw(st.sampled_from([0, 0, 7, -1])), draw(st.sampled_from([True, True, False, None]))
            one.append(Half(number, draw(st.integers(0, 2)), body, raw, flag, draw(st.integers(5, 7)), commit))
            number += 1
        found.append(one)
    return found


def take_one_by_one(driver: Driver, halves: list[Half]) -> list[Ticket | None]:
    """Their tickets, None for one that is refused."""
    found: list[Ticket | None] = []
    for each in halves:
        try:
            ticket = driver.engine.append(
                "orders", each.queue_id, each.body, each.properties, flag=each.flag,
                sys_flag=FLAG_TRANSACTION_PREPARED, born_ms=each.born_ms, born_host=HOST, now_ms=driver.clock.now_ms,
                owner=each.number,
            )  # fmt: skip
        except BrokerError:
            found.append(None)
        else:
            found.append(ticket)
    return found


def take_together(driver: Driver, halves: list[Half]) -> list[Ticket] | None:
    columns = zip(*[(h.queue_id, h.body, h.properties, h.flag, h.born_ms, h.number) for h in halves], strict=True)
    try:
        return driver.engine.append_halves("orders", Sends(*columns), born_host=HOST, now_ms=driver.clock.now_ms)
    except BrokerError:
        return None


def state_of(driver: Driver) -> tuple[object, ...]:
    """All that is known of transactions."""
    table = driver.engine.transactions.table
    return list(table.halves.since(0)), table.settled, driver.engine.transactions.summary(), table.calendar.next_ms()


def left_behind(reads: list[list[Half]], *, together: bool) -> tuple[object, ...]:
    """What is on disk after all, what the tickets say in the order in which they become durable, and the table."""
    disk = SimulatedFiles()
    driver = open_engine(disk, index_slots=5)
    driver.engine.topics.ensure("orders", 3)
    told: list[tuple[object, ...]] = []
    states: list[tuple[object, ...]] = []
    waiting: list[tuple[Half, Ticket]] = []
    for halves in reads:
        for half, ticket in waiting:
            asked = Ending(ticket.queue_offset, ticket.position, half.commit, "producer a", "", None, ticket.unique_key)
            driver.engine.transactions.end(asked, driver.clock.now_ms)
        taken: list[Ticket] | list[Ticket | None] | None = take_together(driver, halves) if together else None
        if taken is None:
            taken = take_one_by_one(driver, halves)
        waiting = [(half, ticket) for half, ticket in zip(halves, taken, strict=True) if ticket is not None]
        for ticket in driver.settle():
            told.append((*(getattr(ticket, name) for name in TOLD if name != "owner"), ticket.unique_key))
        states.append(state_of(driver))
        driver.clock.advance(700)
    driver.close()
    return disk.contents(), told, states


@settings(max_examples=40)
@given(rounds())
def test_halves_together_are_halves_one_by_one(reads: list[list[Half]]) -> None:
    assert left_behind(reads, together=True) == left_behind(reads, together=False)


def opened(**config: Any) -> Driver:
    driver = open_engine(SimulatedFiles(), **config)
    driver.engine.topics.ensure("orders", 3)
    return driver


def usual(count: int = 5, begin: int = 0) -> list[Half]:
    return [Half(n, n % 3, b"body", raw_of(n), 0, 7, None) for n in range(begin, begin + count)]


def other(**more: str) -> Half:
    return Half(9, 0, b"body", raw_of(9, **more), 0, 7, None)


def test_what_is_usual_goes_together_from_the_first_read_on() -> None:
    driver = opened()
    for begin in (0, 5):
        tickets = take_together(driver, usual(begin=begin))
        assert tickets is not None
        assert [(each.topic, each.queue_id) for each in tickets] == [("orders", n % 3) for n in range(begin, begin + 5)]
        driver.settle()
    assert len(driver.engine.transactions.table.halves) == 10


@pytest.mark.parametrize(
    "more", [{"DELAY": "2"}, {"TIMER_DELAY_SEC": "5"}, {"PGROUP": ""}, {"ESC_TIMER_ACT": "cancel"}]
)
@pytest.mark.parametrize("place", [0, 5])
def test_one_that_is_more_keeps_the_others_out_until_they_are_taken_alone(more: dict[str, str], place: int) -> None:
    driver = opened()
    halves = usual()
    halves.insert(place, other(**more))
    assert take_together(driver, halves) is None
    assert driver.flush() in (None, [])


@pytest.mark.parametrize(
    "wrong",
    [
        Half(9, 3, b"body", raw_of(9), 0, 7, None), Half(9, 0, b"b" * 3000, raw_of(9), 0, 7, None),
        Half(9, 0, b"body", raw_of(9, more="x" * 1100), 0, 7, None), Half(9, 0, b"body", raw_of(9), 1 << 31, 7, None),
        Half(9, 0, b"body", raw_of(9), 0, -1, None), Half(9, 0, b"body", b"UNIQ_KEY\x01\xff\x02", 0, 7, None),
        Half(9, -1, b"body", raw_of(9), 0, 7, None),
    ],
)  # fmt: skip
def test_one_that_is_refused_changes_nothing(wrong: Half) -> None:
    driver = opened()
    assert take_together(driver, [*usual(), wrong]) is None
    assert driver.flush() in (None, [])
    assert all(take_one_by_one(driver, usual()))


def test_a_store_with_too_much_to_write_takes_none() -> None:
    driver = opened(pending_limit_bytes=500)
    assert take_together(driver, usual()) is not None
    assert take_together(driver, usual(begin=5)) is None
    assert len(driver.settle()) == 5
    assert len(driver.engine.transactions.table.halves) == 5


def test_what_does_not_fit_a_segment_goes_into_two() -> None:
    driver = opened()
    count = 0
    while take_together(driver, usual(begin=count)) is not None:
        count += 5
    assert count > 0
    assert all(take_one_by_one(driver, usual(begin=count)))
    driver.settle()
    assert len(driver.readable(HALF_TOPIC)) == len(driver.engine.transactions.table.halves) == count + 5


# Copies.


def copies_for(*topics: str) -> st.SearchStrategy[list[Copy]]:
    one = st.builds(
        Copy, topic=st.sampled_from(topics), queue_id=st.integers(0, 2),
        body=st.integers(0, 300).map(lambda size: b"b" * size), properties=st.sampled_from([b"", b"a\x01b\x02"]),
        unique_key=st.one_of(st.just("A1B2C3D4E5"), st.none(), st.just(""), st.integers(0, 9).map(key_of)),
        tags=st.sampled_from([None, None, "paid", ""]), keys=st.sampled_from([None, None, None, "4711 4712", ""]),
        flag=st.sampled_from([0, -1]), sys_flag=st.sampled_from([8, 9, 8 | 0x10]), born_ms=st.integers(5, 7),
        born_host=st.sampled_from([HOST, HOST, HOST, b"\xfe" * 16 + b"\0\0\0\1"]), reconsume_times=st.integers(0, 2),
        prepared_position=st.integers(0, 99),
    )  # fmt: skip
    return st.lists(one, max_size=20)


USUAL_COPIES = st.lists(
    st.builds(
        lambda number, size: Copy(
            "orders", number % 2, b"b" * size, b"a\x01b\x02", key_of(number), None, None, 0, 8, 5, HOST, 0, 3
        ),
        st.integers(0, 99), st.integers(0, 300),
    ), max_size=20,
)  # fmt: skip
COPIES = st.one_of(USUAL_COPIES, copies_for("orders"), copies_for("o" * 130), copies_for("orders", "bills", "orders"))


def appended_alone(driver: Driver, copies: list[Copy]) -> None:
    store = driver.engine._store
    for each in copies:
        store.append(
            each.topic, each.queue_id, each.body, Facts(each.properties, each.unique_key, each.tags, each.keys),
            store.tags_code(each.tags), each.flag, each.sys_flag, each.born_ms, each.born_host, driver.clock.now_ms,
            each.reconsume_times, each.prepared_position,
        )  # fmt: skip


def appended_together(driver: Driver, copies: list[Copy]) -> None:
    while copies:
        count = append_burst(driver.engine._store, copies, driver.clock.now_ms)
        assert count
        copies = copies[count:]
        driver.engine._store.seal_if_full()


def copied(copies: list[Copy], append: Callable[[Driver, list[Copy]], None], batch_bytes: int) -> tuple[object, ...]:
    """What is on disk, how often it was synced, and what is left to be written."""
    disk = SimulatedFiles()
    driver = open_engine(disk, index_slots=5, sync_batch_bytes=batch_bytes)
    append(driver, copies[:7])
    append(driver, copies[7:])
    pending, syncs = driver.engine._store.pending_bytes, 0
    while driver.flush() is not None:
        syncs += 1
    assert driver.engine._store.pending_bytes == 0
    driver.close()
    return disk.contents(), syncs, pending


@settings(max_examples=50)
@given(COPIES, st.sampled_from([1, 700, 8 << 20]))
def test_copies_of_a_moment_are_copies_one_by_one(copies: list[Copy], batch_bytes: int) -> None:
    assert copied(copies, appended_together, batch_bytes) == copied(copies, appended_alone, batch_bytes)


def test_copies_that_the_store_has_no_room_for_wait() -> None:
    driver = opened(pending_limit_bytes=100)
    copy = Copy("orders", 0, b"b" * 200, b"", None, None, None, 0, 8, 5, HOST, 0, 0)
    assert append_burst(driver.engine._store, [copy], 5) == 1
    with pytest.raises(StoreBusy):
        append_burst(driver.engine._store, [copy], 5)
    driver.settle()
    assert append_burst(driver.engine._store, [copy], 5) == 1
