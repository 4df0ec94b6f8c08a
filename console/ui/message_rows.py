"""A message of a queue as one line of a list."""

from __future__ import annotations

from dataclasses import dataclass

from broker.client import Message

#: characters of a text body shown in a list
PREVIEW_CHARACTERS = 80


@dataclass(frozen=True, slots=True)
class MessageRow:
    """A message in a queue's list."""

    offset: int
    position: int
    size_bytes: int
    store_ms: int
    born_ms: int
    tag: str | None
    keys: tuple[str, ...]
    unique_key: str | None
    offset_message_id: str
    reconsume_times: int
    #: first characters of the body when it is text, else None
    preview: str | None


def row_of(message: Message) -> MessageRow:
    """Return a message as one line."""
    return MessageRow(
        offset=message.queue_offset,
        position=message.position,
        size_bytes=message.size,
        store_ms=message.store_ms,
        born_ms=message.born_ms,
        tag=message.tags,
        keys=tuple(message.keys),
        unique_key=message.unique_key,
        offset_message_id=message.offset_message_id,
        reconsume_times=message.reconsume_times,
        preview=_preview(message),
    )


def _preview(message: Message) -> str | None:
    if message.sys_flag & 1:
        return None
    try:
        # four bytes a character at most; the last one may be cut
        text = message.body[: PREVIEW_CHARACTERS * 4].decode("utf-8", "strict")
    except UnicodeDecodeError as error:
        if error.start < PREVIEW_CHARACTERS * 4 - 4 or len(message.body) <= PREVIEW_CHARACTERS * 4:
            return None
        text = message.body[: error.start].decode("utf-8", "strict")
    line = " ".join(text[:PREVIEW_CHARACTERS].split())
    return line if line.isprintable() else None
