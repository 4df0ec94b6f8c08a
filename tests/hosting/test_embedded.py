"""The embedded servers as processes of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import psycopg
import pytest

from tests.waiting import until

ROOT = Path(__file__).parents[2]
START_S = 60.0
Start = Callable[[Path], "subprocess.Popen[bytes]"]


@pytest.fixture
def start(reachable: Path) -> Iterator[Start]:
    processes: list[subprocess.Popen[bytes]] = []

    def start_postgres(var: Path) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-m", "console.run.embedded", "postgres"],
            cwd=ROOT,
            env=os.environ | {"ESCAPEMENT_VAR": str(var)},
            stdin=subprocess.DEVNULL,
        )
        processes.append(process)
        until(lambda: answers(var) or process.poll() is not None, START_S)
        assert process.poll() is None
        return process

    yield start_postgres
    for process in processes:
        process.terminate()
        process.wait(START_S)


def answers(var: Path) -> bool:
    # the other roles are made by `prepare`
    address = var / "database-owner-url"
    if not address.exists():
        return False
    try:
        psycopg.connect(address.read_text().strip()).close()
    except psycopg.OperationalError:
        return False
    return True


def postmaster(var: Path) -> int:
    return int((var / "postgres" / "postmaster.pid").read_text().splitlines()[0])


def test_sigterm_stops_the_server_itself(start: Start, reachable: Path) -> None:
    process = start(reachable / "var")
    process.send_signal(signal.SIGTERM)
    assert process.wait(START_S) == 0
    assert not answers(reachable / "var")


def test_it_starts_where_the_path_is_too_long_for_a_socket(start: Start, reachable: Path) -> None:
    var = reachable / ("long" * 25) / "var"
    var.parent.mkdir()
    start(var)
    assert answers(var)


def test_it_ends_with_an_error_when_the_server_dies(start: Start, reachable: Path) -> None:
    process = start(reachable / "var")
    os.kill(postmaster(reachable / "var"), signal.SIGKILL)
    assert process.wait(START_S) == 1


def test_the_server_ends_with_its_keeper_however_that_ended(start: Start, reachable: Path) -> None:
    process = start(reachable / "var")
    server = psutil.Process(postmaster(reachable / "var"))
    process.kill()
    assert process.wait(START_S) == -signal.SIGKILL
    server.wait(START_S)
    start(reachable / "var")
    assert answers(reachable / "var")


def test_it_starts_over_the_pid_file_of_a_killed_server_whose_number_is_in_use(start: Start, reachable: Path) -> None:
    var = reachable / "var"
    process = start(var)
    pid_file = var / "postgres" / "postmaster.pid"
    as_it_was = pid_file.read_text()
    process.send_signal(signal.SIGTERM)
    process.wait(START_S)
    pid_file.write_text(as_it_was.replace(as_it_was.splitlines()[0], str(os.getpid()), 1))
    start(var)
    assert answers(var)
