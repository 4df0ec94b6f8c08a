"""Marks of a lane: how many fall due when, without reading the lane."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from broker.mirror.watch import LIMIT, appended, covers, due_by, flat, merged, paired, trimmed

DELAY_MS = 60_000
#: arrivals in each of some seconds
ARRIVALS = st.lists(st.integers(0, 50), min_size=1, max_size=400)


def watched(arrivals: list[int]) -> tuple[list[tuple[int, int]], list[int]]:
    """Marks of somebody who looks once a second, and the true due times: all messages of a second at its middle."""
    marks: tuple[tuple[int, int], ...] = ((0, DELAY_MS),)
    dues: list[int] = []
    for second, count in enumerate(arrivals):
        dues += [second * 1_000 + 500 + DELAY_MS] * count
        marks = appended(marks, len(dues), (second + 1) * 1_000 + DELAY_MS)
    return list(marks), dues


@given(ARRIVALS)
def test_counts_at_the_marks_are_exact(arrivals: list[int]) -> None:
    marks, dues = watched(arrivals)
    for offset, due_ms in marks:
        counted = due_by([due_ms], delay_offset=0, end_offset=len(dues), points=marks)[0]
        assert counted == sum(due <= due_ms for due in dues) == max(o for o, d in marks if d == due_ms)
        assert offset <= len(dues)


@given(ARRIVALS)
def test_counts_rise_to_the_backlog(arrivals: list[int]) -> None:
    marks, dues = watched(arrivals)
    moments = list(range(0, DELAY_MS + (len(arrivals) + 2) * 1_000, 700))
    counts = due_by(moments, delay_offset=0, end_offset=len(dues), points=marks)
    assert all(left <= right for left, right in pairwise(counts))
    assert counts[-1] == len(dues)


@given(ARRIVALS, st.integers(0, 100))
def test_what_has_left_is_not_counted(arrivals: list[int], share: int) -> None:
    marks, dues = watched(arrivals)
    left = len(dues) * share // 100
    kept = trimmed(marks, left)
    assert covers(kept, left)
    last = due_by([marks[-1][1]], delay_offset=left, end_offset=len(dues), points=kept)[0]
    assert last == len(dues) - left


@given(ARRIVALS)
def test_never_more_than_the_limit_and_always_in_order(arrivals: list[int]) -> None:
    marks, _ = watched(arrivals)
    assert len(marks) <= LIMIT
    assert all(left[0] <= right[0] and left[1] <= right[1] for left, right in pairwise(marks))
    assert paired(flat(marks)) == tuple(marks)


def test_a_pause_keeps_both_its_ends() -> None:
    marks = appended(appended(appended(((0, 10),), 5, 20), 5, 30), 5, 40)
    assert marks == ((0, 10), (5, 20), (5, 40))
    counts = due_by([20, 39, 40], delay_offset=0, end_offset=9, points=(*marks, (9, 50)))
    assert counts == [5, 5, 5]


def test_a_clock_set_back_does_not_break_the_order() -> None:
    assert appended(((0, 100),), 5, 50) == ((0, 100), (5, 100))


def test_a_queue_that_begins_anew_forgets() -> None:
    assert appended(((100, 1), (200, 2)), 3, 9) == ((3, 9),)


def test_samples_of_a_shortened_level_are_put_in_order() -> None:
    assert merged([(0, 500), (1, 900), (2, 100)], ()) == ((0, 500), (1, 900), (2, 900))


def test_a_known_single_message_counts_just_after_its_due_time() -> None:
    points = [(7, 1_000), (8, 1_600)]
    assert due_by([999, 1_000, 1_001], delay_offset=7, end_offset=8, points=points) == [0, 0, 1]
