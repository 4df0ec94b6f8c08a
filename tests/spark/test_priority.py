"""Scans run when nobody else wants to."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from spark.priority import NICENESS

LOOK = """
import json, os, subprocess, sys, threading
from spark.priority import give_way
give_way(is_patient={patient})
found = []
thread = threading.Thread(target=lambda: found.append(os.sched_getscheduler(0)))
thread.start(); thread.join()
child = subprocess.run([sys.executable, "-c", "import os; print(os.sched_getscheduler(0), os.nice(0))"],
                       capture_output=True, text=True, check=True)
print(json.dumps([os.nice(0), found[0], child.stdout.split()]))
"""


@pytest.mark.parametrize("is_patient", [True, False])
def test_a_process_and_all_that_it_starts_give_way(is_patient: bool) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOOK.format(patient=is_patient)], capture_output=True, text=True, check=True
    )
    niceness, policy, (its_policy, its_niceness) = json.loads(done.stdout)
    assert NICENESS <= niceness == int(its_niceness)
    assert policy == int(its_policy) == (5 if is_patient else 0)  # SCHED_IDLE, SCHED_OTHER of Linux
