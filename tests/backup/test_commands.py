"""The commands, beside a real broker under load: what they print, what they leave, and what is in a restored store."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from broker.backup.directory import manifest_in
from broker.engine.disk import OsFiles
from broker.engine.fsck.store import check_store
from tests.crash.killing import SENDERS, TOPIC, BrokerProcess, Load, open_here
from tests.waiting import until

ROOT = Path(__file__).parents[2]


def run(*arguments: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "broker", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload,no-any-return]  # options as they are


def await_answers(load: Load, count: int) -> None:
    until(lambda: len(load.answered) >= count, 60)


_brokers: list[BrokerProcess] = []
_loads: list[Load] = []


@pytest.fixture(autouse=True)
def _nothing_goes_on() -> Iterator[None]:
    """What a test that fails leaves running would disturb all others of its process."""
    yield
    for load in _loads:
        load.stop()
    for broker in _brokers:
        if broker.process.poll() is None:
            broker.end(signal.SIGKILL)
    _loads.clear()
    _brokers.clear()


def started(root: Path) -> BrokerProcess:
    _brokers.append(BrokerProcess(root))
    return _brokers[-1]


def loading(namesrv: str, cycle: int) -> Load:
    _loads.append(Load(namesrv, cycle))
    return _loads[-1]


@pytest.fixture
def broker(tmp_path: Path) -> BrokerProcess:
    return started(tmp_path / "store")


def stored(root: Path) -> set[bytes]:
    driver = open_here(root)
    queues = driver.engine.topics.get(TOPIC)
    assert queues is not None
    found = {body for queue_id in range(queues.queues) for body in driver.bodies(TOPIC, queue_id)}
    driver.close()
    return found


def test_backups_beside_a_broker_under_load_hold_all_that_was_answered_before(tmp_path: Path) -> None:
    broker = started(tmp_path / "store")
    load = loading(broker.namesrv, 0)
    told = []
    for wanted in (200, 600, 1_000):
        await_answers(load, len(load.answered) + wanted)
        answered = {body: result for body, result in list(load.answered.items()) if body not in load.delayed}
        done = run("backup", tmp_path / "store", "--to", tmp_path / "backup")
        assert done.returncode == 0, done.stderr
        position = manifest_in(OsFiles(), str(tmp_path / "backup")).position
        root = tmp_path / f"restored{wanted}"
        back = run("restore", tmp_path / "backup", root)
        assert back.returncode == 0, back.stderr
        told.append((position, answered, root, f"to position {position:,}" in back.stdout))
    assert broker.end(signal.SIGKILL) == -signal.SIGKILL
    load.stop()
    for position, answered, root, is_said in told:
        assert is_said
        assert set(answered) <= stored(root), f"what was answered before the backup at {position} is in it"
        assert check_store(OsFiles(), str(root)).damages == []
    assert told[0][0] < told[1][0] < told[2][0]
    rehearsed = run("rehearse", tmp_path / "backup")
    assert rehearsed.returncode == 0, rehearsed.stderr
    assert rehearsed.stdout.endswith("sound\n")


def test_a_restored_store_serves_and_goes_on(tmp_path: Path) -> None:
    broker = started(tmp_path / "store")
    load = loading(broker.namesrv, 0)
    await_answers(load, 300)
    done = run("backup", tmp_path / "store", "--to", tmp_path / "backup")
    load.stop()
    broker.end(signal.SIGTERM)
    assert done.returncode == 0
    assert run("restore", tmp_path / "backup", tmp_path / "restored").returncode == 0
    again = started(tmp_path / "restored")
    more = loading(again.namesrv, 1)
    await_answers(more, 200)
    more.stop()
    assert again.end(signal.SIGTERM) == 0, again.log.read_text()
    assert set(more.answered) - more.delayed <= stored(tmp_path / "restored")
    taken = run("backup", tmp_path / "restored", "--to", tmp_path / "backup")
    assert taken.returncode == 0 or "not the one that is in" in taken.stderr


def test_a_pipe_that_nobody_reads_keeps_no_checkpoint_waiting_and_ends_with_its_reader(tmp_path: Path) -> None:
    broker = started(tmp_path / "store")
    load = loading(broker.namesrv, 0)
    await_answers(load, 400)
    command = [sys.executable, "-m", "broker", "backup", str(tmp_path / "store"), "--to", "-"]
    pipe = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert pipe.stdout is not None
    assert pipe.stdout.read(512)
    pipe.stdout.close()
    assert pipe.wait(60) in (2, 0)
    pipe.communicate()
    load.stop()
    assert broker.end(signal.SIGTERM) == 0
    assert not (tmp_path / "store" / "abort").exists()


def test_a_backup_through_a_pipe_is_restored_from_one(tmp_path: Path) -> None:
    broker = started(tmp_path / "store")
    load = loading(broker.namesrv, 0)
    await_answers(load, 300)
    answered = {body for body in load.answered if body not in load.delayed}
    with (tmp_path / "backup.tar").open("wb") as out:
        command = [sys.executable, "-m", "broker", "backup", str(tmp_path / "store"), "--to", "-"]
        assert subprocess.run(command, cwd=ROOT, stdout=out, stderr=subprocess.DEVNULL, check=False).returncode == 0
    load.stop()
    broker.end(signal.SIGTERM)
    with (tmp_path / "backup.tar").open("rb") as given:
        done = run("restore", "-", tmp_path / "restored", stdin=given)
    assert done.returncode == 0, done.stderr
    assert answered <= stored(tmp_path / "restored")


def test_until_a_moment_with_its_zone_and_no_other(tmp_path: Path, broker: BrokerProcess) -> None:
    load = loading(broker.namesrv, 0)
    await_answers(load, 200)
    known, known_ms = set(load.answered), time.time_ns() // 1_000_000
    # what was stored within the ms of the moment counts as later
    until(lambda: time.time_ns() // 1_000_000 > known_ms)
    moment = datetime.now(UTC).isoformat(timespec="milliseconds")
    earlier = set(load.answered)
    await_answers(load, len(load.answered) + 300)
    load.stop()
    broker.end(signal.SIGTERM)
    assert run("backup", tmp_path / "store", "--to", tmp_path / "backup").returncode == 0
    late = run("restore", tmp_path / "backup", tmp_path / "restored", "--until", "2199-01-01T00:00:00Z")
    assert (late.returncode, "later than the backup" in late.stderr) == (2, True)
    bare = run("restore", tmp_path / "backup", tmp_path / "restored", "--until", "2026-01-01T00:00:00")
    assert (bare.returncode, "has no time zone" in bare.stderr) == (2, True)
    done = run("restore", tmp_path / "backup", tmp_path / "restored", "--until", moment)
    assert done.returncode == 0, done.stderr
    assert f"stored at {moment} or later" in done.stdout
    found = stored(tmp_path / "restored")
    assert known - load.delayed <= found
    late = set(load.answered) - earlier - load.delayed
    assert len(found & late) <= SENDERS, "at most what was on its way at the moment"
    assert len(late) > SENDERS


def test_what_is_damaged_is_exit_code_1_and_what_is_refused_2(tmp_path: Path, broker: BrokerProcess) -> None:
    load = loading(broker.namesrv, 0)
    await_answers(load, 100)
    load.stop()
    broker.end(signal.SIGTERM)
    assert run("rehearse", tmp_path / "nothing").returncode == 2
    assert run("backup", tmp_path / "nothing", "--to", tmp_path / "backup").returncode == 2
    assert run("backup", tmp_path / "store", "--to", tmp_path / "backup").returncode == 0
    segment = next((tmp_path / "backup" / "commitlog").iterdir())
    content = bytearray(segment.read_bytes())
    content[200] ^= 1
    segment.write_bytes(content)
    found = run("rehearse", tmp_path / "backup")
    assert found.returncode == 1
    assert "is damaged: its checksum differs" in found.stderr
