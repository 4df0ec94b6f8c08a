"""A batch that is taken as it was sent leaves the same bytes behind as its messages."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.engine.engine import Engine
from broker.engine.errors import BrokerError, StoreBusy, TopicNotFound
from broker.engine.log.append import Encoded
from broker.engine.log.ticket import BatchTicket
from broker.engine.testing import SimulatedFiles, open_engine
from broker.rocketmq.compiled import FAST
from broker.rocketmq.errors import RequestRefused
from broker.rocketmq.sends import split_batch

LIMITS = {"max_body_bytes": 2_000, "max_properties_bytes": 200}
#: usual ones first: of other kinds are a few
PIECES = st.sampled_from([
    "UNIQ_KEY\x01A{n:05}\x02", "UNIQ_KEY\x01A{n:05}\x02", "UNIQ_KEY\x01A{n:05}\x02", "WAIT\x01true\x02",
    "TAGS\x01paid\x02", "TAGS\x01\x02", "KEYS\x01o-{n} o-{n}b\x02", "KEYS\x01 a\t\x1cb \x0b\x02", "KEYS\x01\x02",
    "amount\x01\x01\x02", "TAGS\x01second\x02", "UNIQ_KEY\x01\x02",
])  # fmt: skip
ODD = st.sampled_from([
    "TAGS\x01später\x02", "DELAY\x013\x02", "TIMER_DELAY_MS\x015\x02", "TRAN_MSG\x01true\x02", "ESC_SOURCE\x011\x02",
    "\x02", "nothing", "POP_CK\x01x\x02", "__CRC32#\x011\x02", "KEYS\x01" + "k " * 80, "x\x01" + "y" * 250,
])  # fmt: skip
PROPERTIES = st.lists(PIECES, min_size=1, max_size=4).map("".join)
MESSAGE = st.tuples(st.integers(0, 300), PROPERTIES, st.sampled_from([0, 0, 1, -7]), st.booleans())


def encoded(messages: list[tuple[int, str, int, bool]]) -> bytes:
    """The body of a request; the last separator of properties is left out where that is asked for."""
    items = []
    for number, (length, properties, flag, is_open) in enumerate(messages):
        raw = properties.replace("{n:05}", f"{number:05}").replace("{n}", str(number)).encode()
        if is_open:
            raw = raw.removesuffix(b"\x02")
        items.append((22 + length + len(raw)).to_bytes(4, "big") + b"\1" * 8 + flag.to_bytes(4, "big", signed=True))
        items.append(length.to_bytes(4, "big") + bytes([65 + number % 26]) * length + len(raw).to_bytes(2, "big") + raw)
    return b"".join(items)


def encoded_alone(
    engine: Engine, topic: str, queue_id: int, body: bytes, *, born_ms: int, **sent: Any
) -> BatchTicket | None:
    tickets = engine.append_encoded(topic, [Encoded(queue_id, body, born_ms, None)], **sent)
    return tickets[0] if tickets else None


def as_it_was_sent(engine: Engine, topic: str, queue_id: int, body: bytes, **sent: Any) -> BatchTicket | None:
    ticket = encoded_alone(engine, topic, queue_id, body, **sent)
    # that it is never taken would leave nothing to compare
    assert FAST is not None or ticket is None
    return ticket or in_parts(engine, topic, queue_id, body, **sent)


def in_parts(engine: Engine, topic: str, queue_id: int, body: bytes, **sent: Any) -> BatchTicket:
    return engine.append_batch(topic, queue_id, split_batch(body), **sent)


Way = Callable[..., "BatchTicket | None"]


def kept(
    way: Way, bodies: list[bytes], host: bytes, topic: str, sys_flag: int, **config: int
) -> tuple[list[object], dict[str, bytes]]:
    """What became of each batch, and what is on disk after them."""
    disk = SimulatedFiles()
    driver = open_engine(disk, **LIMITS, **config)
    if len(topic) < 128:
        driver.engine.topics.ensure(topic, 2)
    told: list[object] = []
    for number, body in enumerate(bodies):
        sent = {"sys_flag": sys_flag, "born_ms": 7, "born_host": host, "now_ms": driver.clock.now_ms}
        try:
            ticket = way(driver.engine, topic, number % 3 - 1, body, **sent)
        except (BrokerError, RequestRefused) as error:
            told.append((type(error), str(error)))
        else:
            assert ticket is not None
            told.append((
                ticket.topic, ticket.queue_id, ticket.queue_offset, ticket.position, ticket.size, ticket.store_ms,
                list(ticket.positions), list(ticket.sizes), ticket.offset_message_id, ticket.count,
            ))  # fmt: skip
        driver.flush()
    driver.close()
    return told, disk.contents()


@given(
    st.lists(st.lists(MESSAGE, min_size=1, max_size=9), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), ODD), max_size=2),
    st.sampled_from([bytes(8), bytes(8), bytes(20)]),
    st.sampled_from(["orders", "orders", "o" * 127, "nowhere" * 20]),
    st.sampled_from([0, 0, 4, 8, 1]),
)
def test_it_is_its_messages(batches, odd, host, topic, sys_flag):
    for at, place, properties in odd:
        batch = batches[at % len(batches)]
        length, usual, flag, is_open = batch[place % len(batch)]
        batch[place % len(batch)] = (length, usual + properties, flag, is_open)
    bodies = [encoded(batch) for batch in batches]
    assert kept(as_it_was_sent, bodies, host, topic, sys_flag) == kept(in_parts, bodies, host, topic, sys_flag)


@pytest.mark.parametrize("length", [10, 90, 300])
def test_it_is_its_messages_where_segments_end(length: int) -> None:
    batch = [(length + number, "UNIQ_KEY\x01A{n:05}\x02KEYS\x01k\x02", 0, bool(number % 2)) for number in range(7)]
    bodies = [encoded(batch)] * 30
    whole = kept(as_it_was_sent, bodies, bytes(8), "orders", 0)
    assert len([path for path in whole[1] if "/commitlog/" in path]) > 1
    assert whole == kept(in_parts, bodies, bytes(8), "orders", 0)


@given(st.lists(st.lists(MESSAGE, min_size=1, max_size=9), min_size=1, max_size=6), st.integers(0, 40))
def test_together_they_leave_what_they_leave_one_by_one(batches, before):
    def left(*, together: bool) -> tuple[list[object], dict[str, bytes]]:
        disk = SimulatedFiles()
        driver = open_engine(disk, **LIMITS)
        driver.engine.topics.ensure("orders", 2)
        sent = {"born_host": bytes(8), "now_ms": driver.clock.now_ms}
        for number in range(before):  # so that now and then there is no room for all
            as_it_was_sent(driver.engine, "orders", number % 2, bodies[0], born_ms=7, **sent)
        all_encoded = [Encoded(number % 2, body, 7 + number // 2, number) for number, body in enumerate(bodies)]
        tickets = driver.engine.append_encoded("orders", all_encoded, **sent) if together else None
        if tickets is None:
            tickets = [
                as_it_was_sent(driver.engine, "orders", each.queue_id, each.body, born_ms=each.born_ms, **sent)
                for each in all_encoded
            ]
        told: list[object] = [
            (each.queue_id, each.queue_offset, each.position, each.size, list(each.positions), list(each.sizes))
            for each in tickets
            if each is not None
        ]
        driver.flush()
        driver.close()
        # the next segment is made as soon as it may be needed: for all of them that is sooner
        return told, {path: content for path, content in disk.contents().items() if any(content)}

    bodies = [encoded(batch) for batch in batches]
    assert left(together=True) == left(together=False)


@pytest.mark.parametrize("wrong", [(9, 20, b""), (0, 2_001, b""), (0, 20, b"x"), (-1, 20, b"")])
def test_one_that_is_refused_or_not_usual_takes_the_others_with_it(wrong: tuple[int, int, bytes]) -> None:
    """Nothing is written: they are to be taken one by one."""
    queue_id, length, behind = wrong
    driver = open_engine(SimulatedFiles(), **LIMITS)
    driver.engine.topics.ensure("orders", 2)
    right, other = (encoded([(size, "UNIQ_KEY\x01A{n:05}\x02", 0, False)]) for size in (20, length))
    batches = [Encoded(0, right, 7, None), Encoded(queue_id, other + behind, 7, None), Encoded(1, right, 7, None)]
    sent = {"born_host": bytes(8), "now_ms": driver.clock.now_ms}
    with suppress(BrokerError):
        assert driver.engine.append_encoded("orders", batches, **sent) is None
    driver.settle()
    assert [driver.engine.queue_bounds("orders", each) for each in (0, 1)] == [(0, 0), (0, 0)]
    tickets = driver.engine.append_encoded("orders", batches[::2], **sent)
    assert (tickets is None) is (FAST is None)


def test_hundreds_are_their_messages() -> None:
    batch = [(number % 50, "UNIQ_KEY\x01A{n:05}\x02KEYS\x01k {n}\x02", 0, bool(number % 2)) for number in range(300)]
    bodies = [encoded(batch)] * 3
    whole = kept(as_it_was_sent, bodies, bytes(8), "orders", 0, segment_size_bytes=1 << 20)
    assert whole == kept(in_parts, bodies, bytes(8), "orders", 0, segment_size_bytes=1 << 20)


@pytest.mark.parametrize("cut", [0, 1, 3, 21, 22, 40, -1])
def test_one_that_is_no_batch_is_not_taken(cut: int) -> None:
    driver = open_engine(SimulatedFiles())
    driver.engine.topics.ensure("orders", 1)
    body = encoded([(20, "UNIQ_KEY\x01A{n:05}\x02", 0, False)] * 3)[:cut]
    sent = {"born_ms": 7, "born_host": bytes(8), "now_ms": driver.clock.now_ms}
    assert encoded_alone(driver.engine, "orders", 0, body, **sent) is None
    driver.settle()
    assert driver.engine.queue_bounds("orders", 0) == (0, 0)


def test_usual_ones_are_taken_where_there_are_twins() -> None:
    driver = open_engine(SimulatedFiles())
    driver.engine.topics.ensure("orders", 1)
    sent = {"born_ms": 7, "born_host": bytes(8), "now_ms": driver.clock.now_ms}
    body = encoded([(20, "UNIQ_KEY\x01A{n:05}\x02TAGS\x01paid\x02", 0, True)] * 3)
    assert (encoded_alone(driver.engine, "orders", 0, body, **sent) is None) is (FAST is None)


def test_what_is_refused_leaves_nothing_behind() -> None:
    driver = open_engine(SimulatedFiles(), pending_limit_bytes=1)
    driver.engine.topics.ensure("orders", 1)
    body = encoded([(20, "UNIQ_KEY\x01A{n:05}\x02", 0, False)] * 3)
    sent = {"born_ms": 7, "born_host": bytes(8), "now_ms": driver.clock.now_ms}
    with pytest.raises(TopicNotFound):
        as_it_was_sent(driver.engine, "others", 0, body, **sent)
    as_it_was_sent(driver.engine, "orders", 0, body, **sent)
    with pytest.raises(StoreBusy):
        as_it_was_sent(driver.engine, "orders", 0, body, **sent)
    driver.settle()
    assert driver.engine.queue_bounds("orders", 0) == (0, 3)
