"""Ports for servers that take seconds to listen."""

from __future__ import annotations

import socket

import pytest

from tests.interop.process import first_given_port, free_ports


def test_no_port_is_given_that_a_client_of_another_test_could_get() -> None:
    for count in (1, 2):
        for _ in range(50):
            assert free_ports(count, below=2) + count <= first_given_port()


def test_ports_that_are_in_use_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", free_ports(1))) as listening:
        used = listening.getsockname()[1]
        tries = iter([used - 1, used, used + 1, used + 40])
        monkeypatch.setattr("random.randrange", lambda *_: next(tries))
        assert free_ports(2, below=1) == used + 40
