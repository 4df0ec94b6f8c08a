"""What is checked of many records at once is what is checked of each."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.rocketmq.message import all_stand_here, encode, record_size, stands_here

HOST = bytes(8)


def records(bodies: list[bytes], queue_id: int, offset: int, position: int) -> tuple[list[bytes], list[int], list[int]]:
    found: list[bytes] = []
    positions: list[int] = []
    for number, body in enumerate(bodies):
        size = record_size(b"orders", body, b"a\x01b\x02", HOST, HOST)
        positions.append(position)
        found.append(
            encode(
                b"orders", queue_id, offset + number, position, body, b"a\x01b\x02", 0, 0, 1, HOST, 2, HOST, 0, 0, size
            )
        )
        position += size + 7
    return found, positions, [len(record) for record in found]


@given(
    bodies=st.lists(st.binary(max_size=20), min_size=1, max_size=5),
    queue_id=st.integers(0, 9),
    offset=st.integers(0, 1 << 40),
    position=st.integers(0, 1 << 50),
    where=st.floats(0, 0.999),
    bit=st.integers(0, 7),
)
def test_one_bit_in_any_record_is_found(
    bodies: list[bytes], queue_id: int, offset: int, position: int, where: float, bit: int
) -> None:
    found, positions, sizes = records(bodies, queue_id, offset, position)
    assert all_stand_here(found, positions, sizes, queue_id, offset)
    for wrong in ((queue_id + 1, offset), (queue_id, offset + 1)):
        assert not all_stand_here(found, positions, sizes, *wrong)
    assert not all_stand_here(found, [each + 1 for each in positions], sizes, queue_id, offset)
    number = int(where * len(found))
    damaged = bytearray(found[number])
    damaged[int(where * len(damaged))] ^= 1 << bit
    found[number] = bytes(damaged)
    assert not stands_here(found[number], positions[number], queue_id, offset + number)
    assert not all_stand_here(found, positions, sizes, queue_id, offset)


def test_what_is_no_record_is_none() -> None:
    for record in (b"", b"x", bytes(40), bytes(100)):
        assert not all_stand_here([record], [0], [len(record)], 0, 0)
    found, positions, sizes = records([b"x", b"y"], 0, 0, 0)
    assert not all_stand_here([found[0], found[1][:-1]], positions, sizes, 0, 0)
