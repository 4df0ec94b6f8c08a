"""A log of any length for the measurements of Spark, written with the engine's own codec.

`python -m bench.spark_log DIRECTORY COUNT` writes one that several measurements can read (`--store DIRECTORY`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from broker.rocketmq.layout import MAGIC_BLANK
from broker.rocketmq.message import blank, decode, encode, pack_host, record_size
from broker.rocketmq.properties import format_properties

SEGMENT_BYTES = 256 << 20
START_MS = 1_795_000_000_000
BODY = bytes(range(128))
_HOST = pack_host("127.0.0.1", 10911)


def main() -> int:
    """Write a log of so many records."""
    write_log(Path(sys.argv[1]), int(sys.argv[2]))
    return 0


def write_log(store: Path, count: int) -> None:
    """Write segments as the engine would, the last one preallocated."""
    (store / "commitlog").mkdir(parents=True)
    start, data, timer_at = 0, bytearray(), 0
    for number, (topic, properties) in enumerate(_records(count)):
        if number % 10 == 9:
            properties["ESC_SOURCE"] = str(timer_at)
        while True:
            record = _record(number, topic, properties, start + len(data))
            if len(data) + len(record) + 8 <= SEGMENT_BYTES:
                break
            data += blank(SEGMENT_BYTES - len(data))
            _close(store, start, data)
            start, data = start + SEGMENT_BYTES, bytearray()
        if number % 10 == 8:
            timer_at = start + len(data)
        data += record
    _close(store, start, data)


def _records(count: int) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield topic and properties: of ten seven plain, one on a delay level, one timer and its release."""
    for number in range(count):
        found = {"UNIQ_KEY": f"7F000001{number:024X}", "KEYS": f"order-{number // 6}", "TAGS": f"t{number % 5}"}
        found |= {"WAIT": "true", "MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
        topic, turn = f"topic-{number % 8}", number % 10
        if turn == 7:
            yield "SCHEDULE_TOPIC_XXXX", found | {"DELAY": "3", "REAL_TOPIC": topic, "REAL_QID": "0"}
        elif turn == 8:
            due = START_MS + number + 5
            yield "rmq_sys_wheel_timer", found | {"ESC_DUE_MS": str(due), "REAL_TOPIC": topic, "REAL_QID": "0"}
        elif turn == 9:
            yield topic, found | {"ESC_DUE_MS": str(START_MS + number + 4)}
        else:
            yield topic, found


def _record(number: int, topic: str, properties: dict[str, str], position: int) -> bytes:
    name, stored, at_ms = topic.encode(), format_properties(properties), START_MS + number
    size = record_size(name, BODY, stored, _HOST, _HOST)
    return encode(name, 0, number, position, BODY, stored, 0, 0, at_ms, _HOST, at_ms, _HOST, 0, 0, size)


def _close(store: Path, start: int, data: bytearray) -> None:
    with (store / "commitlog" / f"{start:020d}").open("wb") as file:
        file.write(data)
        file.truncate(SEGMENT_BYTES)


def plain_loop(store: Path, count: int) -> int:
    """Read the first ``count`` records one by one with the engine's codec; return how many there were."""
    read, sizes, last_ms, named = 0, 0, 0, 0
    for path in sorted((store / "commitlog").iterdir()):
        data, at = path.read_bytes(), 0
        while read < count and at + 8 <= len(data):
            size, magic = int.from_bytes(data[at : at + 4], "big"), int.from_bytes(data[at + 4 : at + 8], "big")
            if magic == MAGIC_BLANK or not size:
                break
            message = decode(data[at : at + size])
            sizes, last_ms = sizes + message.size, max(last_ms, message.store_ms)
            named += message.unique_key is not None
            at, read = at + size, read + 1
    assert sizes and last_ms and named
    return read


if __name__ == "__main__":
    sys.exit(main())
