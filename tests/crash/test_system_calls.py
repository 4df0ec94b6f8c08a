"""A real process killed at a system call that changes a file: `strace` kills it as the Nth call of that kind begins."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from broker.backup.directory import manifest_in
from broker.backup.errors import BackupRefused
from broker.backup.restoring import restore_directory
from broker.engine.disk import OsFiles
from broker.engine.fsck.store import check_store
from broker.engine.testing import Driver, ManualClock, open_engine

from .reference_run import TOPIC, back_up

REPOSITORY = Path(__file__).parents[2]
#: what changes a file, or makes durable what was changed
CALLS = "pwrite64,pwritev,fallocate,ftruncate,fdatasync,fsync,rename,renameat,renameat2,unlink,unlinkat,rmdir,mkdir"
PATIENCE_S = 120
LATER_MS = 60_000
GATE_KILLS = 8


def traced(directory: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the reference below strace."""
    program = [sys.executable, "-m", "tests.crash.reference_run", str(directory), str(directory / "notes")]
    command = ["strace", "-f", "-qq", "-o", str(directory / "trace"), "-e", f"trace={CALLS}", *options, *program]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def calls_of_a_run(directory: Path) -> Counter[str]:
    """Return how often an unharmed run makes each call."""
    directory.mkdir()
    done = traced(directory)
    assert done.returncode == 0, done.stderr
    return Counter(re.findall(r"^\d+ +(\w+)\(", (directory / "trace").read_text(), re.MULTILINE))


def kill_at(directory: Path, call: str, number: int) -> None:
    """Kill a run as it begins its Nth call of a kind, and compare what is left with what was promised."""
    directory.mkdir()
    done = traced(directory, "-e", f"inject={call}:signal=KILL:when={number}")
    assert done.returncode != 0, f"{call} {number} was not reached: {done.stderr}"
    promised = (directory / "notes").read_text().splitlines() if (directory / "notes").exists() else []
    root = directory / "store"
    if not (root / "commitlog").exists():
        assert promised == []
        return
    if promised:
        assert check_store(OsFiles(), str(root)).damages == []
    driver = judge(root, promised)
    _judge_backup(directory, promised, driver)


def judge(root: Path, promised: list[str]) -> Driver:
    """Open a store and assert every line of the notes; what waits comes out, once."""
    driver = open_engine(OsFiles(), clock=ManualClock(ManualClock().now_ms + 12_000), root=str(root))
    assert driver.engine.health().state == "OK"
    said = [line.split() for line in promised]
    if any(words[0] == "sent" for words in said):
        found = driver.readable(TOPIC)
        for words in (words for words in said if words[0] == "sent"):
            assert found[int(words[1])].body.rstrip(b".").decode() == words[2]
    if offsets := [int(words[1]) for words in said if words[0] == "offset"]:
        assert (driver.engine.offsets.get("readers", TOPIC, 0) or 0) >= offsets[-1]
    driver.advance(LATER_MS)
    if driver.engine.topics.get(TOPIC) is not None:
        bodies = Counter(body.rstrip(b".").decode() for body in driver.bodies(TOPIC))
        assert not bodies or max(bodies.values()) == 1, bodies
        for words in said:
            assert words[0] != "waits" or words[1].startswith("gone") or bodies[words[1]] == 1, f"{words} is lost"
            assert words[0] != "cancelled" or not bodies[words[1]], f"{words} came out"
    else:
        assert not any(words[0] == "sent" for words in said)
    driver.close()
    assert check_store(OsFiles(), str(root)).damages == []
    return driver


def _judge_backup(directory: Path, promised: list[str], driver: Driver) -> None:
    files, backup = OsFiles(), str(directory / "backup")
    if not (directory / "backup").exists():
        return
    try:
        manifest_in(files, backup)
    except BackupRefused:
        assert "backup" not in promised
        back_up(str(directory / "store"), backup, driver.clock.now_ms)
    restore_directory(files, backup, str(directory / "restored"), told=lambda line: None)
    judge(directory / "restored", promised)


def test_a_process_killed_at_a_system_call_keeps_what_it_promised(tmp_path: Path, say) -> None:
    """Some of each kind; all of them in the long form."""
    counts = calls_of_a_run(tmp_path / "whole")
    places = [(call, number) for call in sorted(counts) for number in range(1, counts[call] + 1)]
    chosen = places[:: len(places) // GATE_KILLS]
    for call, number in chosen:
        kill_at(tmp_path / f"{call}-{number}", call, number)
    say(f"R4b: killed at {len(chosen)} of {len(places):,} system calls, 0 violations, {dict(counts)}")


@pytest.mark.soak
def test_a_process_killed_at_any_system_call_keeps_what_it_promised(tmp_path: Path, say) -> None:
    counts = calls_of_a_run(tmp_path / "whole")
    for call, count in counts.items():
        for number in range(1, count + 1):
            try:
                kill_at(tmp_path / f"{call}-{number}", call, number)
            except Exception as error:
                raise AssertionError(f"{call} {number}: {type(error).__name__}: {error}") from error
    say(f"R4b: killed at each of {counts.total():,} system calls, 0 violations, {dict(counts)}")
