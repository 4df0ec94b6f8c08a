"""Records with what no broker of ours writes, but somebody may: rot, foreign tools, a producer's own properties."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from tests.spark.figures import records_of
from tests.spark.randomlog import RandomLog

_TEXTS = (
    None, "", " ", "  ", "'", '"', "a\0b", "x+y+K00000001", "+", "\\x31", "订单 🎈", "late", "mail", "%DLQ%", "\n", "9",
)  # fmt: skip
_FAR = (None, -1, 0, -7, 1, 1 << 61, -(1 << 61))
#: What may stand in a column instead of what is there.
VALUES: Mapping[str, Sequence[Any]] = {
    "topic": (*_TEXTS[1:], "%RETRY%", "%DLQ%" + "m" * 300),
    "queue_id": (None, -1, 7),
    "queue_offset": (None, -1, 0, 3, 10**18),
    "born_ms": _FAR,
    "store_ms": _FAR,
    "size": (0, 1 << 40),
    "born_host": (None, "", ":5", "[::1]:80:443", "a\n:5"),
    "reconsume_times": (None, -1, 1 << 30),
    "prepared_position": (None, -1, 0),
    "corrupt": ("rot",),
    "keys": _TEXTS,
    "unique_key": _TEXTS,
    "delay_level": (None, -1, 99),
    "due_ms": _FAR,
    "source_position": (None, -1, 0, 10**18),
    "cancels_position": (None, -1, 0, 10**18),
    "replaces_position": (None, -1, 0, 10**18),
    "stuck_position": (None, -1, 0),
    "check_times": (0, -1, 10**18),
    "out_ms": (None, 0, -1),
    "mode": (None, "level", "timer"),
    "shown": _TEXTS,
    "kind": ("plain", "parked", "rolled", "delete", "half", "op", "note", "stuck", "damage"),
    "released": (True, False),
    "committed": (True, False),
    "sent": (True, False),
    "put_back": (True, False),
    "exact": (True, False),
    "deletes_key": _TEXTS,
    "producer_group": _TEXTS,
    "decisions": (*_TEXTS, "c0", "c0r0", "r0c0", "c1c2c3", "cr1x", "c1\nr2"),
    "origin_id": _TEXTS,
    "origin_group": _TEXTS,
    "body": (
        None, b"", b",", b"0,1,2,", b"1,1,2,2,", b"3,\xff\xfe,4", b"\0,5,", b"6\n", b"7\r\n,8\n,", b"9\xc2\x85,",
        b" 1,2 ,", b"-1,+2,",
        b"0:1,1:2,", b"2:9,2:3,2:", b"3:1\n,", b"1:2:3,", b"4:9999999999,5:7", b"123456789012345678901234567890,1:1",
        "\u0661,\uff12,".encode(), b"\\x31,", b"'1',",
    ),
}  # fmt: skip

LEAST, MOST = -(1 << 63), (1 << 63) - 1
#: Columns of 64 bits that nothing bounds, at the ends of what they hold.
LONGS: Mapping[str, Sequence[Any]] = dict.fromkeys(
    ("queue_offset", "born_ms", "store_ms", "due_ms", "prepared_position"), (None, LEAST, LEAST + 1, -1, MOST - 1, MOST)
)


def hostile_records(seed: int, share: float = 0.04, values: Mapping[str, Sequence[Any]] = VALUES) -> pa.Table:
    """A random log in which this share of each column was replaced by something else."""
    log, draws = RandomLog(seed).fill(300), random.Random(seed)
    table = records_of(log.segments)
    rows = table.to_pylist()
    for row in rows:
        for name, choices in values.items():
            if draws.random() < share:
                row[name] = draws.choice(choices)
    return pa.Table.from_pylist(rows, schema=table.schema)
