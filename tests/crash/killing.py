"""A real broker process under load, killed again and again; then the store is opened and compared with every answer."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from resource import RLIMIT_NOFILE, setrlimit
from time import monotonic, time

from broker.client import ClientError, Producer, SendResult
from broker.engine.disk import OsFiles
from broker.engine.fsck.store import check_store
from broker.engine.testing import Driver, ManualClock, open_engine

SIZES = {"segment_size_bytes": 1 << 20, "queue_file_entries": 500, "index_slots": 1_000, "index_entries": 2_000}
TOPIC = "kills"
SENDERS = 4
#: A broker that does not start, or senders that get no answer, for so long are broken.
PATIENCE_S = 30.0


class BrokerProcess:
    """`python -m broker.server` on a directory, on free ports."""

    def __init__(self, root: Path, *arguments: str, descriptors: int | None = None) -> None:
        """``descriptors``: soft and hard limit of open files of the process."""
        sizes = [word for name, size in SIZES.items() for word in (f"--{name.replace('_', '-')}", str(size))]
        command = [sys.executable, "-m", "broker.server", "--root", str(root), "--port", "0", "--namesrv-port", "0"]
        self.log = root.parent / "broker.log"
        started = monotonic()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--delay-levels", "1s 2s", *sizes, *arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=Path(__file__).parents[2],
                preexec_fn=None
                if descriptors is None
                else lambda: setrlimit(RLIMIT_NOFILE, (descriptors, descriptors)),
            )
        assert self.process.stdout is not None
        self.greeting = self.process.stdout.readline()
        self.start_s = monotonic() - started

    @property
    def namesrv(self) -> str:
        """The address of the name service."""
        return self.greeting.split()[-1]

    def end(self, number: int) -> int:
        """Send a signal, wait, and return the exit code."""
        self.process.send_signal(number)
        code = self.process.wait(PATIENCE_S)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


class Load:
    """Threads that send without pause; every answer is kept."""

    def __init__(self, namesrv: str, cycle: int) -> None:
        self.answered: dict[bytes, SendResult] = {}
        self.delayed: set[bytes] = set()
        self.unanswered: set[bytes] = set()
        self._enough = threading.Event()
        self._stop = threading.Event()
        self._wanted = 1 << 60
        self._namesrv = namesrv
        self._threads = [threading.Thread(target=self._send, args=(cycle, number)) for number in range(SENDERS)]
        for thread in self._threads:
            thread.start()

    def wait_for(self, answers: int) -> None:
        """Return when so many sends were answered."""
        self._enough.clear()
        self._wanted = answers
        assert self._enough.wait(PATIENCE_S), f"only {len(self.answered)} sends were answered"

    def stop(self) -> None:
        """Let no thread send any more."""
        self._stop.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()

    def _send(self, cycle: int, number: int) -> None:
        with Producer(group="killers", namesrv=self._namesrv, retries=0) as producer:
            for count in range(1 << 30):
                if self._stop.is_set():
                    return
                body = b"%d-%d-%d " % (cycle, number, count) + b"x" * (count % 300)
                level = 1 if count % 5 == 0 else 0
                try:
                    result = producer.send(TOPIC, body, delay_level=level, keys=[f"n{count % 10}"])
                except ClientError:
                    self.unanswered.add(body)
                    continue
                if level:
                    self.delayed.add(body)
                self.answered[body] = result
                if len(self.answered) >= self._wanted:
                    self._enough.set()


def kill_in_a_loop(directory: Path, *, cycles: int, seed: int) -> str:
    """Kill a broker under load so many times; check everything at the end. Returns the line to print."""
    draws = random.Random(seed)
    root = directory / "store"
    loads: list[Load] = []
    starts: list[float] = []
    for cycle in range(cycles):
        broker = BrokerProcess(root)
        assert broker.greeting.startswith("broker "), broker.log.read_text()
        starts.append(broker.start_s)
        load = Load(broker.namesrv, cycle)
        try:
            load.wait_for(draws.randint(20, 400))
        finally:
            broker.end(9)
            load.stop()
        loads.append(load)
        report = check_store(OsFiles(), str(root))
        assert report.is_sound, report.damages
    answered, duplicates = check_killed(root, loads)
    return (
        f"R4a: {cycles} kills (seed {seed}), acknowledged {answered:,}, lost 0, twice {duplicates}, "
        f"start {max(starts):.1f} s at most"
    )


def open_here(root: Path) -> Driver:
    """Open the store of a broker that is gone."""
    levels = {"delay_levels": "1s 2s", "max_body_bytes": 4 << 20, "max_properties_bytes": 32_767}
    return open_engine(OsFiles(), clock=ManualClock(int(time() * 1000)), root=str(root), **SIZES, **levels)


def check_killed(root: Path, loads: list[Load]) -> tuple[int, int]:
    """Compare the store with every answer; returns (answered, bodies that are there twice)."""
    driver = open_here(root)
    assert driver.engine.health().state == "OK", driver.engine.health()
    driver.advance(10_000)
    bodies: Counter[bytes] = Counter()
    by_place: dict[tuple[int, int], bytes] = {}
    topic = driver.engine.topics.get(TOPIC)
    assert topic is not None
    for queue_id in range(topic.read_queues):
        for offset, message in driver.readable(TOPIC, queue_id).items():
            bodies[message.body] += 1
            by_place[queue_id, offset] = message.body
    answered = 0
    sent: set[bytes] = set()
    for load in loads:
        answered += len(load.answered)
        sent |= load.answered.keys() | load.unanswered
        for body, result in load.answered.items():
            assert bodies[body] >= 1, f"acknowledged {body[:20]!r} is lost"
            if body not in load.delayed:
                assert by_place[result.queue_id, result.queue_offset] == body
    assert bodies.keys() <= sent, "something is there that nobody sent"
    driver.close()
    report = check_store(OsFiles(), str(root))
    assert report.is_sound, report.damages
    assert not os.path.exists(root / "abort")
    return answered, sum(count - 1 for count in bodies.values())
