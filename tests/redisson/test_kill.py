"""kill -9 of the service, of the offering clients and of the server, in mixed traffic: none lost, none doubled."""

from __future__ import annotations

import contextlib
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from broker.redisson.queue import QueueKeys
from tests.redisson.mixed_traffic import NAME
from tests.redisson.servers import RealServer
from tests.waiting import until

ROOT = Path(__file__).parents[2]
KEYS = QueueKeys(NAME)


class Traffic:
    """A server, one transfer service and two offering processes, each of which may be killed."""

    def __init__(self, directory: Path) -> None:
        (directory / "server").mkdir()
        self.server = RealServer("valkey", directory / "server", "--appendonly", "yes", "--appendfsync", "always")
        self.notes = directory / "notes"
        self.notes.touch()
        self._born = 0
        self._processes = {role: self._start(role) for role in ("transfer", "offer-1", "offer-2")}

    def kill(self, what: str) -> None:
        """Kill one of them and start it again."""
        if what == "server":
            self.server.kill()
            self.server.start()
            return
        self._end(what)
        self._processes[what] = self._start(what)

    def stop_offers(self) -> None:
        """Only the transfer service is left."""
        self._end("offer-1")
        self._end("offer-2")

    def stop(self) -> None:
        """End everything."""
        for role in self._processes:
            self._end(role)
        self.server.kill()

    def _start(self, role: str) -> subprocess.Popen[bytes]:
        self._born += 1
        what = role.partition("-")[0]
        command = [sys.executable, "-m", "tests.redisson.mixed_traffic", what, self.server.url]
        return subprocess.Popen([*command, str(self.notes), f"s{self._born}"], cwd=ROOT)

    def _end(self, role: str) -> None:
        self._processes[role].kill()
        self._processes[role].wait()


@contextlib.contextmanager
def traffic(directory: Path) -> Iterator[Traffic]:
    started = Traffic(directory)
    try:
        yield started
    finally:
        started.stop()


def outcome(running: Traffic) -> tuple[Counter[str], set[str], set[str]]:
    """Delivered values, and those that were surely offered and surely removed."""
    running.stop_offers()
    client = running.server.client()
    until(lambda: not client.zcount(KEYS.timeout.decode(), 0, time.time() * 1000 + 10_000), 60)
    listed: list[bytes] = client.lrange(KEYS.target.decode(), 0, -1)
    in_list: list[bytes] = client.lrange(KEYS.waiting.decode(), 0, -1)
    in_set: list[bytes] = client.zrange(KEYS.timeout.decode(), 0, -1)
    assert sorted(in_list) == sorted(in_set)
    client.close()
    notes = [line.split() for line in running.notes.read_text().splitlines() if line.count(" ") == 1]
    offered = {value for what, value in notes if what == "offered"}
    removed = {value for what, value in notes if what == "removed"}
    return Counter(value.decode() for value in listed), offered, removed


def run(directory: Path, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    with traffic(directory) as running:
        client = running.server.client()
        for _ in range(kills):
            # Each round sees some traffic pass before something dies in it.
            wanted = _length(client) + chance.randrange(5, 60)
            until(lambda least=wanted: _length(client) >= least, 60, every_s=0.002)
            running.kill(chance.choice(["server", "transfer", "offer-1", "offer-2"]))
        client.close()
        delivered, offered, removed = outcome(running)
    assert len(offered) > 20 * kills / 4
    assert offered - set(delivered) == set(), "lost"
    assert {value for value, times in delivered.items() if times > 1} == set(), "doubled"
    assert removed & set(delivered) == set(), "removed and delivered"


def _length(client: redis.Redis) -> int:
    return until(lambda: 1 + client.llen(KEYS.target.decode()), not_yet=(redis.RedisError,)) - 1


def test_nothing_is_lost_or_doubled_by_kills(tmp_path: Path) -> None:
    run(tmp_path, 8, seed=1)


@pytest.mark.soak
def test_nothing_is_lost_or_doubled_by_two_hundred_kills(tmp_path: Path) -> None:
    run(tmp_path, 200, seed=2)
