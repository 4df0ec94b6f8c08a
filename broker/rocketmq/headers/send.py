"""The header of a send request: RocketMQ's V1 (long names), V2 (one letter a field), and a short cut for V2.

V2: a group, b topic, c default topic, d default queues, e queue id, f sysFlag, g born ms, h flag, i properties,
j reconsume times, k unit mode, l most reconsume times, m batch, n broker name.

The short cut (`SendShortcut`): a client repeats the fields before `e` and after `i` in all its sends to a topic. Once
they were read in full they are recognised by their bytes, and what is between them has one fixed form. Anything else
is read the long way, so the short cut decides nothing about what is valid.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from struct import Struct

from ..codes import ONEWAY_FLAG
from ..fields import INT_MAX, text, truth, whole
from ..frame import Command

_V1_NAMES = {
    "producerGroup": "a", "topic": "b", "defaultTopic": "c", "defaultTopicQueueNums": "d", "queueId": "e",
    "sysFlag": "f", "bornTimestamp": "g", "flag": "h", "properties": "i", "reconsumeTimes": "j", "unitMode": "k",
    "maxReconsumeTimes": "l", "batch": "m", "bname": "n",
}  # fmt: skip

#: serialisation and header length, code, language, version, opaque, flag, remark length, ext length
_START = Struct(">Ihbhiiii").unpack_from
_FIELDS_AT = 25
_QUEUE_NAME = b"\0\x01e\0\0\0"
#: what follows the digits of the queue id: f of one digit, g of 13, h of one, i shorter than 64 KiB
_MIDDLE = Struct(">7sB7s13s7sB5sH")
_MIDDLE_NAMES = (b"\0\x01f\0\0\0\x01", b"\0\x01g\0\0\0\r", b"\0\x01h\0\0\0\x01", b"\0\x01i\0\0")
_MOST_SHAPES = 4096


@dataclass(slots=True)
class SendHeader:
    """What a sender says about a message (or a batch of them)."""

    group: str
    topic: str
    default_queues: int
    queue_id: int
    sys_flag: int
    born_ms: int
    flag: int
    properties: bytes
    reconsume_times: int
    most_reconsume_times: int | None
    is_batch: bool


def read_send_header(ext: Mapping[str, str], *, is_v1: bool = False) -> SendHeader:
    """The header of request 10 (V1), 310 or 320; refused if a field is missing or out of range."""
    if is_v1:
        ext = {_V1_NAMES[name]: value for name, value in ext.items() if name in _V1_NAMES}
    return SendHeader(
        group=text(ext, "a"),
        topic=text(ext, "b"),
        default_queues=whole(ext, "d", 0, high=INT_MAX),
        queue_id=whole(ext, "e", low=-INT_MAX - 1, high=INT_MAX),
        sys_flag=whole(ext, "f", 0, low=0, high=INT_MAX),
        born_ms=whole(ext, "g", low=0),
        flag=whole(ext, "h", 0, low=-INT_MAX - 1, high=INT_MAX),
        properties=ext.get("i", "").encode("utf-8", "surrogateescape"),
        reconsume_times=whole(ext, "j", 0, low=0, high=INT_MAX),
        most_reconsume_times=whole(ext, "l", low=-1, high=INT_MAX) if ext.get("l") else None,
        is_batch=truth(ext, "m"),
    )


class SendShortcut:
    """Reads binary V2 headers of plain sends whose constant parts are known by their bytes."""

    __slots__ = ("_prefixes", "_suffixes")

    def __init__(self) -> None:
        self._prefixes: dict[bytes, str] = {}
        self._suffixes: set[bytes] = set()

    def read(self, frame: bytes) -> tuple[int, int, str, int, int, int, int, bytes, bytes] | None:
        """(opaque, flag of the frame, topic, queue id, sysFlag, born ms, flag, properties, body); None if unknown."""
        prefix_end = frame.find(_QUEUE_NAME, _FIELDS_AT) + 6
        topic = self._prefixes.get(frame[_FIELDS_AT:prefix_end])
        if topic is None or prefix_end >= len(frame):
            return None
        middle = prefix_end + 1 + frame[prefix_end]
        start = middle + _MIDDLE.size
        if start > len(frame):
            return None
        f, sys_flag, g, born_ms, h, flag, i, length = _MIDDLE.unpack_from(frame, middle)
        queue_id = frame[prefix_end + 1 : middle]
        end = start + length
        word, _, _, _, opaque, frame_flag, remark_length, ext_length = _START(frame)
        body_at = 4 + (word & 0xFFFFFF)
        if (
            (f, g, h, i) != _MIDDLE_NAMES
            or not (queue_id.isdigit() and born_ms.isdigit() and 48 <= sys_flag <= 57 and 48 <= flag <= 57)
            or frame[end:body_at] not in self._suffixes
            or not end <= body_at <= len(frame)
            or frame_flag & ~ONEWAY_FLAG
            or remark_length
            or ext_length != body_at - _FIELDS_AT
        ):
            return None
        return (
            opaque, frame_flag, topic, int(queue_id), sys_flag - 48, int(born_ms), flag - 48, frame[start:end],
            frame[body_at:],
        )  # fmt: skip

    def learn(self, frame: bytes, command: Command, header: SendHeader) -> None:
        """Remembers the constant parts of a plain send that was read in full and accepted."""
        if header.is_batch or header.reconsume_times or header.most_reconsume_times is not None or command.remark:
            return
        prefix_end = frame.find(_QUEUE_NAME, _FIELDS_AT) + 6
        if not _FIELDS_AT <= prefix_end < len(frame):
            return
        middle = prefix_end + 1 + frame[prefix_end]
        start = middle + _MIDDLE.size
        if start > len(frame):
            return
        end = start + _MIDDLE.unpack_from(frame, middle)[-1]
        if _count_fields(frame, len(frame) - len(command.body)) != len(command.ext):
            return  # a name that comes twice: the last one counts, and it may be in another sender's other part
        if max(len(self._prefixes), len(self._suffixes)) >= _MOST_SHAPES:
            self._prefixes.clear()
            self._suffixes.clear()
        self._prefixes[frame[_FIELDS_AT:prefix_end]] = header.topic
        self._suffixes.add(frame[end : len(frame) - len(command.body)])


def _count_fields(frame: bytes, end: int) -> int:
    """How many fields a header that was read in full has, those of one name counted each."""
    count, at = 0, _FIELDS_AT
    while at < end:
        at += 2 + int.from_bytes(frame[at : at + 2], "big")
        at += 4 + int.from_bytes(frame[at : at + 4], "big")
        count += 1
    return count
