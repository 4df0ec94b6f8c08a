"""Where a scan keeps its columns: in memory where there is plenty, on a disk else."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from spark.order import scratch_for
from tests.spark.logs import log_of

Write = Callable[[dict[int, bytes]], Path]
SMALL = log_of({"body": b"one"}, size=4096)


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    """What stands for a file system in memory."""
    directory = tmp_path / "shm"
    directory.mkdir()
    return directory


def test_a_small_log_is_kept_in_memory_by_nobody_else(store: Write, tmp_path: Path, memory: Path) -> None:
    for _ in range(2):
        found = scratch_for([str(store({0: SMALL}))], "", str(tmp_path / "disk"), memory)
        assert found == memory / f"escapement-{os.getuid()}"
        assert found.stat().st_mode & 0o777 == 0o700


def test_a_log_that_is_large_beside_memory_is_not(store: Write, tmp_path: Path, memory: Path) -> None:
    path = store({0: SMALL})
    os.truncate(path / "commitlog" / f"{0:020d}", 1 << 43)
    assert scratch_for([str(path)], "", str(tmp_path / "disk"), memory) == tmp_path / "disk"


def test_what_was_asked_for_counts(store: Write, tmp_path: Path, memory: Path) -> None:
    assert scratch_for([str(store({0: SMALL}))], str(tmp_path / "wanted"), str(tmp_path / "disk"), memory) == (
        tmp_path / "wanted"
    )


def test_a_directory_that_others_may_enter_is_not_used(store: Write, tmp_path: Path, memory: Path) -> None:
    path, own = str(store({0: SMALL})), memory / f"escapement-{os.getuid()}"
    own.mkdir()
    own.chmod(0o755)  # whatever the umask is
    assert scratch_for([path], "", str(tmp_path / "disk"), memory) == tmp_path / "disk"
    own.rmdir()
    own.symlink_to(tmp_path)
    assert scratch_for([path], "", str(tmp_path / "disk"), memory) == tmp_path / "disk"


def test_without_such_a_file_system_and_without_a_store_it_is_the_disk(store: Write, tmp_path: Path) -> None:
    assert scratch_for([str(store({0: SMALL}))], "", str(tmp_path / "disk"), tmp_path / "none") == tmp_path / "disk"
    assert scratch_for([str(tmp_path / "no store")], "", str(tmp_path / "disk")) == tmp_path / "disk"


def test_what_killed_runs_left_is_removed_from_both(store: Write, tmp_path: Path, memory: Path) -> None:
    own, disk = memory / f"escapement-{os.getuid()}", tmp_path / "disk"
    own.mkdir(mode=0o700)
    for place in (own, disk):
        (place / "scan-99999999").mkdir(parents=True)
        (place / f"scan-{os.getpid()}").mkdir()
        (place / "kept").mkdir()
    scratch_for([str(store({0: SMALL}))], "", str(disk), memory)
    assert [sorted(each.name for each in place.iterdir()) for place in (own, disk)] == [["kept"], ["kept"]]
