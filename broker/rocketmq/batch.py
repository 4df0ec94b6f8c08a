"""The body of a batch (request 320): messages one after another (MessageDecoder.encodeMessages).

| size 4 | magic 4 | CRC 4 | flag 4 | body length 4 | body | properties length 2 | properties |     each, big endian
"""

from __future__ import annotations

from struct import Struct, iter_unpack

from .codes import Answer
from .errors import RequestRefused

_ITEM = Struct(">I8xiI").unpack_from
_ITEM_BYTES = 20
_LENGTH_BYTES = 2
_SEPARATOR = b"\x02"
MOST_ITEMS = 100_000

Item = tuple[bytes, bytes, int]
"""Body, properties in stored form, flag."""


def split_batch(body: bytes) -> list[Item]:
    """Return the messages of a batch; refused if they do not fit it exactly, or there is none."""
    return _alike(body) or _one_by_one(body)


def _alike(body: bytes) -> list[Item] | None:
    """Return the messages if all have the same lengths, as in many batches; else None."""
    if len(body) < _ITEM_BYTES:
        return None
    size, _, length = _ITEM(body)
    count, rest = divmod(len(body), max(size, 1))
    properties_length = size - _ITEM_BYTES - length - _LENGTH_BYTES
    if rest or not 0 < count <= MOST_ITEMS or properties_length <= 0:
        return None
    sizes, flags, lengths, bodies, properties_lengths, properties = zip(
        *iter_unpack(f">I8xiI{length}sH{properties_length}s", body), strict=True
    )
    if (
        sizes.count(size) != count
        or lengths.count(length) != count
        or properties_lengths.count(properties_length) != count
        or bytes([each[-1] for each in properties]).strip(_SEPARATOR)
    ):
        return None
    return list(zip(bodies, properties, flags, strict=True))


def _one_by_one(body: bytes) -> list[Item]:
    parts: list[Item] = []
    position, end = 0, len(body)
    while position < end:
        if end - position < _ITEM_BYTES or len(parts) >= MOST_ITEMS:
            raise RequestRefused(Answer.MESSAGE_ILLEGAL, "The batch is cut off, or holds too many messages.")
        size, flag, length = _ITEM(body, position)
        body_at = position + _ITEM_BYTES
        properties_at = body_at + length + _LENGTH_BYTES
        item_end = position + size
        if item_end > end or properties_at > item_end:
            raise RequestRefused(Answer.MESSAGE_ILLEGAL, "A message of the batch reaches beyond its end.")
        properties_length = body[properties_at - 2] << 8 | body[properties_at - 1]
        if properties_at + properties_length != item_end:
            raise RequestRefused(
                Answer.MESSAGE_ILLEGAL, "The properties of a message of the batch do not fit its size."
            )
        properties = body[properties_at:item_end]
        if properties and properties[-1] != 2:
            properties += b"\x02"
        parts.append((body[body_at : properties_at - _LENGTH_BYTES], properties, flag))
        position = item_end
    if not parts:
        raise RequestRefused(Answer.MESSAGE_ILLEGAL, "The batch holds no message.")
    return parts
