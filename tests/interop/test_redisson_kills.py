"""SIGKILL in mixed traffic: every value that was accepted arrives once, and the queue is never stuck."""

from __future__ import annotations

import random

import pytest

from tests.interop.redisson_kills import Course, anybody, offering_java, the_server, the_service

ROUNDS, SOAK_ROUNDS = 3, 200


@pytest.fixture
def course(tmp_path):
    """All that takes part; the seed stands in what is printed."""
    one = Course(tmp_path, random.SystemRandom().randrange(1 << 30))
    yield one
    one.close()


@pytest.mark.parametrize("kill", [offering_java, the_service, the_server], ids=lambda kill: kill.__name__)
def test_a_kill_loses_and_doubles_nothing(course, kill):
    report = course.run(ROUNDS, kill)
    assert all(verdict.is_clean for verdict in course.verdicts), (report, course.verdicts)
    assert sum(verdict.accepted for verdict in course.verdicts) >= 20 * ROUNDS, report
    assert course.stuck == 0, report


@pytest.mark.soak
def test_many_kills_of_anybody_lose_and_double_nothing(course, capsys):
    report = course.run(SOAK_ROUNDS, anybody)
    with capsys.disabled():
        print(f"\nRedisson: {report}")  # noqa: T201 - every long run says how much it tried
    assert all(verdict.is_clean for verdict in course.verdicts), [str(verdict) for verdict in course.verdicts]
    assert course.stuck == 0, report
