"""What a run fetches and compiles is made once, however many workers want it at once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.interop.jars import JavaMissing, made_once


def test_of_many_that_want_it_one_makes_it_and_the_others_find_it_whole(tmp_path: Path) -> None:
    target, at_once = tmp_path / "classes", threading.Barrier(4)
    made: list[int] = []

    def want(number: int) -> str:
        at_once.wait(10)
        with made_once(target) as is_wanted:
            if is_wanted:
                made.append(number)
                (target / "part").write_text("whole")
        return (target / "part").read_text()

    with ThreadPoolExecutor(4) as workers:
        assert list(workers.map(want, range(4))) == ["whole"] * 4
    assert len(made) == 1


def test_what_failed_is_made_by_the_next(tmp_path: Path) -> None:
    with pytest.raises(JavaMissing):
        with made_once(tmp_path / "classes"):
            raise JavaMissing
    with made_once(tmp_path / "classes") as is_wanted:
        assert is_wanted
