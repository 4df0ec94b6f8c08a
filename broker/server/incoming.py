"""The bytes of one connection, cut into frames, and the limits on what is held of them.

Everything is decided from the first eight bytes of a frame (its length and its header's), before a byte of the header
is read and before the frame is whole:

    header        at most MAX_HEADER_BYTES; a longer one is passed over as it arrives, not held, and refused
    frame         at most what the server allows; of a stranger (access control, no valid signature yet) what is longer
                  than STRANGER_FRAME_BYTES is held only if its header names somebody; nothing tells whether it does
    unfinished    all frames of all connections that are not whole share one budget (Budget)
"""

from __future__ import annotations

import re
from collections.abc import Callable
from struct import Struct

from ..rocketmq.codes import ONEWAY_FLAG, RESPONSE_FLAG
from ..rocketmq.errors import BadFrame, HeaderRefused
from ..rocketmq.frame import BINARY, JSON, MAX_FRAME_BYTES

MAX_HEADER_BYTES = 64 * 1024
"""Longest header. The longest that RocketMQ takes has properties of 32,767 bytes beside some hundred others."""

MAX_JSON_HEADER_BYTES = 4 * MAX_HEADER_BYTES
"""Longest header in JSON, where a byte of properties may be written as an escape of six: without what the escapes add,
it is at most MAX_HEADER_BYTES, too."""

STRANGER_FRAME_BYTES = 64 * 1024
"""Longest frame of one who has shown no valid signature and names nobody, where access is controlled."""

#: What the escape of one byte adds to it: \u0001.
_ESCAPE_ADDS = 5
#: Of a header that is passed over: so much of its beginning and of its end is kept, to find the request's number.
_KEPT_BYTES = 1024
#: A bytearray that grows has up to an eighth more than it needs.
_SPARE = 8
_START = Struct(">II").unpack_from
_NUMBERS = Struct(">ii").unpack_from
_JSON_NUMBER = rb'(?<!\\)"%s"\s*:\s*(-?\d{1,10})\b'
_JSON_OPAQUE = re.compile(_JSON_NUMBER % b"opaque")
_JSON_FLAG = re.compile(_JSON_NUMBER % b"flag")


class RefusedFrame(bytes):
    """Stands in the place of a frame that was passed over; as a frame it is none."""

    refusal: HeaderRefused

    @classmethod
    def of(cls, refusal: HeaderRefused) -> RefusedFrame:
        """Return a frame that is refused so."""
        cut = cls(b"\xff\0\0\0")
        cut.refusal = refusal
        return cut


class Incoming:
    """The bytes of one connection.

    `names_somebody` is asked about a stranger's long frame, with the frame as far as its header goes: True to hold what
    follows, False to let it go by (zeros stand for it, so that the frame is refused). Either way it is handed out when
    all of it has come, counts as much until then, and takes as long to look at: who says it learns nothing of users. It
    raises BadFrame to take nothing.
    """

    __slots__ = (
        "_header_left", "_held", "_is_weighed", "_kept", "_need", "_nobodys", "_skip", "_small", "_whole",
        "max_frame_bytes", "names_somebody",
    )  # fmt: skip

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self.max_frame_bytes = self._small = max_frame_bytes
        self.names_somebody: Callable[[bytes], bool] | None = None
        self._held = bytearray()
        self._need = 4
        self._is_weighed = False
        #: of a frame that is passed over: bytes still to come, those of them up to its header's end, and what is kept
        self._skip = self._header_left = 0
        self._kept = b""
        #: of a frame that names nobody: its header, until the rest has gone by, and the bytes of all
        self._nobodys = b""
        self._whole = 0

    @property
    def is_partial(self) -> bool:
        """Tell whether a frame was begun that is not whole yet."""
        return bool(self._held) or self._skip > 0

    @property
    def held_bytes(self) -> int:
        """The memory held of a frame that is not whole yet."""
        return self._held.__alloc__() if self._held else len(self._nobodys)

    @property
    def counted_bytes(self) -> int:
        """Return the bytes that the budget is to count: of a stranger's frame as many whether it is held or goes by."""
        if self.names_somebody is None or not self.is_partial:
            return self.held_bytes
        come = self._whole - self._skip if self._nobodys else len(self._held)
        return come + come // _SPARE

    def be_short(self, names_somebody: Callable[[bytes], bool]) -> None:
        """Take only short frames from now on, or such that name somebody: the peer is a stranger."""
        self._small = min(STRANGER_FRAME_BYTES, self.max_frame_bytes)
        self.names_somebody = names_somebody

    def be_usual(self) -> None:
        """Take frames as long as the server allows from now on: the peer is known."""
        self._small = self.max_frame_bytes
        self.names_somebody = None

    def drop(self) -> None:
        """Drop what is held of an unfinished frame."""
        self._held = bytearray()
        self._skip, self._kept, self._nobodys = 0, b"", b""

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the frames (without length field) that are whole now; a RefusedFrame stands for one that is not taken.

        Raises BadFrame on what cannot be a frame, or may not.
        """
        frames: list[bytes] = []
        position = self._pass_over(chunk, 0, frames) if self._skip else 0
        if self._held:
            self._held += chunk
            if len(self._held) < self._need:
                return frames
            chunk, self._held = bytes(self._held), bytearray()
        end = len(chunk)
        while end - position >= 8:
            length, word = _START(chunk, position)
            after = position + 4 + length
            if word & 0xFFFFFF > MAX_HEADER_BYTES or not 4 <= length <= self._small:
                if (taken := self._take_unusual(chunk, position, length, word, frames)) is None:
                    break
                position = taken
                continue
            if after > end:
                self._need = 4 + length
                break
            frames.append(chunk[position + 4 : after])
            position = after
        else:
            self._need = 8 if end - position >= 4 else 4
        if position < end:
            if end - position >= 4:
                self._check_length(int.from_bytes(chunk[position : position + 4], "big"))
            self._held += chunk[position:]
        return frames

    def _check_length(self, length: int) -> None:
        if not 4 <= length <= self.max_frame_bytes:
            raise BadFrame(f"a frame that claims {length} bytes (4 to {self.max_frame_bytes} are allowed)")

    def _take_unusual(self, chunk: bytes, position: int, length: int, word: int, frames: list[bytes]) -> int | None:
        """Take a frame that is longer, or has a longer header, than most; return where the next one begins, None if
        more must come first."""
        self._check_length(length)
        header, serialization, begin, after = word & 0xFFFFFF, word >> 24, position + 4, position + 4 + length
        if header > length - 4:
            raise BadFrame(f"header of {header} bytes in a frame of {length} bytes")
        if serialization not in (JSON, BINARY):
            raise BadFrame(f"unknown header serialisation {serialization}")
        most = MAX_JSON_HEADER_BYTES if serialization == JSON else MAX_HEADER_BYTES
        if header > most and self.names_somebody is not None:
            raise BadFrame(f"a header of {header} bytes before the first valid signature ({most} are allowed)")
        if header > most:
            self._skip, self._header_left = 4 + length, 8 + header
            return self._pass_over(chunk, position, frames)
        if self.names_somebody is not None and not self._is_weighed:
            if len(chunk) < begin + 4 + header:
                self._need = 8 + header
                return None
            beginning = chunk[begin : begin + 4 + header]
            if not self.names_somebody(beginning):
                self._nobodys = beginning
                self._whole = self._skip = 4 + length
                return self._pass_over(chunk, position, frames)
            self._is_weighed = True
        if after > len(chunk):
            self._need = 4 + length
            return None
        self._is_weighed = False
        frames.append(_with_fit_header(chunk[begin:after], header))
        return after

    def _pass_over(self, chunk: bytes, position: int, frames: list[bytes]) -> int:
        """Let what belongs to a frame that is not taken go by; return where the next one begins. What is refused for a
        header that is too long is added at its end, what names nobody at the frame's."""
        if self._header_left:
            passed = chunk[position : position + self._header_left]
            self._header_left -= len(passed)
            self._kept += passed
            if len(self._kept) > 4 * _KEPT_BYTES:
                self._kept = self._kept[:_KEPT_BYTES] + self._kept[-_KEPT_BYTES:]
            if not self._header_left:
                frames.append(_too_long(self._kept))
                self._kept = b""
        now = min(len(chunk) - position, self._skip)
        self._skip -= now
        if self._nobodys and not self._skip:
            frames.append(self._nobodys + bytes(self._whole - 4 - len(self._nobodys)))
            self._nobodys = b""
        return position + now


def _with_fit_header(frame: bytes, header: int) -> bytes:
    """Return the frame, or a RefusedFrame if its header is too long also without what escapes add."""
    if header - _ESCAPE_ADDS * frame.count(b"\\u", 4, 4 + header) <= MAX_HEADER_BYTES:
        return frame
    return _too_long(len(frame).to_bytes(4, "big") + frame[: 4 + header])


def _too_long(kept: bytes) -> RefusedFrame:
    """Return the RefusedFrame of a frame by what is kept of it, its length first: beginning and end of its header."""
    (_, word), text = _START(kept), kept[8:]
    reason = f"a header of {word & 0xFFFFFF:,} bytes ({MAX_HEADER_BYTES:,} are allowed)"
    opaque: int | None = None
    flag = 0
    if word >> 24 == BINARY:
        opaque, flag = _NUMBERS(text, 5)
    else:
        # some clients write the numbers before the fields, others after them
        around = text[:_KEPT_BYTES] + b"\n" + text[-_KEPT_BYTES:]
        opaques, flags = _JSON_OPAQUE.findall(around), _JSON_FLAG.findall(around)
        opaque, flag = (int(opaques[-1]), int(flags[-1]) if flags else 0) if opaques else (None, 0)
    is_asked = not flag & (RESPONSE_FLAG | ONEWAY_FLAG)
    return RefusedFrame.of(HeaderRefused(
        reason, word >> 24, opaque if is_asked else None, is_final=opaque is None or bool(flag & RESPONSE_FLAG)
    ))  # fmt: skip
