"""Each file of ours says its version, and what a newer version wrote is refused, or made anew where nothing is lost."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from broker.engine.testing import SimulatedFiles
from tests.house.sources import ROOT as CHECKOUT
from tests.upgrade.old_stores import ORDERS, unpacked
from tests.upgrade.test_old_stores import ROOT, delivered, opened

#: files that begin with a name and a number of two digits or one, and where that stands: they follow from the log
NUMBERED = {
    "escapement.checkpoint": (0, 64 << 10),
    "escapement.timers": (0,),
    "escapement.halves.": (0,),
    "escapement.pops.": (0,),
}
#: lines of JSON, of which unknown fields are passed by; nothing but the audit reads it
LINES = "config/escapement.administration"
MARK = re.compile(rb"ESC[A-Z]{3,4}0?1")


def own_files(disk: SimulatedFiles) -> dict[str, str]:
    """Return the paths of our own files in a store, with the name they have in the table."""
    paths = [path for path in disk.contents() if path.rpartition("/")[2].startswith("escapement")]
    return {path: re.sub(r"(?<=\.)\d$", "", path.removeprefix(f"{ROOT}/")) for path in paths}


def test_every_file_of_ours_says_its_version() -> None:
    disk = unpacked("0.2-backups", "stopped")
    driver, _ = opened("0.2-backups", "stopped", disk)
    driver.close()
    found = own_files(disk)
    assert set(found.values()) == {*NUMBERED, LINES}, "a new file of ours needs a version, and a row here"
    for path, name in found.items():
        marks = [disk.contents()[path][at : at + 8] for at in NUMBERED.get(name, ())]
        assert all(MARK.fullmatch(mark) for mark in marks if any(mark)), path


@pytest.mark.parametrize("name", NUMBERED)
def test_a_file_of_a_newer_version_that_follows_from_the_log_is_made_anew(name: str) -> None:
    disk = unpacked("0.2-backups", "stopped")
    (path,) = (path for path, said in own_files(disk).items() if said == name)
    content = bytearray(disk.contents()[path])
    for at in NUMBERED[name]:
        content[at + 7 : at + 8] = b"2"
    disk.load({path: bytes(content)})
    driver, told = opened("0.2-backups", "stopped", disk)
    assert sum(len(driver.bodies(ORDERS, queue)) for queue in range(2)) == 12
    assert driver.engine.transactions.summary()["open"] == len(told.open_halves)
    held = driver.engine.pops.table.queues.values()
    assert sum(len(queue.open_offsets()) for queue in held) == len(told.held)
    assert sorted(delivered(driver, told)) == sorted(each["body"] for each in told.waiting)


@pytest.fixture
def newer(tmp_path: Path) -> Path:
    """A store of which a newer version says that it cannot be read."""
    root = tmp_path / "store"
    for path, content in unpacked("0.2-backups", "stopped").contents().items():
        place = root / path.removeprefix(f"{ROOT}/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
    (root / "escapement.format").write_text("2\n")
    return root


@pytest.mark.parametrize("program", ["broker", "backup"])
def test_every_program_refuses_a_newer_store_and_says_what_to_do(newer: Path, tmp_path: Path, program: str) -> None:
    arguments = {"broker": ["--store", str(newer), "--port", "0", "--namesrv-port", "0", "--no-vip"],
                 "backup": [str(newer), "--to", str(tmp_path / "backup")]}[program]  # fmt: skip
    ended = subprocess.run(
        [sys.executable, "-m", "broker", program, *arguments], cwd=CHECKOUT, capture_output=True, text=True,
        check=False, timeout=60,
    )  # fmt: skip
    assert ended.returncode in (1, 2)
    said = " ".join(ended.stderr.split())
    assert "was written by a newer Escapement: escapement.format says '2', this version reads up to 1" in said
    assert "Start that version again; to go back to this one, restore a backup" in said
    assert "Traceback" not in said
