"""`manage.py look_at_store`: what an operator sees before a store moves, and the exit code a script sees."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from broker.engine.disk import OsFiles
from broker.engine.testing import open_engine


def looked_at(root: Path) -> str:
    """Return what it prints; raises CommandError as it does."""
    out = StringIO()
    call_command("look_at_store", str(root), stdout=out)
    return out.getvalue()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store with three messages that was stopped."""
    driver = open_engine(OsFiles(), root=str(tmp_path))
    driver.engine.topics.ensure("orders", 1)
    for number in range(3):
        driver.send("orders", b"message %d" % number)
    driver.settle()
    driver.close()
    return tmp_path


def contents(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_what_is_there_is_counted_and_stays_as_it_is(root: Path) -> None:
    before = contents(root)
    said = looked_at(root)
    assert said.startswith("last written by Escapement, stopped cleanly\n")
    assert "\nmessages: 3\n" in said
    assert "mappedFileSizeCommitLog=4096" in said
    assert said.endswith("Escapement takes all of it\n")
    assert contents(root) == before


def test_what_stays_behind_is_exit_code_1(root: Path) -> None:
    (root / "config" / "consumerOrderInfo.json").write_text('{"table":{"t@g":{"0":{}}}}')
    with pytest.raises(CommandError, match="stays behind: config/consumerOrderInfo") as caught:
        looked_at(root)
    assert caught.value.returncode == 1


def test_what_is_refused_is_exit_code_2(root: Path) -> None:
    (root / "epochFileCheckpoint").write_text("1\n7-0\n")
    with pytest.raises(CommandError, match="epochFileCheckpoint") as caught:
        looked_at(root)
    assert caught.value.returncode == 2


def test_no_store_is_exit_code_2(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="not a store") as caught:
        looked_at(tmp_path)
    assert caught.value.returncode == 2
