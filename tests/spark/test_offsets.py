"""Offsets as JSON, shares of a batch, tasks: pure functions, against what they have to keep."""

from __future__ import annotations

import json
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from spark.offsets import Offsets, Queue, Range, limited, ranges_of, read_offsets, tasks_of, written

QUEUES = st.builds(Queue, st.sampled_from(["a", "b"]), st.sampled_from(["broker-a", "broker-b"]), st.integers(0, 11))
OFFSETS = st.dictionaries(QUEUES, st.integers(0, 1 << 40))


@given(OFFSETS)
def test_offsets_come_back_from_json_and_are_always_the_same_text(offsets: Offsets) -> None:
    text = json.dumps(written(offsets))
    assert read_offsets(json.loads(text)) == offsets
    assert json.dumps(written(dict(reversed(list(offsets.items()))))) == text


@given(OFFSETS, st.dictionaries(QUEUES, st.integers(0, 500)), st.integers(1, 400))
def test_a_share_moves_every_queue_that_waits_and_none_too_far(start: Offsets, more: Offsets, most: int) -> None:
    latest = start | {queue: start.get(queue, 0) + count for queue, count in more.items()}
    found = limited(start, latest, most)
    taken = {queue: found[queue] - start.get(queue, 0) for queue in latest}
    waiting = {queue: latest[queue] - start.get(queue, 0) for queue in latest}
    assert found.keys() == latest.keys()
    assert all((1 <= taken[queue] <= count) if count else taken[queue] == 0 for queue, count in waiting.items())
    assert sum(taken.values()) <= max(most, len([count for count in waiting.values() if count]))


def test_what_waits_is_shared_in_proportion() -> None:
    few, many = Queue("t", "a", 0), Queue("t", "a", 1)
    assert limited({few: 5, many: 0}, {few: 15, many: 90}, 50) == {few: 10, many: 45}


def test_what_the_shortest_get_beyond_their_share_the_longest_give() -> None:
    long, *short = [Queue("t", "a", number) for number in range(3)]
    assert limited({}, {long: 4, **dict.fromkeys(short, 1)}, 3) == {long: 1, **dict.fromkeys(short, 1)}


def test_a_queue_that_was_not_known_is_read_from_its_beginning() -> None:
    old, new = Queue("t", "a", 0), Queue("t", "b", 0)
    assert ranges_of({old: 3}, {old: 3, new: 2}) == [Range(new, 0, 2)]


@given(st.dictionaries(QUEUES, st.tuples(st.integers(0, 1 << 40), st.integers(1, 3_000))), st.integers(1, 1_000))
def test_tasks_hold_every_offset_once_and_are_of_one_broker(wanted: dict[Queue, tuple[int, int]], split: int) -> None:
    ranges = [Range(queue, start, start + count) for queue, (start, count) in wanted.items()]
    tasks = tasks_of(ranges, split)
    for task in tasks:
        assert len({one.queue.broker for one in task}) == 1
        assert 0 < sum(one.count for one in task) <= split
    for whole in ranges:
        parts = sorted((one.start, one.end) for task in tasks for one in task if one.queue == whole.queue)
        assert parts[0][0] == whole.start and parts[-1][1] == whole.end
        assert all(one[1] == other[0] for one, other in pairwise(parts))


def test_short_ranges_share_a_task() -> None:
    ranges = [Range(Queue("t", "a", number), 0, 10) for number in range(100)]
    assert [len(task) for task in tasks_of(ranges, 500)] == [50, 50]
