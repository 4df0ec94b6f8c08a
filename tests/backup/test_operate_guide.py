"""docs/OPERATE.md: its commands, word for word and in its order, print what it shows."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from broker.client import Producer
from tests.crash.killing import BrokerProcess
from tests.waiting import until

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "OPERATE.md").read_text()
COMMAND = re.compile(r"^\$ (.+)\n((?:(?!\$ |```).*\n)*)", re.MULTILINE)
#: Moments, numbers and times that differ from run to run; how many lines there are of segments and queues does, too.
VARYING = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+[+]00:00|\d[\d,.]*")


@dataclass(frozen=True)
class Place:
    """Where the guide's ``/srv`` is, and the moment that it goes back to."""

    path: Path
    moment: str

    def run(self, command: str) -> str:
        """What a command of the guide prints, to both outputs, with the guide's names."""
        told = command.replace(".venv/bin/python manage.py", "PYTHON manage.py").replace("/srv", str(self.path))
        told = told.replace("python -m escapement_mq", "PYTHON -m broker").replace("PYTHON", sys.executable)
        told = re.sub(r"--until \S+", f"--until {self.moment}", told)
        done = subprocess.run(
            ["sh", "-c", told], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        return done.stdout.replace(str(self.path), "/srv")


@contextmanager
def serving(path: Path) -> Iterator[Place]:
    """A store with messages from before and after a moment, stopped once, and its broker runs."""
    broker = BrokerProcess(path / "store")
    with Producer("guide", broker.namesrv) as producer:
        for number in range(4):
            producer.send("orders", f"order {number}", keys=[f"{number}"])
        producer.send("orders", "remind", delay_ms=3_600_000)
        stored_ms = now_ms()
        until(lambda: now_ms() > stored_ms)
        moment = datetime.fromtimestamp(now_ms() / 1000, UTC).isoformat(timespec="milliseconds")
        producer.send("orders", "late")
        producer.send("orders", "remind later", delay_ms=7_200_000)
    assert broker.end(signal.SIGTERM) == 0
    broker = BrokerProcess(path / "store")
    try:
        yield Place(path, moment)
    finally:
        assert broker.end(signal.SIGTERM) == 0


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def plain(text: str) -> list[str]:
    """The lines without what varies, each of them once."""
    lines = [VARYING.sub("…", line.rstrip()) for line in text.splitlines()]
    return list(dict.fromkeys(line for line in lines if line))


def test_the_commands_of_the_guide_print_what_it_shows(tmp_path: Path) -> None:
    found = COMMAND.findall(GUIDE)
    assert len(found) == 14
    with serving(tmp_path) as place:
        for command, shown in found:
            assert plain(place.run(command)) == plain(shown), command


@pytest.mark.parametrize(
    "said",
    [
        "escapement.backup",
        "escapement.restoring",
        "escapement.format",
        "--mb-per-s",
        "A segment is missing in the middle",
    ],
)
def test_the_guide_names_what_the_code_does(said: str) -> None:
    assert said in GUIDE
    sources = "".join(path.read_text() for path in (ROOT / "broker").rglob("*.py"))
    assert said in sources
