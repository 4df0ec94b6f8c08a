"""A store that is to move is looked at as a broker would open it, and not a byte of it changes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.engine.disk import File, OsFiles
from broker.engine.fsck.survey import Survey, sizes_of, survey, way_back
from broker.engine.fsck.unwritten import UnwrittenFiles
from broker.engine.tables.topics import Topic
from broker.engine.testing.disk import SimulatedFiles
from broker.engine.testing.driver import START_MS, TINY, open_engine
from broker.rocketmq.topics import REVIVE_PREFIX

FIXTURES = Path(__file__).parents[1] / "data" / "rocketmq-5.5.0"
#: Long before any timer of the fixtures is due: what waits there waits.
BEFORE_MS = 1_700_000_000_000
SIZES = {
    "segment_size_bytes": TINY.segment_size_bytes,
    "queue_file_entries": TINY.queue_file_entries,
    "index_slots": TINY.index_slots,
    "index_entries": TINY.index_entries,
}


def of_apache(name: str, target: Path) -> Path:
    shutil.unpack_archive(FIXTURES / name / "store.tar.xz", target)
    return target / "store"


def contents(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


def looked_at(name: str, target: Path) -> Survey:
    """The survey of a store of Apache RocketMQ, which is the same afterwards."""
    root = of_apache(name, target)
    before = contents(root)
    look = survey(OsFiles(), str(root), BEFORE_MS)
    assert contents(root) == before
    assert look.writer == "Apache RocketMQ"
    assert (look.refused, look.lost) == ([], [])
    return look


def ours() -> SimulatedFiles:
    """A store of ours with three messages, one of each kind that waits, and an offset; stopped."""
    files = SimulatedFiles()
    driver = open_engine(files)
    driver.engine.topics.put(Topic("orders", 1, 1))
    for number in range(3):
        driver.send("orders", b"%d" % number, KEYS=f"k{number}")
    driver.send("orders", b"delayed", DELAY="3")
    driver.send("orders", b"timer", TIMER_DELIVER_MS=str(START_MS + 3_600_000), UNIQ_KEY="U1")
    driver.engine.offsets.commit("billing", "orders", 0, 2)
    driver.settle()
    driver.close()
    return files


def test_messages_and_sizes_of_apache_are_found(tmp_path: Path) -> None:
    look = looked_at("plain", tmp_path)
    manifest = json.loads((FIXTURES / "plain" / "manifest.json").read_text())
    assert look.was_stopped
    assert look.counts["messages"] >= len(manifest["sent"])
    assert look.sizes == {
        "segment_size_bytes": 16_384, "queue_file_entries": 10, "index_slots": 50, "index_entries": 100,
    }  # fmt: skip
    assert look.broker_conf() == {
        "mappedFileSizeCommitLog": 16_384, "mappedFileSizeConsumeQueue": 200, "maxHashSlotNum": 50, "maxIndexNum": 100,
    }  # fmt: skip


def test_what_waits_in_stores_of_apache_is_counted(tmp_path: Path) -> None:
    assert looked_at("timers", tmp_path / "timers").counts["timers waiting"] == 12
    halves = looked_at("transactions", tmp_path / "halves").counts
    assert (halves["half messages open"], halves["half messages parked"]) == (2, 3)
    killed = looked_at("crash", tmp_path / "killed")
    assert killed.counts["waiting in delay level 3"] == 29
    assert not killed.was_stopped


def test_a_store_of_ours_is_looked_at_without_its_lock() -> None:
    files = ours()
    before = files.contents()
    look = survey(files, "/store", START_MS)
    assert files.contents() == before
    assert look.writer == "Escapement"
    assert look.sizes == SIZES
    assert look.counts["messages"] == 3
    assert look.counts["waiting in delay level 3"] == look.counts["timers waiting"] == 1
    assert look.counts["consumer offsets"] == 1
    assert any("full second" in said for said in way_back(look, files, "/store"))


def test_what_is_refused_is_said_and_nothing_counted() -> None:
    files = ours()
    files.make_directory("/store/kvStore")
    files.open("/store/kvStore/CURRENT", create=True).close()
    look = survey(files, "/store", START_MS)
    assert "RocksDB: kvStore" in look.refused[0]
    assert look.counts == {}


def test_where_no_store_is_none_is_found() -> None:
    with pytest.raises(FileNotFoundError):
        survey(SimulatedFiles(), "/store", START_MS)
    assert sizes_of(SimulatedFiles(), "/store") == {}


def test_check_points_of_pop_stay_behind() -> None:
    files = SimulatedFiles()
    driver = open_engine(files)
    topic = f"{REVIVE_PREFIX}DefaultCluster"
    driver.engine.topics.ensure(topic, 1)
    driver.send(topic, b"{}", TIMER_DELIVER_MS=str(START_MS + 60_000), UNIQ_KEY="U1")
    driver.settle()
    driver.close()
    assert "1 check points and acknowledgements of POP" in survey(files, "/store", START_MS).lost[0]


def test_users_and_offsets_in_order_of_apache_stay_behind(tmp_path: Path) -> None:
    root = of_apache("plain", tmp_path)
    (root / "config" / "users").mkdir()
    (root / "config" / "users" / "CURRENT").write_bytes(b"MANIFEST-000005\n")
    (root / "config" / "consumerOrderInfo.json").write_text('{"table":{"t@g":{"0":{}}}}')
    lost = " ".join(survey(OsFiles(), str(root), BEFORE_MS).lost)
    assert "config/users" in lost
    assert "consumerOrderInfo.json" in lost


# Files whose writes stay in memory, against the simulated ones that take them.

PATHS = st.sampled_from(["/store/a", "/store/b", "/store/inner/c"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), PATHS, st.integers(0, 9_000), st.binary(min_size=1, max_size=5_000)),
        st.tuples(st.just("truncate"), PATHS, st.integers(0, 12_000), st.just(b"")),
        st.tuples(st.just("allocate"), PATHS, st.integers(1, 12_000), st.just(b"")),
        st.tuples(st.just("remove"), PATHS, st.just(0), st.just(b"")),
        st.tuples(st.just("rename"), PATHS, st.just(0), st.just(b"")),
        st.tuples(st.just("remove_directory"), PATHS, st.just(0), st.just(b"")),
    ),
    max_size=12,
)


def small_store() -> SimulatedFiles:
    files = SimulatedFiles()
    files.make_directory("/store/inner")
    for number, path in enumerate(["/store/a", "/store/inner/c"]):
        file = files.open(path, create=True)
        file.write(bytes([number + 1]) * 6_000, 0)
        file.close()
    return files


def act(files: SimulatedFiles | UnwrittenFiles, step: tuple[str, str, int, bytes]) -> None:
    what, path, number, data = step
    if what == "remove":
        files.remove(path)
    elif what == "rename":
        if files.exists(path):
            files.rename(path, "/store/renamed")
    elif what == "remove_directory":
        files.remove_directory("/store/inner")
        files.make_directory("/store/inner")
    else:
        file = files.open(path, create=True)
        change(file, what, number, data)
        file.close()


def change(file: File, what: str, number: int, data: bytes) -> None:
    if what == "write":
        file.write(data, number)
    elif what == "truncate":
        file.truncate(number)
    else:
        file.allocate(max(number, file.size()))


def seen(files: SimulatedFiles | UnwrittenFiles) -> dict[str, bytes]:
    paths = [f"/store/{name}" for name in files.list("/store") if name != "inner"]
    paths += [f"/store/inner/{name}" for name in files.list("/store/inner")]
    found = {}
    for path in paths:
        file = files.open(path)
        found[path] = file.read(file.size(), 0)
        assert file.read(3_000, 2_500) == found[path][2_500:5_500]
        file.close()
    return found


@given(STEPS)
def test_what_is_unwritten_reads_as_if_it_were_written(steps: list[tuple[str, str, int, bytes]]) -> None:
    below, written = small_store(), small_store()
    before = below.contents()
    unwritten = UnwrittenFiles(below)
    for step in steps:
        act(written, step)
        act(unwritten, step)
        assert seen(unwritten) == seen(written)
    assert below.contents() == before
