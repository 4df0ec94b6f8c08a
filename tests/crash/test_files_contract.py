"""The real file seam, the simulated one and the one of tests keep the same contract."""

from __future__ import annotations

import pytest

from broker.engine.disk import Files, OsFiles, join
from broker.engine.errors import StoreLocked
from broker.engine.testing import SimulatedFiles
from broker.testing.memory import MemoryFiles

KINDS = {"os": OsFiles, "simulated": SimulatedFiles, "memory": MemoryFiles}


@pytest.fixture(params=KINDS)
def disk(request, tmp_path) -> tuple[Files, str]:
    """A file system and an existing folder on it."""
    files: Files = KINDS[request.param]()
    root = str(tmp_path / "store") if request.param == "os" else "/store"
    files.make_directory(root)
    return files, root


def test_written_bytes_are_read_back_at_their_address(disk):
    files, root = disk
    file = files.open(join(root, "a"), create=True)
    file.write(b"hello", 10)
    file.write_many([b"ab", b"cd"], 20)
    assert file.size() == 24
    assert file.read(5, 10) == b"hello"
    assert file.read(10, 0) == bytes(10)
    assert file.read(100, 20) == b"abcd"
    assert file.read(4, 24) == b""
    file.write(memoryview(b"HE"), 10)
    file.write(bytearray(b"O"), 14)
    assert file.read(5, 10) == b"HEllO"


def test_a_file_can_be_allocated_and_cut(disk):
    files, root = disk
    file = files.open(join(root, "a"), create=True)
    file.write(b"xyz", 0)
    file.allocate(1000)
    assert file.size() == 1000
    assert file.read(5, 0) == b"xyz\0\0"
    file.truncate(2)
    file.truncate(4)
    assert file.read(10, 0) == b"xy\0\0"
    file.allocate(1)
    assert file.size() == 4


def test_opening_what_is_not_there_is_refused_unless_it_may_be_created(disk):
    files, root = disk
    with pytest.raises(FileNotFoundError):
        files.open(join(root, "a"))
    files.open(join(root, "a"), create=True).close()
    assert files.open(join(root, "a")).size() == 0
    with pytest.raises(FileNotFoundError):
        files.open(join(root, "no", "a"), create=True)


def test_two_handles_see_one_file(disk):
    files, root = disk
    first, second = files.open(join(root, "a"), create=True), files.open(join(root, "a"))
    first.write(b"one", 0)
    assert second.read(3, 0) == b"one"


def test_names_are_listed_sorted_and_only_of_this_folder(disk):
    files, root = disk
    for name in ("b", "a", "c"):
        files.open(join(root, name), create=True).close()
    files.make_directory(join(root, "sub", "deep"))
    assert files.list(root) == ["a", "b", "c", "sub"]
    assert files.list(join(root, "nowhere")) == []
    assert files.list(join(root, "a")) == []
    assert files.exists(join(root, "sub", "deep"))
    assert not files.exists(join(root, "nowhere"))


def test_renaming_replaces_the_target_and_keeps_open_handles(disk):
    files, root = disk
    new, old = files.open(join(root, "new"), create=True), files.open(join(root, "old"), create=True)
    new.write(b"new", 0)
    old.write(b"old", 0)
    files.rename(join(root, "new"), join(root, "old"))
    assert files.list(root) == ["old"]
    assert files.open(join(root, "old")).read(3, 0) == b"new"
    assert old.read(3, 0) == b"old"
    with pytest.raises(FileNotFoundError):
        files.rename(join(root, "new"), join(root, "old"))


def test_removing_leaves_open_handles_alive_and_may_be_repeated(disk):
    files, root = disk
    file = files.open(join(root, "a"), create=True)
    file.write(b"still here", 0)
    files.remove(join(root, "a"))
    files.remove(join(root, "a"))
    assert not files.exists(join(root, "a"))
    assert file.read(5, 0) == b"still"


def test_a_folder_is_removed_with_all_that_is_in_it(disk):
    files, root = disk
    files.make_directory(join(root, "queue", "0"))
    files.open(join(root, "queue", "0", "a"), create=True).close()
    files.remove_directory(join(root, "queue"))
    files.remove_directory(join(root, "queue"))
    assert files.list(root) == []
    files.make_directory(join(root, "queue"))
    assert files.list(join(root, "queue")) == []


def test_a_closed_file_takes_nothing_and_closing_twice_is_fine(disk):
    files, root = disk
    file = files.open(join(root, "a"), create=True)
    file.close()
    file.close()
    with pytest.raises(OSError):
        file.write(b"x", 0)
    with pytest.raises(OSError):
        file.read(1, 0)


def test_only_one_writer_gets_the_lock(disk):
    files, root = disk
    held = files.lock(join(root, "lock"))
    files.open(join(root, "lock")).close()
    with pytest.raises(StoreLocked):
        files.lock(join(root, "lock"))
    held.close()
    again = files.lock(join(root, "lock"))
    assert again.read(4, 0) == b"lock"
    again.close()


def test_syncing_and_measuring_work(disk):
    files, root = disk
    file = files.open(join(root, "a"), create=True)
    file.write(b"x", 0)
    file.sync()
    file.drop_cache()
    files.sync_directory(root)
    assert file.read(1, 0) == b"x"
    assert 0 <= files.used_ratio(root) <= 1
    with pytest.raises(FileNotFoundError):
        files.sync_directory(join(root, "nowhere"))
