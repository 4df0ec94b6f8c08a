"""Systems that lack calls of Linux: a store is written and read there as here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from broker.engine.disk import OsFiles
from broker.engine.errors import StoreLocked
from tests.house.sources import ROOT

NO_FORK = """
import os, sys
del os.register_at_fork, os.fork
import {module}
"""


@pytest.mark.parametrize("module", ["broker.client", "broker.rocketmq.ids"])
def test_the_client_loads_where_there_is_no_fork(module: str) -> None:
    done = subprocess.run([sys.executable, "-c", NO_FORK.format(module=module)], cwd=ROOT, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()


def test_files_are_written_without_the_calls_that_only_linux_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("fdatasync", "posix_fallocate", "posix_fadvise"):
        monkeypatch.delattr(os, name)
    file = OsFiles().open(str(tmp_path / "segment"), create=True)
    file.write(b"kept", 0)
    file.allocate(3 << 20)
    file.write(b"here", 2 << 20)
    file.sync()
    file.drop_cache()
    assert (file.size(), file.read(6, 0), file.read(4, 2 << 20)) == (3 << 20, b"kept\0\0", b"here")
    file.allocate(1 << 20)
    assert file.size() == 3 << 20, "what is there already is not cut"
    file.close()


def test_one_writer_also_where_there_are_no_locks_of_linux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.engine.disk._IS_LINUX", False)
    held = OsFiles().lock(str(tmp_path / "lock"))
    with pytest.raises(StoreLocked):
        OsFiles().lock(str(tmp_path / "lock"))
    held.close()
    OsFiles().lock(str(tmp_path / "lock")).close()
