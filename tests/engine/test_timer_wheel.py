"""The wheel against a dictionary: what stands where, what comes next, and what is kept."""

from __future__ import annotations

from zlib import crc32

from hypothesis import given
from hypothesis import strategies as st

from broker.engine.testing.simulated import SimulatedFiles
from broker.engine.timer.wheel import SLOT_SIZE, Wheel, checksum_of
from broker.engine.timer.zeros import over_zeros

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
