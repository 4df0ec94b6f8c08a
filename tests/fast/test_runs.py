"""The twins under the sanitizers, and tests of the engine and the server on top of them."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

from tests.house.sources import ROOT

SOURCES = sorted((ROOT / "broker" / "fast").glob("*.c"))
#: what is stored is held against what was sent, and both ways against each other
ON_TOP = (
    "tests/engine/test_sends_together.py", "tests/engine/test_halves_together.py",
    "tests/engine/test_batches.py", "tests/engine/test_encoded_batches.py", "tests/engine/test_index_hash.py",
    "tests/engine/test_facts.py", "tests/engine/test_timers.py", "tests/engine/test_timer_rolls.py",
    "tests/engine/test_timer_steering.py", "tests/engine/test_topic_deletion.py", "tests/server/test_one_read.py",
)  # fmt: skip


def passes(*tests: str, **env: str) -> None:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", *tests]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **env}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert " passed" in done.stdout


def gcc(*arguments: str | Path) -> str:
    done = subprocess.run(["gcc", *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_no_byte_outside_is_touched(tmp_path: Path):
    made = tmp_path / "escapement_mq_fast.abi3.so"
    headers = f"-I{sysconfig.get_path('include')}"
    checks = ("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-g", "-O1")
    gcc(
        "-std=c11",
        "-Wall",
        "-Wextra",
        "-Wno-unused-parameter",
        "-Werror",
        "-fPIC",
        "-shared",
        *checks,
        headers,
        *SOURCES,
        "-o",
        made,
    )
    loaded = gcc("-print-file-name=libasan.so")
    passes(
        "tests/fast/test_twins.py", "tests/fast/test_run_twins.py", LD_PRELOAD=loaded, ASAN_OPTIONS="detect_leaks=0",
        PYTHONMALLOC="malloc", PYTHONPATH=str(tmp_path),
    )  # fmt: skip


def test_the_engine_and_the_server_do_the_same_with_them():
    passes(*ON_TOP, ESCAPEMENT_FAST="1")
