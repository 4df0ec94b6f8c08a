"""Note records: what happened to open halves beside a decision. They are ours; RocketMQ has no such topic.

    topic rmq_sys_esc_checks, queue 0
    tag "check"      body 12:3,15:1,    half offset and how often it was asked about by now, each followed by a comma
    tag "resume"     body 12,15,        half offsets that were parked and are open again; who and why in ESC_DECIDERS

One record holds the checks of one moment. The store time of the record is when they were sent.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ...rocketmq.properties import TAGS, WAIT
from .op_records import DECIDERS

CHECK_TAG = "check"
RESUME_TAG = "resume"
#: Halves named by one record: at most some 60 KiB of body.
_MOST_NAMES = 4096
_NAME_LENGTH = 200
_CHECKS = re.compile(rb"(?:[0-9]{1,18}:[0-9]{1,18},)*")


class NoteRecord(NamedTuple):
    """Body and properties of a note record."""

    body: bytes
    properties: dict[str, str]


def check_records(counts: Iterable[tuple[Sequence[int], int]]) -> Iterator[NoteRecord]:
    """Yield records that say how often halves were asked about: (offsets, count of each of them)."""
    parts: list[str] = []
    free = _MOST_NAMES
    for offsets, count in counts:
        end = f":{count},"
        for at in range(0, len(offsets), _MOST_NAMES):
            part = offsets[at : at + _MOST_NAMES]
            if len(part) > free:
                yield _check_record(parts)
                parts, free = [], _MOST_NAMES
            parts.append(end.join(map(str, part)) + end)
            free -= len(part)
    if parts:
        yield _check_record(parts)


def _check_record(parts: Iterable[str]) -> NoteRecord:
    return NoteRecord("".join(parts).encode(), {WAIT: "true", TAGS: CHECK_TAG})


def resume_record(offset: int, by: str, reason: str) -> NoteRecord:
    """Return the record that opens a parked half again."""
    deciders = json.dumps([[by[:_NAME_LENGTH], reason[:_NAME_LENGTH]]])
    return NoteRecord(b"%d," % offset, {WAIT: "true", TAGS: RESUME_TAG, DECIDERS: deciders})


def read_checks(body: bytes) -> tuple[array[int], array[int]]:
    """Return offsets and counts of a record with tag "check"; what is no such pair is left out."""
    if not _CHECKS.fullmatch(body):
        body = b"".join(pair + b"," for pair in body.split(b",") if _CHECKS.fullmatch(pair + b","))
    numbers = array("q", map(int, body.replace(b":", b",").split(b",")[:-1]))
    return numbers[::2], numbers[1::2]


def read_resumed(body: bytes) -> list[int]:
    """Return the offsets of a record with tag "resume"."""
    return [int(word) for word in body.split(b",") if _is_number(word)]


def read_decider(properties: dict[str, str]) -> tuple[str, str]:
    """Return who and why of a record with tag "resume"."""
    try:
        who, why = json.loads(properties.get(DECIDERS, ""))[0]
        return str(who), str(why)
    except (ValueError, TypeError, IndexError):
        return "", ""


def _is_number(*words: bytes) -> bool:
    return all(word.isdigit() and len(word) < 19 for word in words)
