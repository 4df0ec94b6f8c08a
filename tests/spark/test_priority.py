"""Scans run when nobody else wants to."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from spark.priority import NICENESS

LOOK = """
import json, os, subprocess, sys, threading
from spark.priority import give_way
give_way()
found = []
thread = threading.Thread(target=lambda: found.append(os.sched_getscheduler(0)))
thread.start(); thread.join()
child = subprocess.run([sys.executable, "-c", "import os; print(os.sched_getscheduler(0), os.nice(0))"],
                       capture_output=True, text=True, check=True)
print(json.dumps([os.nice(0), found[0], child.stdout.split()]))
"""


def test_a_process_and_all_that_it_starts_give_way() -> None:
    done = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True, check=True)
    niceness, policy, (its_policy, its_niceness) = json.loads(done.stdout)
    assert NICENESS <= niceness == int(its_niceness)
    assert policy == int(its_policy) == os.SCHED_OTHER  # who is idle only holds others up with what it has locked
