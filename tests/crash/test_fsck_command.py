"""`manage.py fsck`: what an operator sees, and the exit code a script sees."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from broker.engine.disk import OsFiles
from broker.engine.testing import Driver, open_engine


def running_store(root: Path) -> Driver:
    """A store with three messages that a broker has open."""
    driver = open_engine(OsFiles(), root=str(root))
    driver.engine.topics.ensure("orders", 1)
    for number in range(3):
        driver.send("orders", b"message %d" % number, KEYS=f"k{number}")
    return driver


def fsck(root: Path) -> str:
    """Return what it prints; raises CommandError as it does."""
    out = StringIO()
    call_command("fsck", str(root), stdout=out)
    return out.getvalue()


def contents(root: Path) -> dict[Path, bytes]:
    """Every file of a store."""
    return {path: path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def test_a_store_in_use_is_checked_without_disturbing_it(tmp_path):
    driver = running_store(tmp_path)
    before = contents(tmp_path)
    said = fsck(tmp_path)
    assert "records: 3" in said
    assert said.endswith("sound\n")
    assert "not finished" in said, "its queues are still to be written"
    assert contents(tmp_path) == before
    driver.send("orders", b"and on")
    driver.close()
    assert "not finished" not in fsck(tmp_path)


def test_damage_is_listed_and_the_exit_code_is_1(tmp_path):
    driver = running_store(tmp_path)
    middle = driver.engine.entries("orders", 0, 1, 1)[0]
    driver.close()
    segment = tmp_path / "commitlog" / "00000000000000000000"
    content = bytearray(segment.read_bytes())
    content[middle.position + 100] ^= 4
    segment.write_bytes(content)
    out = StringIO()
    with pytest.raises(CommandError, match="damaged") as caught:
        call_command("fsck", str(tmp_path), stdout=out)
    assert caught.value.returncode == 1
    assert f"damaged: {segment} {middle.position}..{middle.position + middle.size}" in out.getvalue()


def test_a_folder_that_is_no_store_is_said_to_be_none(tmp_path):
    with pytest.raises(CommandError, match="not a store") as caught:
        fsck(tmp_path)
    assert caught.value.returncode == 2
