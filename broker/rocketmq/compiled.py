"""The compiled twins of some functions, where `escapement-mq[fast]` is installed.

`FAST` is None without it, and where ESCAPEMENT_FAST is 0. The functions in Python stand where they are used and say
what is right: a twin gives the same for the same arguments, or None where it leaves a case to them
(tests/fast/test_twins.py). What the twins are written in is `broker/fast/`.
"""

from __future__ import annotations

import importlib
import logging
import os
from collections.abc import Callable, Sequence
from mmap import mmap
from typing import Any, Protocol, TypeVar, cast

logger = logging.getLogger(__name__)

_Function = TypeVar("_Function", bound=Callable[..., Any])

MODULE, INTERFACE = "escapement_mq_fast", 10
"""What holds the twins, and the number of their shapes: another one's are not used."""


class Fast(Protocol):
    """What the compiled module has beside what `twin` finds by name. Columns are lists or tuples, those of numbers also
    what `memoryview.cast("q")` gives."""

    INTERFACE: int

    def batch_extremes(self, body: bytes, most: int, most_keys: int, /) -> tuple[Any, ...] | None:
        """Return the Extremes of a batch (append.Extremes) if all of its messages are as usual, else None."""

    def batch_records(
        self, read: object, topic: bytes, queue_id: int, offset: int, position: int, same: bytes, /
    ) -> tuple[bytes, bytes, list[int], bytes, bytes, bytes]:
        """Return what becomes of a usual batch (Extremes.read) from an offset and a position on: records, entries of
        the queue, sizes, and in 64 bits each positions, hashes for the index, a position for each of these
        (append.append_batch). Raises ValueError for a name that is not ASCII, or has more than 127 bytes."""

    def due_records(
        self,
        data: bytes,
        start: int,
        entries: Sequence[tuple[int, ...]],
        first: int,
        groups: dict[bytes, Any],
        host: bytes,
        size: int,
        hashes: int,
        /,
    ) -> tuple[bytes, ...] | None:
        """Encode timers for where they belong as Preparer._add does, from ``first`` on and as far as they are usual and
        ``groups`` has the queues they name. Return the records, and as bytes of arrays what a run of so many bytes and
        hashes gets of them: starts, sizes, groups, codes of tags, due moments, offsets, ends of hashes, hashes; None if
        the first is not usual."""

    def hashes(self, beginning: str, keys: Sequence[str], /) -> list[int]:
        """Return the hashes of a beginning with each of the keys behind it (Index.hashes_of)."""

    def index_hash(self, text: str, /) -> int:
        """Return the hash of one text (Index.hash_of)."""

    def json_send_reply(
        self,
        last_fields: bytes,
        before_opaque: bytes,
        behind_opaque: bytes,
        host: bytes,
        opaque: int,
        position: int,
        queue_id: int,
        queue_offset: int,
        unique_key: str | None,
        more_fields: bytes,
        /,
    ) -> bytes | None:
        """Return the answer to one send (send_reply.json_reply); ``host`` is that of the message's id, in hex."""

    def parked_timers(
        self, properties: Sequence[bytes], tails: Sequence[bytes], now_ms: int, latest_ms: int, /
    ) -> tuple[list[bytes], list[int], list[str], list[tuple[str | None, str | None]] | None] | None:
        """Return what is stored of timers, the moments they ask for, their unique keys, and where one has any of these
        the tags and keys of each (parking.park_together); None if one needs a closer look, or its moment is over or
        later than the last that may be."""

    def read_end(self, frame: bytes, /) -> tuple[int, int, bool | None, int, int, str, str, bool] | None:
        """Return what EndShortcut.read does, also of forms that were not seen before, and of JSON headers."""

    def read_send(self, frame: bytes, /) -> tuple[int, int, str, int, int, int, int, bytes, bytes, bool] | None:
        """Return what SendShortcut.read and read_json_send do, also of a kind not seen before, and of batches."""

    def read_signed_send(self, frame: bytes, /) -> tuple[Any, ...] | None:
        """Return the fields of the SignedSend that SignedSendShortcut.read and read_signed_json_send return, also of a
        form not seen before."""

    def send_reply(
        self,
        language: int,
        version: int,
        last_fields: bytes,
        host: bytes,
        opaque: int,
        position: int,
        queue_id: int,
        queue_offset: int,
        unique_key: str | None,
        more_fields: bytes,
        /,
    ) -> bytes | None:
        """Return the answer to one send (send_reply.binary_reply); ``host`` is that of the message's id, in hex."""

    def split_batch(self, body: bytes, most: int, /) -> list[tuple[bytes, bytes, int]] | None:
        """Return the messages of a batch (sends.split_batch), None of what is to be refused."""

    def timer_units(
        self,
        slots: mmap,
        written: bytearray,
        timers: Sequence[tuple[Any, ...]],
        hashes: dict[str, int],
        unit: int,
        write_ms: int,
        begin: int,
        end: int,
        /,
    ) -> tuple[bytes, int, int] | None:
        """Put timers into slots of the wheel; return what TimerIndex._units_of does. None, and nothing was changed, if
        a closer look is needed, or one does not lie between two seconds."""

    def write_durably(self, writes: Sequence[tuple[str, int, bytes]], /) -> bool | None:
        """Do what OsFiles.write_durably says, all of it without the interpreter; None on systems other than Linux."""

    def usual_facts(self, properties: bytes, /) -> tuple[Any, ...] | None:
        """Return the Facts of usual properties (message_header.read_facts), else None."""

    def usual_record(self, record: bytes, /) -> tuple[Any, ...] | None:
        """Return the fields of the Message in a usual, undamaged record (message.decode), else None."""


def load() -> Fast | None:
    """Return the twins; None if there are none, or they are of another version."""
    if os.environ.get("ESCAPEMENT_FAST") == "0":
        return None
    try:
        fast = cast(Fast, importlib.import_module(MODULE))
    except ImportError:
        return None
    if getattr(fast, "INTERFACE", None) != INTERFACE:
        logger.warning("%s is of another version and not used; install escapement-mq[fast] again.", MODULE)
        return None
    return fast


FAST = load()

IN_PYTHON: dict[str, Callable[..., Any]] = {}
"""The functions that `twin` may have put another one in the place of, by the twin's name."""


def twin(name: str) -> Callable[[_Function], _Function]:
    """Put the compiled function of this name in the place of one that takes and returns the same, where there is
    one."""

    def choose(function: _Function) -> _Function:
        IN_PYTHON[name] = function
        return function if FAST is None else cast(_Function, getattr(FAST, name))

    return choose
