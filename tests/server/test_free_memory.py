"""Memory that the broker's process has done with, and does not keep."""

from __future__ import annotations

import subprocess
import sys

from broker.server.listener import KEPT_BYTES

#: A large piece comes and goes, after which glibc would keep twice its size; then as much in pieces of 300 KB.
CHILD = """
from broker.server.listener import anonymous_bytes, limit_free_memory

limit_free_memory()
slots = bytearray(b"x") * (20 << 20)
del slots
before_bytes = anonymous_bytes()
runs = [bytearray(b"x") * 300_000 for _ in range(100)]
between_bytes = anonymous_bytes()
del runs
print(before_bytes, between_bytes, anonymous_bytes())
"""


def test_what_is_free_goes_back_to_the_operating_system() -> None:
    told = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, check=True).stdout
    before_bytes, between_bytes, after_bytes = map(int, told.split())
    assert between_bytes - before_bytes > 25 << 20
    assert after_bytes - before_bytes <= 2 * KEPT_BYTES
