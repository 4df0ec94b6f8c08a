"""Memory as that of a server is that has run for a day: hardly any of it is free, the rest holds pages of files."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

#: Less than what Linux leaves alone when it tells a host of free pages: 64 MB above where it begins to reclaim some.
_LEFT_BYTES = 128 << 20
_CHUNK_BYTES = 1 << 20


def fill(directory: Path) -> None:
    """Read a file of zeros in this directory, made longer each time, into the memory that is free.

    A virtual machine asks its host for a page that is free when it is used, which takes up to 10 us, and may give it
    back seconds after it became free. Stores are pages, so measurements would be about that. Pages of a file that is
    only read are given to the next who needs some, without asking anybody. The file takes no disk. What nobody has
    read for a minute may be driven out, so this is to be done anew before each round of a long measurement.
    """
    rows = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    size = int(rows["MemFree"].split()[0]) * 1024 - _LEFT_BYTES
    if size <= 0:
        return
    begin_s = time.monotonic()
    chunk = bytearray(_CHUNK_BYTES)
    with (directory / "zeros").open("a+b") as file:
        end = file.seek(0, os.SEEK_END)
        file.truncate(end + size)
        for at in range(end, end + size, _CHUNK_BYTES):
            os.preadv(file.fileno(), [chunk], at)
    print(f"  {size >> 20:,} MB of memory filled in {time.monotonic() - begin_s:.0f} s", file=sys.stderr)
