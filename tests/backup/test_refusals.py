"""What is no backup, is damaged, newer, or does not fit, is refused by what it is; nothing is made of it."""

from __future__ import annotations

import io
import json
import random
import tarfile

import pytest

from broker.backup.directory import manifest_in
from broker.backup.errors import BackupDamaged, BackupRefused
from broker.backup.manifest import Manifest, parse
from broker.backup.pipe import BackupPipe
from broker.backup.restoring import restore_directory, restore_stream
from broker.backup.taking import Origin, take
from broker.engine.errors import StoreUnsupported
from broker.engine.fsck.store import check_store
from broker.engine.testing import PowerLoss, SimulatedFiles, open_engine

from .history import History, check_equal
from .test_histories import back_up, silent


@pytest.fixture
def history() -> History:
    files = SimulatedFiles()
    history = History(7, files)
    history.run(60)
    history.send()
    return history


def streamed(history: History) -> tuple[bytes, Manifest]:
    files, out = history.files, io.BytesIO()
    pipe = BackupPipe(files, "/spool", out)
    manifest = take(files, Origin("/store", "broker-a", "test", silent, pause=lambda: None), pipe, history.clock.now_ms)
    pipe.close()
    return out.getvalue(), manifest


def test_a_stream_is_restored_as_a_directory_is(history: History) -> None:
    content, manifest = streamed(history)
    restore_stream(history.files, io.BytesIO(content), "/restored", told=silent)
    expected = history.expected(manifest.position)
    check_equal(history.files, "/restored", expected, history.clock.now_ms)
    unpacked = {}
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        for member in tar:
            file = tar.extractfile(member)
            assert file is not None
            unpacked[f"/unpacked/{member.name}"] = file.read()
    history.files.load(unpacked)  # type: ignore[attr-defined]  # the simulated disk has it
    restore_directory(history.files, "/unpacked", "/of-directory", told=silent)
    check_equal(history.files, "/of-directory", expected, history.clock.now_ms)


def test_a_stream_that_ends_early_is_refused_and_opened_by_nobody(history: History) -> None:
    content, _ = streamed(history)
    whole = content.rstrip(b"\0")
    for end in random.Random(1).sample(range(len(whole) - 1), 40):
        disk = SimulatedFiles()
        with pytest.raises(BackupRefused):
            restore_stream(disk, io.BytesIO(content[:end]), "/restored", told=silent)
        with pytest.raises(StoreUnsupported):
            open_engine(disk, root="/restored")


def test_any_bit_that_flips_in_a_backup_is_noticed(history: History) -> None:
    files = history.files
    assert isinstance(files, SimulatedFiles)
    manifest = back_up(files, history.clock.now_ms)
    expected = history.expected(manifest.position)
    draws = random.Random(2)
    paths = [f"/backup/{part.stored_as}" for part in manifest.parts] + ["/backup/manifest.json"]
    noticed = 0
    for path in [draws.choice([path for path in paths if files.contents()[path]]) for _ in range(60)]:
        disk = files.crash(PowerLoss("kill"))
        disk.flip(path, draws.randrange(8 * len(disk.contents()[path])))
        try:
            restore_directory(disk, "/backup", "/restored", told=silent)
        except BackupRefused:
            noticed += 1
            continue
        check_equal(disk, "/restored", expected, history.clock.now_ms)
    assert noticed > 50


def test_a_part_that_is_missing_is_named(history: History) -> None:
    manifest = back_up(history.files, history.clock.now_ms)
    history.files.remove(f"/backup/{manifest.parts[0].stored_as}")
    with pytest.raises(BackupDamaged, match=manifest.parts[0].stored_as):
        restore_directory(history.files, "/backup", "/restored", told=silent)


def test_a_directory_that_is_not_empty_is_left_as_it_is(history: History) -> None:
    back_up(history.files, history.clock.now_ms)
    history.files.make_directory("/restored")
    history.files.open("/restored/mine", create=True).close()
    with pytest.raises(BackupRefused, match="not empty"):
        restore_directory(history.files, "/backup", "/restored", told=silent)
    assert history.files.list("/restored") == ["mine"]
    with pytest.raises(BackupRefused, match="not empty"):
        restore_directory(history.files, "/backup", "/store", told=silent)


def test_a_directory_with_something_else_takes_no_backup(history: History) -> None:
    history.files.make_directory("/backup")
    history.files.open("/backup/mine", create=True).close()
    with pytest.raises(BackupRefused, match="a directory of its own"):
        back_up(history.files, history.clock.now_ms)


def test_the_log_of_another_store_is_not_mixed_with_the_one_that_is_there(history: History) -> None:
    position = back_up(history.files, history.clock.now_ms).position
    other = History(8, history.files, root="/other")
    other.run(90)
    with pytest.raises(BackupRefused, match="not the one that is in /backup"):
        back_up(history.files, other.clock.now_ms, root="/other")
    assert manifest_in(history.files, "/backup").position == position
    restore_directory(history.files, "/backup", "/restored", told=silent)


def changed(manifest: Manifest, **values: object) -> bytes:
    value = json.loads(manifest.to_bytes())
    value.update(values)
    return json.dumps(value).encode()


def test_a_manifest_of_a_newer_program_is_refused_by_its_format(history: History) -> None:
    manifest = back_up(history.files, history.clock.now_ms)
    with pytest.raises(BackupRefused, match=r"newer Escapement \(9\.1\): its format is 2, this program reads up to 1"):
        parse(changed(manifest, format=2, program="9.1", meaning={"unknown": True}), "manifest.json")


@pytest.mark.parametrize("path", ["../outside", "/etc/passwd", "config/../../outside", "config//x", "."])
def test_a_manifest_leads_nowhere_but_into_the_store(history: History, path: str) -> None:
    manifest = back_up(history.files, history.clock.now_ms)
    part = next(part for part in manifest.parts if part.kind == "table")
    forged = manifest.with_parts([*manifest.parts, part.__class__(path, "table", 1, 1, part.sha256)])
    with pytest.raises(BackupDamaged):
        parse(forged.to_bytes(), "manifest.json")


@pytest.mark.parametrize("name", ["../outside", "commitlog/../outside", "objects/../../outside", "config/topics.json"])
def test_a_stream_leads_nowhere_but_into_the_store(name: str) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        member = tarfile.TarInfo(name)
        member.size = 3
        tar.addfile(member, io.BytesIO(b"bad"))
    disk = SimulatedFiles()
    with pytest.raises(BackupDamaged, match="no backup has such a file"):
        restore_stream(disk, io.BytesIO(out.getvalue()), "/restored", told=silent)
    assert not [path for path in disk.contents() if path not in ("/restored/lock", "/restored/escapement.restoring")]


def test_a_moment_that_the_backup_does_not_know_is_refused_before_anything_is_written(history: History) -> None:
    manifest = back_up(history.files, history.clock.now_ms)
    for moment_ms, why in ((manifest.taken_ms + 1, "later than the backup"), (manifest.first_ms, "before the first")):
        with pytest.raises(BackupRefused, match=why):
            restore_directory(history.files, "/backup", "/restored", until_ms=moment_ms, told=silent)
    assert history.files.list("/restored") == []


def test_topics_that_were_deleted_after_the_moment_are_back_with_their_messages(history: History) -> None:
    driver = history.driver
    driver.engine.topics.ensure("tolls", 3)
    driver.send("tolls", b"one", queue_id=2)
    driver.advance(1_000)
    until_ms = driver.clock.now_ms
    driver.send("tolls", b"two")
    driver.engine.delete_topic("tolls", "keep")
    driver.advance(10_000)
    driver.upkeep()
    back_up(history.files, driver.clock.now_ms)
    restored = restore_directory(history.files, "/backup", "/restored", until_ms=until_ms, told=silent)
    assert restored.cut is not None
    assert restored.cut.revived_topics == ["tolls"]
    again = open_engine(history.files, root="/restored", clock=driver.clock)
    assert (again.bodies("tolls", 2), again.bodies("tolls", 0)) == ([b"one"], [])


def test_of_a_topic_that_had_several_lives_the_one_of_the_moment_is_there(history: History) -> None:
    driver = history.driver
    for body in (b"first life", b"second life", b"third life"):
        driver.engine.topics.ensure("tolls", 1)
        driver.send("tolls", body)
        driver.advance(1_000)
        if body == b"second life":
            until_ms = driver.clock.now_ms
        driver.advance(1_000)
        if body != b"third life":
            driver.engine.delete_topic("tolls", "keep")
    driver.upkeep()
    back_up(history.files, driver.clock.now_ms)
    restored = restore_directory(history.files, "/backup", "/restored", until_ms=until_ms, told=silent)
    assert restored.cut is not None
    assert restored.cut.revived_topics == []
    again = open_engine(history.files, root="/restored", clock=driver.clock)
    assert again.bodies("tolls") == [b"second life"]
    again.close()
    assert check_store(history.files, "/restored").damages == []
