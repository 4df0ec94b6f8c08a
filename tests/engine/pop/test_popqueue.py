"""One queue as a group pops it: which of its offsets are open."""

from __future__ import annotations

from random import Random

from broker.engine.pop.popqueue import PopQueue


def test_what_is_open_is_found_among_many_pops_however_they_end() -> None:
    chance = Random(7)
    queue = PopQueue(("G", "T", 0), 0)
    is_open: dict[int, bool] = {}
    for pop_ms in range(400):
        start = queue.next_offset + chance.randrange(3)
        mask = chance.getrandbits(8) << 1 | 1
        width = mask.bit_length()
        is_open |= dict.fromkeys(range(queue.next_offset, start), False)
        is_open |= {start + bit: bool(mask >> bit & 1) for bit in range(width)}
        queue.pop(start, start + width, pop_ms, pop_ms + 1_000, mask)
        point = chance.choice(list(queue.points.values()))
        done = chance.getrandbits(8)
        taken = queue.ack(point, done)
        is_open |= {point.start + bit: False for bit in range(8) if taken >> bit & 1}
        if not chance.randrange(20):
            end = queue.next_offset - chance.randrange(30)
            queue.cut(end)
            is_open = {offset: known for offset, known in is_open.items() if offset < end}
        assert queue.base_offset == min([offset for offset, known in is_open.items() if known] or [queue.next_offset])
        for offset in chance.sample(range(queue.next_offset), 5):
            assert queue.is_open(offset) is is_open[offset]
    assert all(queue.is_open(offset) is known for offset, known in is_open.items())
    assert queue.is_open(queue.next_offset)
    assert queue.open_offsets() == [offset for offset, known in is_open.items() if known]


def test_what_is_over_behind_a_message_that_is_out_for_hours_is_forgotten() -> None:
    queue = PopQueue(("payers", "orders", 0), 0)
    first = queue.pop(0, 1, 1, 1 << 40, 1)
    for offset in range(1, 10_000):
        point = queue.pop(offset, offset + 1, offset + 1, 1 << 40, 1)
        assert point is not None
        queue.ack(point, 1)
        assert queue.is_open(0)
        assert not queue.is_open(offset)
    assert len(queue.roots) < 200
    assert queue.base_offset == 0
    assert first is not None
    queue.ack(first, 1)
    assert queue.base_offset == 10_000
