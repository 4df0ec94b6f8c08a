"""The log read slowly, record by record with the engine's codec: what the columnar reader has to agree with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from broker.engine.errors import CorruptRecord
from broker.rocketmq.message import Message, decode

MAGICS = (0xDAA320A7, 0xDAA320AB)
SECONDS = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
LEVELS_MS = {level: seconds * 1000 for level, seconds in enumerate(SECONDS, start=1)}


def messages(segments: dict[int, bytes]) -> Iterator[Message]:
    """Yield every record of whole segments, by the position at which they begin; each must be sound."""
    for start, data in sorted(segments.items()):
        at = 0
        while at + 8 <= len(data):
            size, magic = int.from_bytes(data[at : at + 4], "big"), int.from_bytes(data[at + 4 : at + 8], "big")
            if magic not in MAGICS:
                break
            message = decode(data[at : at + size])
            assert message.position == start + at
            yield message
            at += size


def salvaged(segments: dict[int, bytes]) -> Iterator[Message]:
    """Yield every record that the codec takes, wherever it begins; bytes in between are passed over."""
    marks = [magic.to_bytes(4, "big") for magic in MAGICS]
    for start, data in sorted(segments.items()):
        at = 0
        while at + 8 <= len(data):
            size = int.from_bytes(data[at : at + 4], "big")
            if data[at + 4 : at + 8] in marks and is_record(data[at : at + size], start + at):
                yield decode(data[at : at + size])
                at += size
            else:
                later = [place - 4 for mark in marks if (place := data.find(mark, at + 5)) >= 0]
                at = min(later, default=len(data))


def is_record(data: bytes, position: int) -> bool:
    """Tell whether the codec takes these bytes for the record of that position."""
    try:
        return decode(data).position == position
    except CorruptRecord:
        return False


def number(text: str | None) -> int | None:
    """Return a property as a number, None if it is none."""
    return int(text) if text is not None and text.lstrip("-").isdecimal() and text.isascii() else None


def due_ms(message: Message) -> int | None:
    """Return when a parked message is due."""
    if message.topic == "SCHEDULE_TOPIC_XXXX":
        return message.store_ms + LEVELS_MS[int(message.properties["DELAY"])]
    for name in ("ESC_DUE_MS", "TIMER_DELIVER_MS", "TIMER_OUT_MS"):
        if (due := number(message.properties.get(name))) is not None:
            return due
    return None


def row(message: Message) -> dict[str, Any]:
    """Return what the reader has to say about a record with all groups of columns."""
    found = message.properties
    return {
        "broker": None,
        "position": message.position,
        "size": message.size,
        "topic": message.topic,
        "queue_id": message.queue_id,
        "queue_offset": message.queue_offset,
        "flag": message.flag,
        "sys_flag": message.sys_flag,
        "born_ms": message.born_ms,
        "store_ms": message.store_ms,
        "reconsume_times": message.reconsume_times,
        "prepared_position": message.prepared_position,
        "body_size": len(message.body),
        "corrupt": None,
        "born_host": host(*message.born_host),
        "store_host": host(*message.store_host),
        "tag": message.tags,
        "keys": found.get("KEYS"),
        "unique_key": message.unique_key,
        "delay_level": number(found.get("DELAY")),
        "real_topic": found.get("REAL_TOPIC"),
        "real_queue_id": number(found.get("REAL_QID")),
        "due_ms": due_ms(message),
        "source_position": number(found.get("ESC_SOURCE")),
        "properties": list(found.items()),
        "body": message.body,
    }


def host(address: str, port: int) -> str:
    """Return a host as the reader writes it."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
