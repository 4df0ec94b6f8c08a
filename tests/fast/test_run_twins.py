"""The twins that runs of due timers go through say the same as what stands in Python, of any timers."""

from __future__ import annotations

from array import array
from functools import cache
from types import ModuleType
from typing import Any, NamedTuple

import escapement_mq_fast
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from broker.engine.engine import Engine
from broker.engine.log import append
from broker.engine.testing import open_engine
from broker.engine.testing.driver import START_MS
from broker.engine.timer.due import Entry, Ready
from broker.engine.timer.encoding import Groups, Preparer
from broker.rocketmq.compiled import IN_PYTHON
from broker.rocketmq.message import encode, record_size
from broker.rocketmq.topics import TIMER_TOPIC

FAST: ModuleType = escapement_mq_fast
IPV4, IPV6 = b"\x7f\0\0\1\0\0\x2a\x9f", b"\0" * 15 + b"\1\0\0\x2a\x9f"
WIDE = "w" * 128
START, FIRST_OFFSET = 1 << 40, 7


class Parked(NamedTuple):
    """What a parked record is made of, and what is wrong with it."""

    said: bytes
    topic: str = "orders"
    queue_id: bytes = b"3"
    due_ms: int = START_MS
    body: bytes = b"body"
    born_host: bytes = IPV4
    own_topic: bytes = TIMER_TOPIC.encode()
    #: a bit that is turned over, counted from the end; what the entry says of the moment, more or less; bytes behind it
    flipped: int | None = None
    late_ms: int = 0
    gap: bytes = b""
    #: how long one more property is, 0 without it: with too much there is no room for what is added
    filling: int = 0


PROPERTIES = [
    b"UNIQ_KEY\x01A1", b"UNIQ_KEY\x01", "UNIQ_KEY\x01ü".encode(), b"TAGS\x01paid", b"TAGS\x01", "TAGS\x01ä".encode(),
    b"KEYS\x01o-1 o-2", b"KEYS\x01 \x1c\t", "KEYS\x01ö".encode(), b"aUNIQ_KEY\x01b", b"a\x01b", b"", b"REAL_TOPIC\x01",
    b"ESC_DUE_MS\x015",
]  # fmt: skip
SAID = st.lists(st.sampled_from(PROPERTIES), max_size=5).map(lambda parts: b"".join(part + b"\x02" for part in parts))
USUALLY = st.fixed_dictionaries(
    {
        "said": SAID,
        "topic": st.sampled_from(["orders", "O", WIDE, WIDE[1:]]),
        "queue_id": st.sampled_from([b"3", b"0"]),
        "due_ms": st.sampled_from([START_MS, START_MS + 999, 1]),
        "body": st.sampled_from([b"", b"body", b"b" * 300]),
        "gap": st.sampled_from([b"", b"", b"gap"]),
    }
)
#: at most one thing is unusual
DEVIATION = st.one_of(
    st.just({}), st.just({}), st.just({}),
    st.fixed_dictionaries({"topic": st.sampled_from(["", "späte"])}),
    st.fixed_dictionaries({"queue_id": st.sampled_from([b"", b"x"])}),
    st.fixed_dictionaries({"born_host": st.just(IPV6)}),
    st.fixed_dictionaries({"own_topic": st.sampled_from([b"rmq_sys_wheel_timeR", b"T", b"t" * 128])}),
    st.fixed_dictionaries({"flipped": st.integers(0, 2_000)}),
    st.fixed_dictionaries({"late_ms": st.just(1)}),
    st.fixed_dictionaries({"filling": st.sampled_from(range(32_560, 32_680, 4))}),
)  # fmt: skip
PARKED = st.tuples(USUALLY, DEVIATION).map(lambda said: Parked(**said[0] | said[1]))


def stored(parked: Parked, offset: int, position: int) -> bytes:
    """Return the record as it stands in the log."""
    ours = b"REAL_TOPIC\x01%b\x02REAL_QID\x01%b\x02ESC_DUE_MS\x01%d\x02"
    filling = b"x\x01%b\x02" % (b"y" * parked.filling) if parked.filling else b""
    properties = (
        parked.said
        + filling
        + b"TIMER_OUT_MS\x015\x02"
        + ours % (parked.topic.encode(), parked.queue_id, parked.due_ms)
    )
    size = record_size(parked.own_topic, parked.body, properties, parked.born_host, IPV4)
    sent = 0, 0, START_MS - 9, parked.born_host, START_MS - 8
    record = bytearray(encode(parked.own_topic, 0, offset, position, parked.body, properties, *sent, IPV4, 1, 0, size))
    if parked.flipped is not None:
        record[-1 - parked.flipped // 8 % len(record)] ^= 1 << parked.flipped % 8
    return bytes(record)


def laid_out(all_parked: list[Parked]) -> tuple[bytes, list[Entry]]:
    data, entries = bytearray(), []
    for offset, parked in enumerate(all_parked, FIRST_OFFSET):
        record = stored(parked, offset, START + len(data))
        entries.append(Entry(parked.due_ms + parked.late_ms, offset, START + len(data), len(record)))
        data += record + parked.gap
    return bytes(data), entries


@cache
def an_engine() -> Engine:
    return open_engine().engine


def a_preparer() -> Preparer:
    engine = an_engine()
    return Preparer(engine._store, engine._repair, lambda topic, queue_id: (topic, queue_id % 2))


def columns(ready: Ready, hashes: int, at: int) -> list[bytes]:
    """Return what a twin gives of the timers from ``at`` on, the first hash of which is ``hashes``."""
    run = ready.run
    rows = run.starts, run.sizes, run.groups, run.tags_codes, ready.dues, ready.offsets, run.hash_ends
    return [each[at:].tobytes() for each in rows] + [run.hashes[hashes:].tobytes()]


def encoded_one_by_one(
    preparer: Preparer, data: bytes, entries: list[Entry]
) -> tuple[Ready, Groups, list[tuple[int, int, int] | None]]:
    """Encode in Python; return beside it after each timer how much there is by then, None where it is none."""
    ready, groups, marks = Ready(), {}, []
    for entry in entries:
        at = entry.position - START
        is_one = preparer._add(ready, groups, entry, data[at : at + entry.size])
        marks.append((len(ready.run.data), len(ready.run.hashes), len(ready)) if is_one else None)
    return ready, groups, marks


@given(
    st.lists(PARKED, min_size=1, max_size=5),
    st.sampled_from([0, 0, 0, 1, 2]),
    st.sampled_from([99, 99, 99, 99, 99, 0, 1]),
    st.sampled_from([0, 0, 0, 1, 300]),
)
def test_timers_are_encoded_alike(all_parked, first, known, cut):
    preparer = a_preparer()
    data, entries = laid_out(all_parked)
    ready, groups, marks = encoded_one_by_one(preparer, data, entries)
    groups = dict(list(groups.items())[:known])
    data = data[: len(data) - cut]
    if first > len(entries) or None in marks[:first]:
        return
    size, hashes, before = marks[first - 1] or (0, 0, 0) if first else (0, 0, 0)
    made = FAST.due_records(data, START, entries, first, groups, IPV4, size, hashes)
    if made is None:
        return
    count = len(made[5]) // 8
    stop = marks[first + count - 1]
    assert stop is not None and None not in marks[first : first + count] and count > 0
    assert made[0] == ready.run.data[size : stop[0]]
    of_all = columns(ready, hashes, before)
    width = [4, 4, 2, 8, 8, 8, 4]
    assert list(made[1:8]) == [each[: bytes_ * count] for each, bytes_ in zip(of_all[:7], width, strict=True)]
    assert made[8] == of_all[7][: 4 * (stop[1] - hashes)]


USUAL = [
    Parked(b"UNIQ_KEY\x01A1\x02WAIT\x01true\x02"),
    Parked(b"UNIQ_KEY\x01A1\x02TAGS\x01paid\x02KEYS\x01o-1 o-2\x02", gap=b"gap"),
    Parked(b"KEYS\x01\x02TAGS\x01\x02UNIQ_KEY\x01\x02", "other", b"0", body=b""),
    Parked("said\x01spät\x02".encode(), WIDE, due_ms=START_MS + 1),
    Parked(b"", WIDE[1:]),
]


def test_usual_timers_are_encoded_together():
    preparer = a_preparer()
    data, entries = laid_out(USUAL)
    ready, groups, _ = encoded_one_by_one(preparer, data, entries)
    made = FAST.due_records(data, START, entries, 0, groups, IPV4, 0, 0)
    assert made == (bytes(ready.run.data), *columns(ready, 0, 0))
    assert len(ready) == 5 and list(ready.run.hash_ends) == [1, 5, 5, 5, 5]


@pytest.mark.parametrize(
    "unusual",
    [
        Parked(b"", flipped=3), Parked(b"", flipped=200), Parked(b"", late_ms=1), Parked(b"", own_topic=b"T"),
        Parked(b"", born_host=IPV6), Parked(b"", "späte"), Parked("UNIQ_KEY\x01ü\x02".encode()),
        Parked(b"", queue_id=b"x"), Parked(b"", filling=32_700),
    ],
)  # fmt: skip
def test_timers_before_an_unusual_one_are_encoded(unusual: Parked):
    preparer = a_preparer()
    data, entries = laid_out([USUAL[0], unusual, USUAL[0]])
    _, groups, _ = encoded_one_by_one(preparer, data, entries)
    made = FAST.due_records(data, START, entries, 0, groups, IPV4, 0, 0)
    assert len(made[5]) == 8
    assert FAST.due_records(data, START, entries, 1, groups, IPV4, 0, 0) is None
    assert len(FAST.due_records(data, START, entries, 2, groups, IPV4, 0, 0)[5]) == 8
    assert FAST.due_records(data, START, entries, 3, groups, IPV4, 0, 0) is None


def test_a_queue_that_is_not_known_is_left_to_python():
    data, entries = laid_out(USUAL)
    assert FAST.due_records(data, START, entries, 0, {}, IPV4, 0, 0) is None


ROW = st.tuples(
    st.integers(112, 300), st.sampled_from([56, 68]), st.integers(0, 2), st.integers(-(1 << 31), (1 << 31) - 1)
)


@given(
    st.lists(ROW, max_size=6), st.integers(0, 3), st.integers(0, 3), st.integers(0, 1 << 60), st.integers(0, 1 << 50),
    st.lists(st.integers(0, 1 << 60), min_size=3, max_size=3), st.binary(max_size=2_000),
)  # fmt: skip
@example([], 0, 0, 0, 0, [0, 0, 0], b"")
def test_place_time_and_checksum_are_written_alike(rows, skipped, left, position, now_ms, following, letters):
    sizes = array("I", [row[0] for row in rows])
    starts = array("I", [sum(sizes[:number]) for number in range(len(rows))])
    told = starts, sizes, array("B", [row[1] for row in rows]), array("H", [row[2] for row in rows])
    codes = array("q", [row[3] for row in rows])
    ours = bytearray(letters.ljust(sum(sizes), b"\x07"))
    for start, size in zip(starts, sizes, strict=True):
        ours[start + size - 20 : start + size] = b"__CRC32#\x010000000000\x02"
    theirs = bytearray(ours)
    begin, stop = min(skipped, len(rows)), max(min(skipped, len(rows)), len(rows) - left)
    tails, totals = FAST.place_records(ours, *told, codes, begin, stop, position, now_ms, following)
    assert (tails, totals) == IN_PYTHON["place_records"](theirs, *told, codes, begin, stop, position, now_ms, following)
    assert ours == theirs
    assert IN_PYTHON["place_records"].__module__ == append.__name__


GOOD = laid_out([Parked(b"")])
WHERE = b"\x02REAL_TOPIC\x01orders\x02REAL_QID\x013"
RUN = (bytearray(112), array("I", [0]), array("I", [112]), array("B", [56]), array("H", [0]), array("q", [0]))
WRONG_RECORDS: list[tuple[tuple[Any, ...], type[Exception]]] = [
    ((b"", 0, []), TypeError),
    ((bytearray(9), 0, [], 0, {}, IPV4, 0, 0), TypeError),
    ((b"", 0, [], 0, [], IPV4, 0, 0), ValueError),
    ((b"", 0, [], 0, {}, IPV6, 0, 0), ValueError),
    ((b"", 0, [], 1, {}, IPV4, 0, 0), ValueError),
    ((b"", 0, [], -1, {}, IPV4, 0, 0), ValueError),
    ((b"", 0, [], 0, {}, IPV4, -1, 0), ValueError),
    ((b"", 0, [], 0, {}, IPV4, 0, 1 << 31), ValueError),
    ((b"", 0, range(1), 0, {}, IPV4, 0, 0), TypeError),
    ((b"", 0, [[1, 2, 3, 4]], 0, {}, IPV4, 0, 0), TypeError),
    ((b"", 0, [(1, 2, 3)], 0, {}, IPV4, 0, 0), TypeError),
    ((b"", 0, [(1, 2, 3, 1 << 31)], 0, {}, IPV4, 0, 0), OverflowError),
    ((*GOOD, {WHERE: (0, b"\x01T")}), TypeError),
    ((*GOOD, {WHERE: [0, b"\x01T", 0]}), TypeError),
    ((*GOOD, {WHERE: (0, "T", 0)}), TypeError),
    ((*GOOD, {WHERE: (0, b"", 0)}), ValueError),
    ((*GOOD, {WHERE: (1 << 16, b"\x01T", 0)}), ValueError),
    ((*GOOD, {WHERE: (0, b"\x01T", 1 << 31)}), OverflowError),
]
WRONG_RUNS: list[tuple[tuple[Any, ...], type[Exception]]] = [
    ((*RUN, 0, 1), TypeError),
    ((bytes(112), *RUN[1:], 0, 1, 0, 0, [0]), BufferError),
    ((RUN[0], array("q", [0]), *RUN[2:], 0, 1, 0, 0, [0]), ValueError),
    ((RUN[0], [0], *RUN[2:], 0, 1, 0, 0, [0]), TypeError),
    ((*RUN[:4], array("I", [0]), RUN[5], 0, 1, 0, 0, [0]), ValueError),
    ((*RUN, 1, 0, 0, 0, [0]), ValueError),
    ((*RUN, -1, 1, 0, 0, [0]), ValueError),
    ((*RUN, 0, 2, 0, 0, [0]), ValueError),
    ((*RUN, 0, 1, 0, 0, []), ValueError),
    ((*RUN, 0, 1, 0, 0, ["0"]), TypeError),
    ((*RUN, 0, 1, 0, 0, (0,), 0), TypeError),
    ((*RUN, 0, 1, 1 << 64, 0, [0]), OverflowError),
    ((bytearray(111), *RUN[1:], 0, 1, 0, 0, [0]), ValueError),
    ((RUN[0], RUN[1], array("I", [111]), *RUN[3:], 0, 1, 0, 0, [0]), ValueError),
    ((*RUN[:3], array("B", [85]), *RUN[4:], 0, 1, 0, 0, [0]), ValueError),
    ((*RUN[:4], array("H", [1]), RUN[5], 0, 1, 0, 0, [0]), ValueError),
]


@pytest.mark.parametrize(("said", "error"), WRONG_RECORDS)
def test_what_is_wrong_is_not_encoded(said: tuple[Any, ...], error: type[Exception]):
    if said[0] is GOOD[0]:
        said = said[0], START, said[1], 0, said[2], IPV4, 0, 0
    with pytest.raises(error):
        FAST.due_records(*said)


@pytest.mark.parametrize(("said", "error"), WRONG_RUNS)
def test_nothing_is_written_where_anything_is_wrong(said: tuple[Any, ...], error: type[Exception]):
    before = bytes(said[0])
    with pytest.raises(error):
        FAST.place_records(*said)
    assert bytes(said[0]) == before
