"""Scans run when nobody else wants to."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from spark.priority import AUTOGROUP, FOLLOWER_NICENESS, GROUP_NICENESS, NICENESS, available, chosen

LOOK = """
import json, os, subprocess, sys, threading
from spark.priority import give_way
give_way(json.loads(sys.argv[1]))
found = []
thread = threading.Thread(target=lambda: found.append(os.sched_getscheduler(0)))
thread.start(); thread.join()
child = "import json, os; print(json.dumps([os.sched_getscheduler(0), os.nice(0), sorted(os.sched_getaffinity(0))]))"
said = subprocess.run([sys.executable, "-c", child], capture_output=True, text=True, check=True)
print(json.dumps([os.nice(0), found[0], os.getsid(0) == os.getpid(), json.loads(said.stdout)]))
"""
#: The parent says who its child is and waits; the child holds the parent's output open as long as it lives.
ABANDON = """
import subprocess, sys
child = "from spark.priority import give_way; give_way(); print('up', flush=True); import signal; signal.pause()"
subprocess.Popen([sys.executable, "-c", child]).wait()
"""


def test_a_process_and_all_that_it_starts_give_way() -> None:
    cores = chosen(available(), 1, 0)
    done = subprocess.run([sys.executable, "-c", LOOK, json.dumps(cores)], capture_output=True, text=True, check=True)
    niceness, policy, leads_session, (its_policy, its_niceness, its_cores) = json.loads(done.stdout)
    assert NICENESS <= niceness == its_niceness
    assert policy == its_policy == os.SCHED_OTHER  # who is idle only holds others up with what it has locked
    assert leads_session
    assert its_cores == cores


@pytest.mark.parametrize("niceness", [GROUP_NICENESS, FOLLOWER_NICENESS])
def test_its_session_gives_way_to_other_sessions(tmp_path: Path, niceness: int) -> None:
    look = (
        "import spark.priority as p, pathlib, sys; p.AUTOGROUP = pathlib.Path(sys.argv[1]);"
        " p.give_way((), int(sys.argv[2])); print(p.AUTOGROUP.read_text())"
    )
    places = [str(tmp_path / "autogroup"), *([str(AUTOGROUP)] if AUTOGROUP.exists() else [])]
    for place in places:
        command = [sys.executable, "-c", look, place, str(niceness)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout.split()[-1] == str(niceness)


def test_a_scan_ends_with_whoever_started_it() -> None:
    parent = subprocess.Popen([sys.executable, "-c", ABANDON], stdout=subprocess.PIPE)
    assert parent.stdout is not None and parent.stdout.readline() == b"up\n"
    parent.send_signal(signal.SIGKILL)
    assert parent.stdout.read() == b""  # the end comes when the child is gone too
    parent.wait()
    parent.stdout.close()


@pytest.mark.parametrize(
    ("there", "wanted", "spared", "expected"),
    [
        (2, 0, 1, [1]),
        (2, 0, 0, [0, 1]),
        (1, 0, 1, [0]),
        (4, 0, 1, [1, 2, 3]),
        (32, 0, 1, [28, 29, 30, 31]),
        (32, 6, 1, [26, 27, 28, 29, 30, 31]),
        (2, 1, 1, [1]),
        (2, 2, 1, [0, 1]),
        (2, 8, 1, [0, 1]),
    ],
)
def test_how_many_processors_a_scan_takes(there: int, wanted: int, spared: int, expected: list[int]) -> None:
    assert chosen(range(there), wanted, spared) == expected


@pytest.mark.parametrize(
    ("given", "spared"), [("order, p.GROUP_NICENESS", 1), ("order, p.FOLLOWER_NICENESS", 0)], ids=["scan", "follower"]
)
def test_a_scan_leaves_a_processor_alone_and_what_follows_the_log_does_not(
    tmp_path: Path, given: str, spared: int
) -> None:
    look = (
        "import spark.priority as p, sys; from spark.order import Order, settled; "
        "order = Order(sys.argv[1], '', '', {}, 0, scratch=sys.argv[2]); "
        f"print(settled({given}).cores)"
    )
    command = [sys.executable, "-c", look, str(tmp_path), str(tmp_path / "scratch")]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert int(said) == len(chosen(available(), 0, spared))
