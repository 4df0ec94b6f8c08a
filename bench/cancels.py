"""How long it takes to remove one value by value from a queue in which many wait."""

from __future__ import annotations

import random
import time
from collections.abc import Callable


def removals_ms(remove: Callable[[str], bool], waiting: int, count: int) -> list[float]:
    """Milliseconds of each of `count` removals of values drawn from all that `fill_background` left, sorted.

    Raises RuntimeError when a value that waits is not found.
    """
    taken: list[float] = []
    for number in random.Random(waiting).sample(range(waiting), count):
        begin = time.perf_counter()
        found = remove(f"waits-{number:07d}")
        taken.append((time.perf_counter() - begin) * 1_000)
        if not found:
            raise RuntimeError(f"waits-{number:07d} was not found")
    return sorted(taken)
