"""Cutting the body of a pull, which is commit-log records one after another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..engine.errors import CorruptRecord
from ..rocketmq.message import Message, decode
from .bodies import inflated
from .errors import BadAnswer

_MIN_RECORD_BYTES = 91


def split_records(body: bytes) -> Iterator[bytes]:
    """Each record begins with its size, 4 bytes; raises BadAnswer where that cannot be."""
    position = 0
    while position < len(body):
        size = int.from_bytes(body[position : position + 4], "big")
        if size < _MIN_RECORD_BYTES or position + size > len(body):
            raise BadAnswer(f"A record of {size} bytes does not fit the answer of {len(body)} bytes.")
        yield body[position : position + size]
        position += size


def read_record(record: bytes) -> Message:
    """Decode one record, its body as it is stored; raises BadAnswer where it is damaged."""
    try:
        return decode(record)
    except CorruptRecord as error:
        raise BadAnswer(f"The broker answered with a damaged record: {error}") from error


def read_delivery(record: bytes) -> Message:
    """As `read_record`, with the body as its sender had it."""
    message = read_record(record)
    body, sys_flag = inflated(message.body, message.sys_flag)
    return message if body is message.body else replace(message, body=body, sys_flag=sys_flag)
