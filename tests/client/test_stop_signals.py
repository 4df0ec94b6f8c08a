"""A signal ends the wait whichever thread the system gives it to."""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent

import pytest

#: The other thread takes the signal itself, once the main one is in `wait` and sleeps whenever it is looked at.
PROGRAM = """
import signal, sys, threading
from broker.client import StopSignals

def interrupt(number):
    main = threading.main_thread().ident
    while sys._current_frames()[main].f_code.co_name != "wait":
        continue
    asleep = 0
    while asleep < 1000:
        with open(f"/proc/self/task/{threading.main_thread().native_id}/stat") as stat:
            asleep = asleep + 1 if stat.read().rpartition(")")[2].split()[0] == "S" else 0
    signal.pthread_kill(threading.get_ident(), number)
    never.wait()

never = threading.Event()
with StopSignals() as stop:
    threading.Thread(target=interrupt, args=(int(sys.argv[1]),), daemon=True).start()
    print(stop.wait(), stop.is_set)
"""


@pytest.mark.parametrize("number", ["2", "15"])
def test_a_signal_that_another_thread_gets_ends_the_wait(number: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", dedent(PROGRAM), number], capture_output=True, text=True, timeout=20, check=False
    )
    assert (done.stdout, done.stderr, done.returncode) == ("True True\n", "", 0)


def test_it_is_asked_by_hand_and_gives_up_in_time() -> None:
    program = """
    from threading import Thread
    from broker.client import StopSignals

    with StopSignals() as stop:
        print(stop.wait(0.01))
        Thread(target=stop.set).start()
        print(stop.wait())
    stop.set()
    """
    done = subprocess.run(
        [sys.executable, "-c", dedent(program)], capture_output=True, text=True, timeout=20, check=False
    )
    assert (done.stdout, done.stderr) == ("False\nTrue\n", "")
