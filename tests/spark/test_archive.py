"""The archive: closed segments that outlive the log's own, the same figures from them, and messages found in them."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest

from broker.rocketmq.message import Message
from broker.rocketmq.properties import UNIQUE_KEY
from console.features.dashboards.models import DashboardRun
from spark.archive.files import ABOUT, Archive, ArchiveBusy, Entry, Gap, between, broker_of, directory_name, gaps
from spark.archive.search import Sought, search
from spark.archive.writing import Log, archive_log
from spark.columns import GROUPS
from spark.order import Order, archived, log_bytes
from spark.run import run
from spark.scan import ScanEnded, write_columns
from tests.house.sources import ROOT
from tests.spark.conftest import Make
from tests.spark.count import count_all
from tests.spark.plain import messages
from tests.spark.randomlog import SIZE, START_MS, RandomLog
from tests.spark.test_run import queued
from tests.watching import Calls

Write = Callable[[dict[int, bytes]], Path]
BROKER = "broker-a"


@pytest.fixture
def log() -> RandomLog:
    """Four closed segments and one that is written."""
    random = RandomLog(3).fill(1_450)
    assert len(random.segments) == 5
    return random


@pytest.fixture
def path(store: Write, log: RandomLog) -> Path:
    """The store of that log."""
    return store(log.segments)


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    """An archive, empty as yet."""
    found = Archive(tmp_path / "archive")
    found.root.mkdir()
    return found


def kept(archive: Archive, path: Path, broker: str = BROKER, *, bodies: bool = False) -> int:
    outcome = archive_log(archive, Log(broker, str(path)), bodies=bodies)
    assert not outcome.error and not outcome.left
    return outcome.written


def segment(path: Path, number: int) -> Path:
    return path / "commitlog" / f"{SIZE * number:020d}"


def rows_of(archive: Archive, broker: str = BROKER) -> list[dict[str, Any]]:
    return [row for entry in archive.entries(broker) for row in pq.read_table(entry.path).to_pylist()]


def test_each_closed_segment_is_written_once_with_everything_but_bodies(
    archive: Archive, path: Path, log: RandomLog
) -> None:
    assert (kept(archive, path), kept(archive, path)) == (4, 0)
    entries = archive.entries(BROKER)
    assert [(one.start, one.end) for one in entries] == [(SIZE * n, SIZE * (n + 1)) for n in range(4)]
    assert all(one.is_sound for one in entries) and gaps(entries) == []
    there = {message.position: message for message in messages(log.segments) if message.position < 4 * SIZE}
    rows = rows_of(archive)
    sound = [row for row in rows if row["corrupt"] is None]
    assert [row["position"] for row in sound] == sorted(there)
    for row in sound:
        message = there[row["position"]]
        assert (row["topic"], row["store_ms"], row["broker"]) == (message.topic, message.store_ms, BROKER)
        assert dict(row["properties"]) == message.properties
        assert row["body"] in (None, message.body)
    assert {row["kind"] for row in rows if row["body"] is not None} == {"op", "note"}
    for one in entries:
        times = [row["store_ms"] for row in sound if one.start <= row["position"] < one.end]
        assert (one.first_ms, one.last_ms) == (min(times), max(times))
        assert one.path.stat().st_mode & 0o777 == 0o600
    about = json.loads(pq.read_metadata(entries[0].path).metadata[ABOUT])
    assert about == {"version": 1, "bodies": False, "levels": Log("", "").levels}
    columns = pq.read_schema(entries[0].path).names
    assert set(columns) > {name for group in GROUPS.values() for name in group}


def test_bodies_are_there_where_somebody_wants_them(archive: Archive, path: Path, log: RandomLog) -> None:
    kept(archive, path, bodies=True)
    bodies = {row["position"]: row["body"] for row in rows_of(archive) if row["corrupt"] is None}
    assert bodies == {one.position: one.body for one in messages(log.segments) if one.position < 4 * SIZE}


def test_others_read_it_as_it_is(archive: Archive, path: Path, log: RandomLog) -> None:
    kept(archive, path)
    files = duckdb.read_parquet(f"{archive.directory(BROKER)}/*.parquet")
    count, first_ms = files.aggregate("count(*), min(store_ms)").fetchall()[0]
    assert count == len(rows_of(archive)) and first_ms == min(one.store_ms for one in messages(log.segments))


def test_the_guide_asks_it_with_duckdb(archive: Archive, path: Path, log: RandomLog) -> None:
    (recipe,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "ARCHIVE.md").read_text(), re.DOTALL)
    assert 'read_parquet("var/archive/*/*.parquet"' in recipe
    kept(archive, path)
    found: dict[str, Any] = {}
    exec(recipe.replace("var/archive", str(archive.root)), found)  # noqa: S102 - a page of this repository
    cancels = [one for one in messages(log.segments) if one.position < 4 * SIZE and kind_of(one) == "delete"]
    assert sum(row[2] for row in found["answer"].fetchall()) == len(cancels) > 10


def kind_of(message: Message) -> str:
    """What the archive calls a record, of those that end a timer."""
    is_timer, names = message.topic == "rmq_sys_wheel_timer", {"TIMER_DEL_UNIQKEY", "ESC_CANCELS", "ESC_ECHO"}
    return "delete" if is_timer and names & message.properties.keys() else ""


def test_every_dashboard_says_of_log_and_archive_what_it_said_of_the_whole_log(
    make: Make, archive: Archive, path: Path, log: RandomLog, transactional_db: None, database_url: str
) -> None:
    names = ("flow", "lateness", "pending", "cancellations", "transactions", "retries", "keys", "ledger")
    kept(archive, path)
    for number in range(3):
        segment(path, number).unlink()
    expected = count_all(messages(log.segments), log.now_ms, [], SIZE)
    order = queued(path, database_url, log.now_ms, (*names, "storage"), "archive")
    broker = order.broker
    archive.directory(BROKER).rename(archive.directory(broker))
    order = Order(
        order.store, order.database_url, broker, order.runs, order.as_of_ms, "archive", archive=str(archive.root)
    )
    assert [entry.start for entry in archived(order)] == [0, SIZE, 2 * SIZE]
    assert 4 * SIZE < log_bytes(order) <= 5 * SIZE
    run(order, make())
    for name in names:
        current = DashboardRun.objects.get(dashboard=name, is_current=True, window="archive")
        found = {(p.series, p.topic, p.label, p.part, p.at_ms): p.value for p in current.points.all()}
        assert {k: v for k, v in found.items() if v} == {k: v for k, v in expected[name].items() if v}, name
        assert (current.start_position, current.rows_read) == (0, len(list(messages(log.segments))))
    # what fills the log is what the log still has
    storage = DashboardRun.objects.get(dashboard="storage", is_current=True).points.filter(series="content")
    assert {point.label for point in storage} == {str(3 * SIZE), str(4 * SIZE)}


def test_only_the_window_archive_reads_it(archive: Archive, path: Path) -> None:
    kept(archive, path)
    segment(path, 0).unlink()
    for window, count in (("archive", 1), ("all", 0), ("24h", 0)):
        order = Order(str(path), "", BROKER, {}, START_MS, window, archive=str(archive.root))
        assert len(archived(order)) == count
    assert archived(Order(str(path), "", "other", {}, START_MS, "archive", archive=str(archive.root))) == []


def test_a_log_is_continued_backwards_up_to_the_first_gap(archive: Archive, path: Path) -> None:
    kept(archive, path)
    entries = archive.entries(BROKER)
    assert archive.before(BROKER, 4 * SIZE) == entries and archive.before(BROKER, 2 * SIZE) == entries[:2]
    assert archive.before(BROKER, 0) == [] and archive.before(BROKER, SIZE + 1) == []
    entries[1].path.unlink()
    assert archive.before(BROKER, 4 * SIZE) == entries[2:]
    assert gaps(archive.entries(BROKER)) == [Gap(SIZE, 2 * SIZE)]


def test_a_segment_that_was_deleted_first_is_told_as_a_gap(archive: Archive, path: Path) -> None:
    saved = {number: segment(path, number).read_bytes() for number in (1, 2)}
    for number in saved:
        segment(path, number).unlink()
    outcome = archive_log(archive, Log(BROKER, str(path)), bodies=False)
    assert (outcome.written, outcome.lost) == (2, [(SIZE, 3 * SIZE)])
    segment(path, 1).write_bytes(saved[1])
    assert archive_log(archive, Log(BROKER, str(path)), bodies=False).lost == [(2 * SIZE, 3 * SIZE)]


def test_a_log_that_was_begun_anew_stands_beside_the_one_before(archive: Archive, path: Path, store: Write) -> None:
    kept(archive, path)
    before = archive.entries(BROKER)
    again = RandomLog(5)
    again.now_ms += 100 * 86_400_000
    store(again.fill(1_450).segments)
    assert kept(archive, path) == 4
    new = [entry for entry in archive.entries(BROKER) if entry not in before]
    assert len(new) == 4 and archive.before(BROKER, 4 * SIZE) == new


def test_the_segment_that_is_written_and_one_without_its_end_are_left(archive: Archive, path: Path) -> None:
    whole = segment(path, 4).read_bytes()
    segment(path, 4).write_bytes(whole[:4_000].ljust(SIZE, b"\0"))
    assert kept(archive, path) == 4
    assert max(entry.end for entry in archive.entries(BROKER)) == 4 * SIZE


def test_damage_is_archived_as_what_it_is(archive: Archive, path: Path) -> None:
    data = bytearray(segment(path, 1).read_bytes())
    data[5_000:5_400] = os.urandom(400)
    segment(path, 1).write_bytes(data)
    assert kept(archive, path) == 4
    assert len([row for row in rows_of(archive) if row["corrupt"] is not None]) >= 1


def test_the_disk_keeps_room_for_the_broker(archive: Archive, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = shutil.disk_usage(archive.root)._replace(free=2 * SIZE - 1)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda _path: full)
        outcome = archive_log(archive, Log(BROKER, str(path)), bodies=False)
    assert (outcome.written, outcome.left, archive.entries(BROKER)) == (0, 4, [])
    assert kept(archive, path) == 4


def test_a_segment_that_goes_while_it_is_read_leaves_nothing(archive: Archive, path: Path) -> None:
    with Calls(write_columns, before=lambda _: segment(path, 0).unlink(missing_ok=True)):
        assert kept(archive, path) == 3
    assert [entry.start for entry in archive.entries(BROKER)] == [SIZE, 2 * SIZE, 3 * SIZE]
    assert not list(archive.directory(BROKER).glob(".*"))


def test_it_can_be_stopped_and_goes_on(archive: Archive, path: Path) -> None:
    said: list[Path] = []
    with pytest.raises(ScanEnded):
        archive_log(archive, Log(BROKER, str(path)), bodies=False, is_wanted=lambda: len(said) < 2, tell=said.append)
    assert len(said) == 2 and not list(archive.directory(BROKER).glob(".*"))
    (archive.directory(BROKER) / ".left-by-a-kill").write_bytes(b"x")
    assert kept(archive, path) == 2
    assert not list(archive.directory(BROKER).glob(".*"))


def test_one_process_writes_at_a_time(archive: Archive) -> None:
    with archive.locked(), pytest.raises(ArchiveBusy, match="wait until it is done"), archive.locked():
        pass
    with archive.locked():
        pass


def test_what_is_too_old_goes(archive: Archive, path: Path) -> None:
    kept(archive, path)
    entries = archive.entries(BROKER)
    assert archive.remove_older(entries[0].last_ms, {}) == 0
    # what the log still has would only be archived again
    assert archive.remove_older(entries[1].last_ms + 1, {BROKER: [(0, SIZE), (0, 1)]}) == 1
    assert archive.entries(BROKER) == [entries[0], *entries[2:]]
    assert archive.remove_older(entries[1].last_ms + 1, {"other": [(0, SIZE)]}) == 1
    assert archive.entries(BROKER) == entries[2:]


def test_files_are_chosen_by_the_moments_in_their_names() -> None:
    entries = [Entry(n, n + 1, 100 * n, 100 * n + 50, "00000000", Path("x")) for n in range(3)]
    assert between(entries, None, None) == entries
    assert between(entries, 151, None) == entries[2:]
    assert between(entries, 150, 200) == entries[1:2]
    assert between(entries, None, 100) == entries[:1]


@pytest.mark.parametrize("name", ["broker-a", "..", ".", "", "a/b", "%41", "Bröker", ".hidden", "a b"])
def test_any_name_of_a_broker_has_a_directory_of_its_own(name: str, archive: Archive) -> None:
    directory = archive.directory(name)
    assert directory.parent == archive.root and directory != archive.root and not directory.name.startswith(".")
    assert broker_of(directory_name(name)) == name


def by_position(found: list[dict[str, Any]]) -> list[int]:
    return sorted(row["position"] for row in found)


def timers(log: RandomLog, how: str) -> tuple[Message, Message]:
    """Return a timer in the first four segments, and what ended it there."""
    there = {one.position: one for one in messages(log.segments) if one.position < 4 * SIZE}
    for one in there.values():
        named = one.properties.get(how)
        if named is not None and int(named) in there and there[int(named)].topic == "rmq_sys_wheel_timer":
            return there[int(named)], one
    raise AssertionError(f"no timer is named by {how}")


@pytest.mark.parametrize("how", ["ESC_SOURCE", "ESC_CANCELS", "ESC_REPLACES"])
def test_a_message_is_found_by_its_id_with_what_became_of_it(
    how: str, archive: Archive, path: Path, log: RandomLog
) -> None:
    kept(archive, path)
    timer, ended = timers(log, how)
    found = search(archive, Sought(timer.properties[UNIQUE_KEY])).records
    assert {timer.position, ended.position} <= set(by_position(found))
    assert found == sorted(found, key=lambda row: row["store_ms"])
    by_offset = search(archive, Sought(timer.offset_message_id)).records
    assert timer.position in by_position(by_offset)


def test_a_key_is_found_as_a_word_in_a_topic_and_between_moments(archive: Archive, path: Path, log: RandomLog) -> None:
    kept(archive, path)
    there = [one for one in messages(log.segments) if one.position < 4 * SIZE]
    have = [one for one in there if "order-1" in one.properties.get("KEYS", "").split(" ")]
    found = search(archive, Sought("order-1", count=1_000)).records
    assert set(by_position(found)) >= {one.position for one in have} and len(have) > 20
    assert search(archive, Sought("order")).records == []
    of_topic = search(archive, Sought("order-1", topic="seats", count=1_000)).records
    assert {row["shown"] for row in of_topic} == {"seats"}
    middle = have[len(have) // 2].store_ms
    late = search(archive, Sought("order-1", from_ms=middle, count=1_000)).records
    early = search(archive, Sought("order-1", to_ms=middle, count=1_000)).records
    assert min(row["store_ms"] for row in late) >= middle > max(row["store_ms"] for row in early)
    cut = search(archive, Sought("order-1", count=3))
    assert len(cut.records) == 3 and cut.is_cut


def test_contents_are_given_to_who_asks_for_them(archive: Archive, path: Path) -> None:
    kept(archive, path, bodies=True)
    (first, *_) = search(archive, Sought("order-1", with_content=True)).records
    assert first["body"] and dict(first["properties"])["UNIQ_KEY"] == first["unique_key"]


def test_a_file_that_cannot_be_read_is_named_and_the_others_are_searched(archive: Archive, path: Path) -> None:
    kept(archive, path)
    damaged = archive.entries(BROKER)[1].path
    damaged.write_bytes(damaged.read_bytes()[:-100])
    found = search(archive, Sought("order-1"))
    assert found.records and found.unreadable == [str(damaged)]


def told(order: dict[str, Any]) -> tuple[int, list[dict[str, Any]]]:
    done = subprocess.run(
        [sys.executable, "-m", "spark.archive"], input=json.dumps(order), capture_output=True, text=True, check=False
    )
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def test_its_process_keeps_lists_finds_and_checks(archive: Archive, path: Path) -> None:
    root = str(archive.root)
    logs = [{"broker": BROKER, "store": str(path), "levels": "", "broker_address": ""}, {"broker": "x", "store": "/no"}]
    keep = {"do": "keep", "root": root, "bodies": False, "keep_days": 0, "now_ms": START_MS, "logs": logs}
    code, lines = told(keep)
    assert code == 0 and len([line for line in lines if "written" in line]) == 4
    mine, other = lines[-1]["logs"]
    assert (mine["written"], mine["error"]) == (4, "") and "holds no commit log" in other["error"]
    ((listed,),) = [told({"do": "list", "root": root})[1]]
    (of_broker,) = listed["brokers"]
    assert (of_broker["segments"], of_broker["start"], of_broker["end"], of_broker["gaps"]) == (4, 0, 4 * SIZE, [])
    assert of_broker["records"] == len(rows_of(archive))
    find = {"do": "find", "root": root, "name": "order-1", "topic": "", "from_ms": None, "to_ms": None, "count": 5}
    code, (found,) = told({**find, "with_content": True})
    assert code == 0 and len(found["records"]) == 5 and found["is_cut"]
    assert told({**find, "name": ""}) == (1, [{"error": "Give a key, a message id or an offset id."}])
    damaged = archive.entries(BROKER)[0].path
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
    code, lines = told({"do": "check", "root": root})
    assert code == 0 and lines[-1] == {"checked": 4, "damaged": [str(damaged)]}
    far = archive.entries(BROKER)[-1].last_ms + 10 * 86_400_000
    assert told(keep | {"keep_days": 1, "now_ms": far})[1][-1]["removed"] == 0
    for number in range(4):
        segment(path, number).unlink()
    assert told(keep | {"keep_days": 1, "now_ms": far})[1][-1]["removed"] == 4


def test_sigterm_ends_it_between_two_rows(archive: Archive, path: Path) -> None:
    order = {"do": "keep", "root": str(archive.root), "bodies": False, "keep_days": 0, "now_ms": START_MS}
    order["logs"] = [{"broker": str(number), "store": str(path)} for number in range(40)]
    with subprocess.Popen(
        [sys.executable, "-m", "spark.archive"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(order))
        process.stdin.close()
        assert "written" in json.loads(process.stdout.readline())
        process.send_signal(signal.SIGTERM)
        *_, last = process.stdout.read().splitlines()
    assert process.returncode == 1 and json.loads(last) == {"error": "Somebody ended the archiving."}
    assert not list(archive.root.glob("*/.*"))
