"""The wheel against a dictionary: what stands where, what comes next, and what is kept."""

from __future__ import annotations

from collections import Counter
from zlib import crc32

from hypothesis import given
from hypothesis import strategies as st

from broker.engine.testing.disk import SimulatedFiles
from broker.engine.timer.log import MAGIC_DELETE, MAGIC_PLAIN, MAGIC_ROLL, UNIT, UNIT_SIZE
from broker.engine.timer.wheel import SLOT_SIZE, Tally, Wheel, checksum_of, over_zeros

#: so that the wheel has some blocks of 16 kB, the last one not full
SLOTS = 1_300
BEGIN = 1_700_000_000
seconds = st.integers(BEGIN, BEGIN + 2 * SLOTS - 1)
steps = st.lists(st.tuples(st.sampled_from(["add", "clear"]), seconds), max_size=40)


def played(course: list[tuple[str, int]]) -> tuple[Wheel, dict[int, tuple[int, int, int]]]:
    """A wheel and its model: second -> (first unit, last unit, number)."""
    wheel, model = Wheel(SLOTS), {}
    for unit, (what, second) in enumerate(course):
        if what == "add":
            first, last, number = model.get(second, (unit, -1, 0))
            assert wheel.add(second, unit) == last
            model[second] = (first, unit, number + 1)
        else:
            wheel.clear(second)
            model.pop(second, None)
    return wheel, model


@given(steps, seconds, seconds)
def test_what_stands_where_and_what_comes_next(course: list[tuple[str, int]], begin: int, until: int) -> None:
    wheel, model = played(course)
    assert {slot.second: (slot.first, slot.last, slot.number) for slot in wheel.used()} == model
    assert wheel.next_used(begin, until) == min((each for each in model if begin <= each <= until), default=None)
    assert wheel.count(begin, until) == sum(each[2] for second, each in model.items() if begin <= second <= until)


@given(steps, seconds, st.integers(0, 30_000))
def test_the_used_seconds_of_a_stretch(course: list[tuple[str, int]], begin: int, length: int) -> None:
    wheel, model = played(course)
    assert wheel.used_between(begin, begin + length) == sorted(each for each in model if begin <= each < begin + length)


rolled = st.lists(st.tuples(seconds, st.booleans()), max_size=40)


@given(st.one_of(st.none(), st.integers(0, 2 * SLOTS - 1)), rolled, st.one_of(st.just(0), seconds))
def test_the_tally_is_what_slots_say_one_by_one(
    stretch: int | None, course: list[tuple[int, bool]], after: int
) -> None:
    wheel = Wheel(SLOTS)
    if stretch is not None:  # most seconds of a turn, so that whole blocks are one stretch
        for second in range(BEGIN + stretch, BEGIN + 2 * SLOTS):
            wheel.add(second, second)
    for unit, (second, rolls) in enumerate(course):
        # some of another turn in between: they take the place of those of this one
        wheel.add(second + (wheel.places if unit % 7 == 6 else 0), unit, rolls=int(rolls))
    minutes, rolls = Counter[int](), Counter[int]()
    slots = list(wheel.used())
    for slot in slots:
        if slot.second > after:
            minutes[(slot.second + 1) // 60] += slot.number - slot.rolls
            rolls[slot.second] += slot.rolls
    tally = Tally(wheel, after)
    assert {minute: count for minute, count in tally.minutes.items() if count} == dict(+minutes)
    assert tally.rolls == dict(+rolls)
    assert tally.furthest == max((slot.second for slot in slots), default=0)


@given(st.lists(st.tuples(seconds, st.integers(0, 7)), max_size=40))
def test_units_put_again_leave_the_same_wheel(course: list[tuple[int, int]]) -> None:
    wheel, again, raw = Wheel(SLOTS), Wheel(SLOTS), b""
    for number, (second, magic) in enumerate(course):
        count = -1 if magic & MAGIC_DELETE else 1
        wheel.add(second, number * UNIT_SIZE, count=count, rolls=count if magic & MAGIC_ROLL else 0)
        raw += UNIT.pack(UNIT_SIZE, -1, magic | MAGIC_PLAIN, BEGIN * 1000, (second - BEGIN) * 1000, 0, 1, 0, 0)
    assert again.put_units(0, raw)
    assert list(again.used()) == list(wheel.used())
    assert not again.put_units(0, bytes(UNIT_SIZE))


@given(st.binary(max_size=64), st.one_of(st.integers(0, 1 << 22), st.sampled_from([0, 1, 8_191, 8_192, 1 << 20])))
def test_the_checksum_over_zeros(begin: bytes, count: int) -> None:
    assert over_zeros(crc32(begin), count) == crc32(begin + bytes(count))


@given(steps)
def test_what_is_kept_is_what_is_read(course: list[tuple[str, int]]) -> None:
    wheel, _ = played(course)
    image = bytearray(wheel.places * SLOT_SIZE)
    pages = wheel.pages()
    for at, page in pages:
        assert any(page)
        image[at : at + len(page)] = page
    assert bytes(image) == bytes(wheel.raw)
    files = SimulatedFiles()
    files.load({"/store/wheel": bytes(image)})
    other = Wheel(SLOTS)
    assert other.load(files, "/store/wheel") == checksum_of(pages, len(image))
    assert set(other.used()) == set(wheel.used())
    other.reset()
    assert list(other.used()) == []
    assert other.next_used(BEGIN, BEGIN + SLOTS) is None
