"""The long form of hours under a mixed load: eight in accelerated time, and one as it is."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.reliability.hours import Run

pytestmark = pytest.mark.soak


@pytest.mark.parametrize(("hours", "speed"), [(8, 16), (1, 1)])
async def test_hours(hours: float, speed: float, tmp_path: Path, say: Callable[[str], None]) -> None:
    seed = random.SystemRandom().randrange(1 << 30)
    result = await Run(hours, speed, seed, tmp_path).live()
    say("\n".join([f"R12: seed {seed}, {result.line()}", *(f"  {sample.line()}" for sample in result.samples)]))
    assert result.wrong == []
    assert list(result.grown()) == []
    # released as late at the end as at the beginning
    late_ms = [sample.late_p50_ms for sample in result.samples]
    half = len(late_ms) // 2
    assert sorted(late_ms[half:])[half // 2] <= 2 * sorted(late_ms[:half])[half // 2] + speed
