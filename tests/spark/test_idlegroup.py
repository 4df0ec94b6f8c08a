"""Scans join a group that gives processors up at once, where this process may make one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from spark import priority
from spark.priority import FOLLOWER_NICENESS, GROUP_NICENESS

#: Says whether it could join, in which groups it is, and in which its children are.
LOOK = """
import json, pathlib, subprocess, sys
from spark import priority
joined = []
join, priority.join = priority.join, lambda: joined.append(join()) or joined[-1]
priority.give_way((), int(sys.argv[1]))
child = "print(open('/proc/self/cgroup').read())"
said = subprocess.run([sys.executable, "-c", child], capture_output=True, text=True, check=True).stdout
print(json.dumps([joined, pathlib.Path("/proc/self/cgroup").read_text().strip(), said.strip()]))
"""


def process(tmp_path: Path, groups: str, mounts: list[str]) -> Path:
    """What a kernel would tell about a process."""
    proc = tmp_path / "proc"
    proc.mkdir()
    (proc / "cgroup").write_text(groups)
    (proc / "mountinfo").write_text("".join(f"{line}\n" for line in mounts))
    return proc


def member(group: Path) -> int:
    assert (group / "cpu.idle").read_text() == "1"
    return int((group / "cgroup.procs").read_text())


def test_it_is_made_below_the_own_group_of_the_processors(tmp_path: Path) -> None:
    own = tmp_path / "cpu" / "ours"
    own.mkdir(parents=True)
    proc = process(
        tmp_path,
        "4:memory:/other\n3:cpu,cpuacct:/docker/ours\n0::/\n",
        [
            f"31 23 0:28 / {tmp_path} rw - tmpfs tmpfs rw",
            f"35 31 0:32 /docker {tmp_path}/memory rw - cgroup cgroup rw,memory",
            f"32 31 0:29 /docker {tmp_path}/cpu rw shared:7 - cgroup cgroup rw,cpu,cpuacct",
            f"41 31 0:38 / {tmp_path}/unified rw - cgroup2 cgroup2 rw",
        ],
    )
    assert priority.join(proc)
    assert member(own / priority.NAME) == os.getpid()
    assert not (own / priority.NAME / "cgroup.type").exists()


def test_in_version_2_it_is_a_threaded_one(tmp_path: Path) -> None:
    own = tmp_path / "ours"
    own.mkdir()
    proc = process(tmp_path, "0::/ours\n", [f"41 31 0:38 / {tmp_path} rw - cgroup2 cgroup2 rw"])
    assert priority.join(proc)
    assert (own / "cgroup.subtree_control").read_text() == "+cpu"
    assert (own / priority.NAME / "cgroup.type").read_text() == "threaded"
    assert member(own / priority.NAME) == os.getpid()


@pytest.mark.parametrize(
    ("groups", "mount"),
    [
        ("", "41 31 0:38 / {} rw - cgroup2 cgroup2 rw"),
        ("0::/ours\n", "31 23 0:28 / {} rw - tmpfs tmpfs rw"),
        ("0::/../ours\n", "41 31 0:38 / {}/ours rw - cgroup2 cgroup2 rw"),  # what another namespace owns
        ("0::/\n", "41 31 0:38 /docker {} rw - cgroup2 cgroup2 rw"),
        ("0::/nowhere\n", "41 31 0:38 / {} rw - cgroup2 cgroup2 rw"),
        ("nonsense\n", "nonsense"),
    ],
)
def test_without_one_that_can_be_had_nothing_happens(tmp_path: Path, groups: str, mount: str) -> None:
    (tmp_path / "ours").mkdir()
    assert not priority.join(process(tmp_path, groups, [mount.format(tmp_path)]))
    assert not list(tmp_path.rglob(priority.NAME))
    assert not priority.join(tmp_path / "no kernel that tells")


def test_a_group_that_cannot_be_idle_is_left_alone(tmp_path: Path) -> None:
    """A kernel before 5.15: nobody moves into a group with the share of any other."""
    proc = process(tmp_path, "3:cpu:/\n", [f"32 31 0:29 / {tmp_path} rw - cgroup cgroup rw,cpu"])
    group = tmp_path / priority.NAME
    (group / "cpu.idle").mkdir(parents=True)  # writing fails
    assert not priority.join(proc)
    assert not (group / "cgroup.procs").exists()


def test_who_is_in_it_stays(tmp_path: Path) -> None:
    mounts = [f"32 31 0:29 / {tmp_path} rw - cgroup cgroup rw,cpu"]
    assert priority.join(process(tmp_path, f"3:cpu:/{priority.NAME}\n", mounts))
    assert not list(tmp_path.rglob("cpu.idle"))


@pytest.mark.parametrize("niceness", [GROUP_NICENESS, FOLLOWER_NICENESS])
def test_a_scan_and_its_children_are_in_it_a_follower_is_not(niceness: int) -> None:
    done = subprocess.run([sys.executable, "-c", LOOK, str(niceness)], capture_output=True, text=True, check=True)
    joined, groups, childs = json.loads(done.stdout)
    assert len(joined) == (niceness == GROUP_NICENESS)  # a follower does not try
    assert groups == childs
    assert (f"/{priority.NAME}" in groups) is any(joined)
