"""fsck finds exactly what is damaged, and changes nothing."""

from __future__ import annotations

import pytest

from broker.engine.fsck.store import check_store
from broker.engine.testing import PowerLoss, SimulatedFiles, open_engine
from broker.rocketmq.message import decode

from . import golden


@pytest.mark.parametrize("name", golden.folders())
def test_a_store_of_apache_rocketmq_is_found_sound_and_left_as_it_was(name):
    store = golden.load(name)
    disk = store.disk()
    report = check_store(disk, "/store")
    assert report.damages == []
    assert report.unfinished == []
    assert report.counts["records"] == report.counts["queue entries"] > 0
    assert disk.contents() == {path: store.files[path] for path in sorted(store.files)}


def test_a_flipped_bit_is_reported_as_exactly_the_record_it_is_in():
    store = golden.load("crc")
    entry = store.sent[20]
    position = golden.position_of(entry)
    path, at = f"/store/commitlog/{position - position % 16_384:020d}", position % 16_384
    size = int.from_bytes(store.files[path][at : at + 4], "big")
    # the name of the checksum property is all that no checksum covers
    uncovered = range(size - 20, size - 11)
    for bit in (bit for bit in range(8 * at, 8 * (at + size), 11) if bit // 8 - at not in uncovered):
        disk = store.disk()
        disk.flip(path, bit)
        report = check_store(disk, "/store")
        in_log = [damage for damage in report.damages if damage.path == path]
        assert [(damage.start, damage.end) for damage in in_log] == [(position, position + size)], bit
        assert report.counts["records"] == 64


def test_a_damaged_queue_entry_is_named_by_its_offset():
    store = golden.load("plain")
    path = "/store/consumequeue/GoldenOrdersA/1/00000000000000000000"
    for byte in range(20, 40):
        disk = store.disk()
        disk.flip(path, 8 * byte)
        damages = check_store(disk, "/store").damages
        assert (damages[0].path, damages[0].start) == ("/store/consumequeue/GoldenOrdersA/1", 1), byte


@pytest.mark.parametrize("byte", [40, 45, 300, 403, 410, 418])
def test_a_damaged_index_is_found(byte):
    store = golden.load("plain")
    path = next(path for path in store.files if path.startswith("/store/index/"))
    disk = store.disk()
    disk.flip(path, 8 * byte + 1)
    assert not check_store(disk, "/store").is_sound


def test_a_missing_queue_an_unreadable_table_and_a_missing_segment_are_found():
    store = golden.load("plain")
    for path, change in (
        ("/store/consumequeue/GoldenOrdersA/1/00000000000000000000", None),
        ("/store/commitlog/00000000000000016384", None),
        ("/store/config/topics.json", b"{"),
        ("/store/config/consumerOffset.json", b"\xff\xfe"),
    ):
        disk = store.disk()
        if change is None:
            disk.remove(path)
        else:
            disk.replace(path, change)
        assert not check_store(disk, "/store").is_sound, path


def test_a_cut_segment_loses_only_what_was_cut():
    store = golden.load("plain")
    path = "/store/commitlog/00000000000000016384"
    disk = store.disk()
    disk.replace(path, store.files[path][:9_000])
    report = check_store(disk, "/store")
    assert not report.is_sound
    lost = [entry for entry in store.sent if 16_384 + 9_000 <= golden.position_of(entry) < 32_768]
    assert 65 - len(lost) - 1 <= report.counts["records"] <= 65 - len(lost)


def test_what_a_killed_broker_left_unfinished_is_not_called_damage():
    store = golden.load("crash")
    disk = store.disk()
    last = max(golden.position_of(entry) for entry in store.sent)
    path, at = f"/store/commitlog/{last - last % 65_536:020d}", last % 65_536
    record = store.files[path][at:]
    message = decode(record[: int.from_bytes(record[:4], "big")])
    content = bytearray(store.files[path])
    end = at + message.size
    content[end : end + 90] = record[:90]
    disk.replace(path, bytes(content))
    report = check_store(disk, "/store")
    assert report.is_sound
    assert [(place.path, place.start) for place in report.unfinished] == [(path, last + message.size)]
    disk.remove("/store/abort")
    assert not check_store(disk, "/store").is_sound, "after a clean stop nothing may be left over"


def test_no_store_is_no_sound_store():
    disk = golden.load("plain").disk()
    with pytest.raises(FileNotFoundError):
        check_store(disk, "/elsewhere")


@pytest.mark.parametrize("made_again", [False, True])
@pytest.mark.parametrize("how", ["stopped", "killed", "index lost"])
def test_what_the_log_holds_of_a_deleted_topic_is_neither_damage_nor_unfinished(how: str, made_again: bool):
    files = SimulatedFiles()
    driver = open_engine(files)
    for topic in ("kept", "gone"):
        driver.engine.topics.ensure(topic, 1)
        for number in range(5):
            driver.send(topic, b"x", UNIQ_KEY=f"{topic}{number}", KEYS="k")
    driver.upkeep()
    driver.engine.delete_topic("gone")
    if made_again:
        driver.engine.topics.ensure("gone", 1)
        driver.send("gone", b"y", UNIQ_KEY="new", KEYS="k")
    if how == "stopped":
        driver.close()
    else:
        files = files.crash(PowerLoss("kill"))
        if how == "index lost":
            for path in [path for path in files.contents() if "checkpoint" in path]:
                files.remove(path)
        open_engine(files, clock=driver.clock).close()
    report = check_store(files, "/store")
    assert (report.damages, report.unfinished) == ([], [])
    assert report.counts["queue entries"] == report.counts["records"] - 5
