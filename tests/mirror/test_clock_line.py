"""How the broker's clock runs is known to every process that reads the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.mirror.clock_file import ClockFile, ClockLine

LINE = ClockLine(60.0, 1_767_225_600_000, 5_000_000)


def test_what_one_process_writes_another_reads(tmp_path: Path) -> None:
    path = tmp_path / "simulated-clock"
    ClockFile(path).write(LINE)
    assert ClockFile(path).line() == LINE
    assert LINE.at(5_000_000 + 30_000) == LINE.simulated_ms + 1_800_000
    ClockFile(path).write(None)
    assert ClockFile(path).line() is None and not path.exists()


def test_the_same_line_said_later_is_not_written_again(tmp_path: Path) -> None:
    path = tmp_path / "simulated-clock"
    file = ClockFile(path)
    file.write(LINE)
    file.write(ClockLine(60.0, LINE.at(6_000_000) + 59, 6_000_000))
    assert file.line() == LINE
    jumped = ClockLine(60.0, LINE.at(6_000_000) + 120_000, 6_000_000)
    file.write(jumped)
    assert ClockFile(path).line() == jumped


@pytest.mark.parametrize("content", ["", "{", "[]", '{"speed": 60}'])
def test_a_file_that_says_nothing_is_the_real_clock(tmp_path: Path, content: str) -> None:
    path = tmp_path / "simulated-clock"
    path.write_text(content)
    assert ClockFile(path).line() is None
    ClockFile(path).write(LINE)
    assert ClockFile(path).line() == LINE


def test_the_broker_says_how_it_runs_or_nothing() -> None:
    assert ClockLine.read(None) is None
    assert ClockLine.read({"speed": 60, "simulatedMs": LINE.simulated_ms, "realMs": 5_000_000}) == LINE
    with pytest.raises(KeyError):
        ClockLine.read({"speed": 60})
