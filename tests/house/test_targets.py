"""Every test is run by exactly one target, and the gate calls all of them but the long form."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys

import pytest
from _pytest.mark.expression import Expression

from tests import speed
from tests.house.sources import ROOT, own_python, place

MARKS = ("slow", "interop", "soak")
RUN = re.compile(
    r'^([a-z-]+):.*\n\t\$\(BIN\)/python -m pytest (?:-[^m]\S* |auto |2 |\$\(TWICE\) |loadfile )*-m ("[^"]+"|\S+)(.*)$',
    re.MULTILINE,
)


def targets() -> dict[str, tuple[Expression, list[str]]]:
    """By name: which marks a target takes, and the paths it is limited to."""
    runs = RUN.findall((ROOT / "Makefile").read_text())
    return {name: (Expression.compile(marks.strip('"')), paths.split()) for name, marks, paths in runs}


def test_the_targets_are_known() -> None:
    assert set(targets()) == {"test", "test-slow", "interop", "interop-core", "soak"}


@pytest.mark.parametrize("marks", [each for n in range(4) for each in itertools.combinations(MARKS, n)], ids=" ".join)
def test_whatever_its_marks_a_test_is_run_by_one_target(marks: tuple[str, ...]) -> None:
    whole = {name: takes for name, (takes, _) in targets().items() if name != "interop-core"}
    taking = [name for name, takes in whole.items() if takes.evaluate(lambda mark, **_: mark in marks)]
    assert len(taking) == 1


def test_a_target_that_looks_in_one_folder_misses_none_elsewhere() -> None:
    limited = {name: paths for name, (_, paths) in targets().items() if paths}
    # the rules of the house are a part of `make check`
    house = limited.pop("test")
    assert house == ["--ignore", "tests/house"]
    assert "\t$(BIN)/python -m pytest tests/house\n" in (ROOT / "Makefile").read_text()
    assert limited == {"interop": ["tests/interop"], "interop-core": ["tests/interop"]}
    marked = [place(path) for path in own_python() if "mark." + "interop" in path.read_text()]
    assert marked == ["tests/interop/conftest.py"]


def test_the_gate_calls_all_but_the_long_forms() -> None:
    called = re.findall(r"^for target in (.+); do$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    assert [set(names.split()) for names in called] == [{"check", *targets()} - {"interop", "soak"}]


def test_the_core_is_a_part_of_interop() -> None:
    assert all(name.startswith("interop/test_") for name in speed.CORE)
    assert len(set(speed.CORE)) == len(speed.CORE)
    assert set(speed.OF_TWO_BROKERS) < set(speed.CORE)


@pytest.mark.parametrize("name", [*speed.SLOW, *speed.LONG, *speed.CORE])
def test_a_place_that_is_named_is_there(name: str) -> None:
    assert (speed.HERE / name).exists()


def test_a_slow_place_makes_what_it_holds_slow_and_nothing_beside_it() -> None:
    assert speed.is_slow(speed.HERE / "crash" / "test_rot.py")
    assert speed.is_slow(speed.HERE / "redisson" / "test_kill.py")
    assert not speed.is_slow(speed.HERE / "redisson" / "test_keys.py")
    assert not speed.is_slow(speed.HERE / "engine" / "test_message.py")


def test_marks_are_given_before_a_run_chooses_by_them(request: pytest.FixtureRequest) -> None:
    asked = request.config.getoption("markexpr")
    takes = Expression.compile(asked) if asked else None
    for item in request.session.items:
        marks = {mark.name for mark in item.iter_markers()}
        assert "slow" in marks or not speed.is_slow(item.path), item.nodeid
        assert takes is None or takes.evaluate(lambda name, marks=marks, **_: name in marks), item.nodeid


def test_what_is_measured_can_be_started() -> None:
    """No test imports bench/, which takes from tests/ what starts servers."""
    said = subprocess.run(
        [sys.executable, "-m", "bench", "--help"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert said.returncode == 0, said.stderr
    assert "timers" in said.stdout
