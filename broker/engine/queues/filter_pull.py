"""Pulling what a filter expression wants: records are read a few at a time and asked one by one."""

from __future__ import annotations

from collections.abc import Callable

from ...rocketmq.sql92.expression import Filter
from .pulled import Pulled, PullStatus

#: Records looked at in one pull, however few of them match: reading them holds up everybody else.
_MOST_LOOKED_AT = 512
_AT_ONCE = 64
_BYTES_AT_ONCE = 1 << 20
_MOST_BYTES_LOOKED_AT = 4 << 20


def sift(
    pull: Callable[[int, int, int], Pulled], offset: int, max_count: int, max_bytes: int, wanted: Filter
) -> Pulled:
    """Return the records from ``offset`` on that are wanted, and where to go on.

    ``pull`` takes (offset, count, bytes) and gives what is there.
    """
    found: list[bytes] = []
    size = looked_at = bytes_looked_at = 0
    while True:
        pulled = pull(offset, _AT_ONCE, _BYTES_AT_ONCE)
        if pulled.status not in (PullStatus.FOUND, PullStatus.NO_MATCH):
            return pulled if not looked_at else _result(pulled, offset, found)
        for record in pulled.records:
            if not wanted.matches_record(record):
                continue
            at = int.from_bytes(record[20:28], "big")
            if found and size + len(record) > max_bytes:
                return _result(pulled, at, found)
            found.append(record)
            size += len(record)
            if len(found) >= max_count:
                return _result(pulled, at + 1, found)
        looked_at += max(pulled.next_offset - offset, 1)
        bytes_looked_at += sum(map(len, pulled.records))
        offset = pulled.next_offset
        if offset >= pulled.max_offset or looked_at >= _MOST_LOOKED_AT or bytes_looked_at >= _MOST_BYTES_LOOKED_AT:
            return _result(pulled, offset, found)


def _result(pulled: Pulled, next_offset: int, found: list[bytes]) -> Pulled:
    status = PullStatus.FOUND if found else PullStatus.NO_MATCH
    return Pulled(status, next_offset, pulled.min_offset, pulled.max_offset, found)
