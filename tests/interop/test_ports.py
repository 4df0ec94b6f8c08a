"""Ports for servers that take seconds to listen."""

from __future__ import annotations

import itertools
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ports import first_given_port, free_ports

REPOSITORY = Path(__file__).parents[2]
#: Says which port it was given, and keeps it until it is told to end.
OTHER = """
import sys
from tests.ports import free_ports
print(free_ports(1), flush=True)
sys.stdin.read()
"""


def test_no_port_is_given_that_a_client_of_another_test_could_get() -> None:
    for _ in range(10):
        assert free_ports(2, below=2) + 2 <= first_given_port()


@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_ports_that_are_in_use_are_passed_over(
    family: socket.AddressFamily, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server((host, free_ports(1)), family=family) as listening:
        used = listening.getsockname()[1]
        tries = itertools.chain((used - 1, used, used + 1), itertools.count(used + 40))
        monkeypatch.setattr("random.randrange", lambda *_: next(tries))
        assert free_ports(2, below=1) >= used + 40


def test_what_was_given_once_is_not_given_again_before_its_server_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    first = free_ports(1)
    tries = itertools.count(first)
    monkeypatch.setattr("random.randrange", lambda *_: next(tries))
    assert free_ports(1) > first


def test_what_another_process_was_given_is_not_given_here(monkeypatch: pytest.MonkeyPatch) -> None:
    other = [sys.executable, "-c", OTHER]
    with subprocess.Popen(other, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY) as process:
        assert process.stdout is not None
        theirs = int(process.stdout.readline())
        tries = itertools.count(theirs)
        monkeypatch.setattr("random.randrange", lambda *_: next(tries))
        assert free_ports(1) > theirs
        process.communicate("")
