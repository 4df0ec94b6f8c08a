"""The supervisor with real children: order of start and stop, restarts, one-time children, output, refusals."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.run.supervisor import read_roster
from tests.hosting.houses import Run
from tests.waiting import until

#: A child that notes its start and its SIGTERM in a shared file, then waits.
CHILD = """
import os, signal, sys
def note(what):
    with open(sys.argv[2], 'a') as file:
        file.write(f'{sys.argv[1]} {what} {os.getpid()}\\n')
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
note('started')
signal.sigwait({signal.SIGTERM})
note('stopped')
"""


@pytest.fixture
def house(tmp_path: Path) -> Iterator[Run]:
    run = Run(tmp_path)
    yield run
    run.end()


def waiting(name: str, journal: Path) -> list[str]:
    return [name, sys.executable, "-c", CHILD, name, str(journal)]


def notes(journal: Path) -> list[str]:
    return [" ".join(line.split()[:2]) for line in journal.read_text().splitlines()] if journal.exists() else []


def test_children_start_in_order_and_stop_in_the_opposite_order(house: Run) -> None:
    house.start([waiting(name, house.journal) for name in ("one", "two", "three")])
    house.await_line("everything started")
    until(lambda: len(notes(house.journal)) == 3)
    house.signal(signal.SIGINT)
    assert house.wait() == 0
    stops = [note for note in notes(house.journal) if note.endswith("stopped")]
    assert stops == ["three stopped", "two stopped", "one stopped"]


def test_a_killed_child_is_started_again(house: Run) -> None:
    house.start([waiting("one", house.journal)])
    house.await_line("everything started")
    until(lambda: len(notes(house.journal)) == 1)
    os.kill(int(house.journal.read_text().split()[2]), signal.SIGKILL)
    house.await_line("one ended by signal SIGKILL")
    until(lambda: notes(house.journal) == ["one started", "one started"])


def test_a_child_that_keeps_failing_waits_longer_each_time(house: Run, tmp_path: Path) -> None:
    told = tmp_path / "told"
    os.mkfifo(told)
    house.start([["broken", sys.executable, "-c", f"open({str(told)!r}).read(); raise SystemExit(3)"]])
    house.await_line("everything started")
    waits = []
    for _ in range(3):
        told.write_text("fail")  # as soon as it runs and listens
        waits.append(house.await_line("starting again in").rpartition(" in ")[2])
    assert waits == ["0.5 s", "1.0 s", "2.0 s"]


def test_what_a_child_says_before_it_dies_is_on_the_terminal(house: Run) -> None:
    house.start([["broken", sys.executable, "-c", "print('no more paper'); raise SystemExit(3)"]])
    house.await_line("broken ended with 3")
    house.await_line("    no more paper")


def test_a_child_that_runs_once_is_not_started_again(house: Run) -> None:
    once = ["once", sys.executable, "-c", f"open({str(house.journal)!r}, 'a').write('once ran 0\\n')"]
    house.start([once, waiting("after", house.journal)], once=("once",))
    house.await_line("everything started")
    until(lambda: len(notes(house.journal)) == 2)
    assert notes(house.journal) == ["once ran", "after started"]


def test_nothing_starts_after_a_one_time_child_that_failed(house: Run) -> None:
    house.start([["once", sys.executable, "-c", "raise SystemExit(2)"], waiting("after", house.journal)], ("once",))
    assert house.wait() == 1
    assert notes(house.journal) == []


def test_ctrl_c_in_the_terminal_reaches_no_child(house: Run) -> None:
    house.start([waiting("one", house.journal)])
    house.await_line("everything started")
    until(lambda: len(notes(house.journal)) == 1)
    child = int(house.journal.read_text().split()[2])
    assert os.getsid(child) == child


def test_children_do_not_outlive_a_killed_supervisor(house: Run) -> None:
    house.start([waiting("one", house.journal)])
    house.await_line("everything started")
    until(lambda: len(notes(house.journal)) == 1)
    house.signal(signal.SIGKILL)
    until(lambda: notes(house.journal)[-1:] == ["one stopped"])


def test_a_child_that_ignores_sigterm_is_killed_by_a_second_ctrl_c(house: Run) -> None:
    stubborn = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('WARNING deaf', flush=True)\n"
    house.start([["deaf", sys.executable, "-c", stubborn + "signal.pause()"]])
    house.await_line("WARNING deaf")
    house.signal(signal.SIGINT)
    house.await_line("stopping")
    house.signal(signal.SIGINT)
    assert house.wait() == 0


def test_others_can_read_how_the_children_do_as_long_as_the_supervisor_runs(house: Run) -> None:
    assert read_roster(house.roster) == ()
    once = ["once", sys.executable, "-c", ""]
    house.start([once, waiting("one", house.journal), waiting("two", house.journal)], once=("once",))
    house.await_line("everything started")
    until(lambda: len(notes(house.journal)) == 2)
    first = read_roster(house.roster)
    assert [(each.name, each.state, each.restarts) for each in first] == [("one", "running", 0), ("two", "running", 0)]
    os.kill(int(house.journal.read_text().split()[2]), signal.SIGKILL)
    until(lambda: [each.state for each in read_roster(house.roster)] == ["waiting", "running"])
    until(
        lambda: [(each.state, each.restarts) for each in read_roster(house.roster)] == [("running", 1), ("running", 0)]
    )
    second = read_roster(house.roster)
    assert second[0].since_ms > first[0].since_ms
    assert second[1] == first[1]
    house.signal(signal.SIGKILL)
    house.wait()
    assert read_roster(house.roster) == ()


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"pid": 1, "created": 0, "processes": []}', '{"pid": "x"}'])
def test_a_file_that_no_supervisor_wrote_says_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "processes.json").write_text(text)
    assert read_roster(tmp_path / "processes.json") == ()


def test_every_line_of_a_child_is_in_its_log(house: Run) -> None:
    talk = "import signal\nprint('first\\nsecond\\nERROR third', flush=True)\nsignal.pause()"
    house.start([["talker", sys.executable, "-c", talk]])
    house.await_line("ERROR third")
    assert (house.logs / "talker.log").read_text().splitlines() == ["first", "second", "ERROR third"]
