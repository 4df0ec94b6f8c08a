"""Upgrade and downgrade under load, between this version and those of the history, and through all of them."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.reliability.lives import Promises
from tests.upgrade.crossing import Crossing, Turn, cross
from tests.upgrade.versions import VERSIONS, HistoryMissing, Version, checked_out, known


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    """Print a line past pytest's capture."""

    def line(text: str) -> None:
        with capsys.disabled():
            sys.stdout.write(f"\n{text}\n")

    return line


def assert_kept(crossing: Crossing) -> None:
    assert crossing.verdict.violations == [], crossing.line()
    assert crossing.verdict.counts["accepted"] > 200, crossing.line()
    for fate in ("delivered", "dead", "rolled back", "pending"):
        assert crossing.verdict.counts[fate], f"nothing was {fate}: {crossing.line()}"


@pytest.mark.soak
@pytest.mark.parametrize("version", known(), ids=lambda version: version.name)
async def test_up_and_back_and_up_again(version: Version, tmp_path: Path, say: Callable[[str], None]) -> None:
    seed = random.SystemRandom().randrange(1 << 30)
    turns = [Turn(version), Turn(None), Turn(version), Turn(None, is_killed=True)]
    crossing = await cross(turns, seed, tmp_path, Promises())
    say(f"seed {seed}: {crossing.line()}")
    assert_kept(crossing)


@pytest.mark.soak
async def test_up_through_all_versions_and_back_to_the_oldest(tmp_path: Path, say: Callable[[str], None]) -> None:
    seed = random.SystemRandom().randrange(1 << 30)
    up = [*known(), None]
    turns = [Turn(version) for version in (*up, *reversed(up[:-1]), None)]
    crossing = await cross(turns, seed, tmp_path, Promises())
    say(f"seed {seed}: {crossing.line()}")
    assert_kept(crossing)


def test_a_history_that_is_not_there_is_said_and_not_passed_by(tmp_path: Path) -> None:
    with pytest.raises(HistoryMissing, match=r"fetch all of it \(`git fetch --unshallow --tags`\)"):
        checked_out(Version("lost", "0" * 39 + "1"), tmp_path)


def test_versions_have_names_and_revisions_of_their_own() -> None:
    assert (
        len({version.name for version in VERSIONS}) == len({version.revision for version in VERSIONS}) == len(VERSIONS)
    )
