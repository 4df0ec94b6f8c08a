"""A real broker process: killed under load, stopped under load, and kept from sharing its store."""

from __future__ import annotations

import fcntl
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from broker.engine.disk import OsFiles
from broker.engine.errors import StoreLocked
from broker.engine.fsck.store import check_store
from broker.engine.testing import open_engine

from .killing import BrokerProcess, Load, check_killed, kill_in_a_loop, open_here

#: Takes the POSIX lock that Java's FileChannel.tryLock takes; prints whether it got it, holds it until stdin closes.
JAVA_STYLE_LOCK = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
try:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    print("refused", flush=True)
else:
    print("locked", flush=True)
sys.stdin.read()
"""


def test_a_broker_killed_under_load_has_every_send_it_answered(tmp_path, say):
    say(kill_in_a_loop(tmp_path, cycles=4, seed=7))


def test_a_broker_stopped_under_load_ends_cleanly_and_loses_nothing(tmp_path):
    root = tmp_path / "store"
    loads = []
    for cycle in range(2):
        broker = BrokerProcess(root)
        load = Load(broker.namesrv, cycle)
        load.wait_for(100)
        assert broker.end(signal.SIGTERM) == 0, broker.log.read_text()
        load.stop()
        loads.append(load)
        assert not (root / "abort").exists()
        report = check_store(OsFiles(), str(root))
        assert (report.damages, report.unfinished) == ([], [])
    driver = open_here(root)
    assert driver.engine.health().records_recovered == 0, "after a clean stop the log need not be looked at"
    driver.close()
    _, duplicates = check_killed(root, loads)
    assert duplicates == 0


def test_a_second_broker_on_the_same_store_is_refused_with_a_reason(tmp_path):
    root = tmp_path / "store"
    first = BrokerProcess(root)
    second = BrokerProcess(root)
    assert second.process.wait(30) == 1
    assert second.process.stdout is not None
    second.process.stdout.close()
    assert second.greeting == ""
    assert "Another broker" in second.log.read_text()
    first.process.send_signal(signal.SIGSTOP)
    with pytest.raises(StoreLocked):
        open_here(root)
    first.process.send_signal(signal.SIGCONT)
    assert first.end(signal.SIGKILL) == -signal.SIGKILL
    third = BrokerProcess(root)
    assert third.greeting.startswith("broker ")
    assert third.start_s < 5
    third.end(signal.SIGTERM)


def java_like(path: Path) -> subprocess.Popen[str]:
    """A process that locks as Apache RocketMQ does."""
    return subprocess.Popen(
        [sys.executable, "-c", JAVA_STYLE_LOCK, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def answer_of(process: subprocess.Popen[str]) -> str:
    """What it said, after it has ended."""
    said, _ = process.communicate()
    return said.strip()


def test_our_store_is_locked_for_a_java_broker_even_after_another_handle_of_the_lock_was_closed(tmp_path):
    driver = open_engine(OsFiles(), root=str(tmp_path))
    (tmp_path / "lock").read_bytes()
    assert answer_of(java_like(tmp_path / "lock")) == "refused"
    driver.close()
    assert answer_of(java_like(tmp_path / "lock")) == "locked"


def test_a_store_that_a_java_broker_has_open_is_refused_and_left_alone(tmp_path):
    (tmp_path / "lock").write_bytes(b"lock")
    java = java_like(tmp_path / "lock")
    assert java.stdout is not None
    assert java.stdout.readline().strip() == "locked"
    with pytest.raises(StoreLocked, match="Another broker"):
        open_engine(OsFiles(), root=str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]
    java.communicate()
    open_engine(OsFiles(), root=str(tmp_path)).close()


def test_the_lock_goes_with_the_process_and_not_with_a_flag_on_disk(tmp_path):
    open_engine(OsFiles(), root=str(tmp_path)).close()
    with (tmp_path / "lock").open("r+b") as handle:
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with pytest.raises(StoreLocked):
            open_engine(OsFiles(), root=str(tmp_path))
    open_engine(OsFiles(), root=str(tmp_path)).close()
