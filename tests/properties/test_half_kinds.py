"""Halves that differ in the unique key only are made from what is remembered, and come out as if each was read."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.engine.errors import BrokerError
from broker.engine.message_header import facts_of
from broker.engine.transaction.records import Begun, HalfBuilder

names = st.sampled_from(
    ["UNIQ_KEY", "XUNIQ_KEY", "PGROUP", "TRAN_MSG", "KEYS", "TAGS", "DELAY", "CHECK_IMMUNITY_TIME_IN_SECONDS",
     "TIMER_DELAY_MS", "REAL_TOPIC", "ESC_SOURCE", "__transactionId__", "a"]
)  # fmt: skip
values = st.sampled_from(["true", "payers", "", "7", "A0", "k1 k2", "UNIQ_KEY\x01A0"])
properties = st.lists(st.tuples(names, values), max_size=5)
keys = st.sampled_from(["A0", "B1", "", "é", "A 0", "A\x01B", "0123456789ABCDEF"])


def raw_of(pairs: list[tuple[str, str]], key: str, at: int, *, ends: bool) -> bytes:
    several = [*pairs[:at], ("UNIQ_KEY", key), *pairs[at:], ("TRAN_MSG", "true"), ("PGROUP", "payers")]
    text = "".join(f"{name}\x01{value}\x02" for name, value in several)
    return (text if ends else text[:-1]).encode()


def read(raw: bytes) -> Begun | None:
    try:
        return HalfBuilder().begin("orders", 1, facts_of(raw), raw)
    except BrokerError:
        return None


@given(properties, st.integers(0, 5), keys, keys, st.booleans())
def test_a_known_half_is_what_reading_it_says(
    pairs: list[tuple[str, str]], at: int, first: str, second: str, ends: bool
) -> None:
    beginning = HalfBuilder()
    raw = raw_of(pairs, first, at, ends=True)
    try:
        beginning.begin("orders", 0, facts_of(raw), raw)
    except BrokerError:
        return
    other = raw_of(pairs, second, at, ends=ends)
    known = beginning.begin_known("orders", 1, other)
    if known is not None:
        assert known == read(other)


def test_the_halves_of_a_usual_producer_are_known_from_the_second_on() -> None:
    beginning = HalfBuilder()
    raw = raw_of([("TAGS", "t")], "A0", 0, ends=True)
    assert beginning.begin_known("orders", 1, raw) is None
    beginning.begin("orders", 1, facts_of(raw), raw)
    assert beginning.begin_known("orders", 1, raw_of([("TAGS", "t")], "B1", 0, ends=True)) is not None


def test_a_half_that_asks_for_a_delay_is_read_each_time() -> None:
    beginning = HalfBuilder()
    raw = raw_of([("DELAY", "3")], "A0", 0, ends=True)
    beginning.begin("orders", 1, facts_of(raw), raw)
    assert beginning.begin_known("orders", 1, raw) is None
