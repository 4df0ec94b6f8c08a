"""A message on its way out: checked, with its unique id, its properties in the form in which they are stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Unpack

import msgspec

from . import names
from .errors import InvalidArgument
from .timing import Timing, timing_properties
from .unique_ids import unique_ids


class Outgoing(msgspec.Struct, frozen=True):
    """One message ready to be sent; `properties` is RocketMQ's stored form (name \\x01 value \\x02).

    `group`: the producer group it is sent for, if that is another than the producer's own. It goes to the queue
    `queue_id`, or the one that its `sharding_key` leads to; with neither to any.
    """

    body: bytes
    properties: str
    unique_id: str
    group: str | None = None
    queue_id: int | None = None
    sharding_key: str | None = None


def prepare(
    body: bytes | str,
    *,
    tag: str | None = None,
    keys: Iterable[str] = (),
    properties: Mapping[str, str] | None = None,
    delay_level: int = 0,
    wait_for_disk: bool = True,
    group: str | None = None,
    queue_id: int | None = None,
    sharding_key: str | None = None,
    **timing: Unpack[Timing],
) -> Outgoing:
    """Check everything a caller gives and make the message; `timing` is explained there. Raises InvalidArgument.

    Messages with one `sharding_key` go to one queue, as long as the topic has as many: the one that RocketMQ's
    SelectMessageQueueByHash takes for it. Consumers see the key as the property __SHARDINGKEY.
    """
    raw = _body(body)
    unique_id = unique_ids.next_id()
    parts = [f"UNIQ_KEY\x01{unique_id}\x02WAIT\x01{'true' if wait_for_disk else 'false'}\x02"]
    if tag is not None:
        names.check_tag(tag)
        parts.append(f"TAGS\x01{tag}\x02")
    if keys and (joined := names.joined_keys(keys)):
        parts.append(f"KEYS\x01{joined}\x02")
    if delay_level:
        names.check_delay_level(delay_level)
        parts.append(f"DELAY\x01{delay_level}\x02")
    if queue_id is not None:
        names.check_queue_id(queue_id)
    if sharding_key is not None:
        names.check_sharding_key(sharding_key, queue_id)
        parts.append(f"__SHARDINGKEY\x01{sharding_key}\x02")
    if timing:
        parts.append(timing_properties(timing, delay_level))
    if properties:
        names.check_properties(properties)
        parts.extend([f"{name}\x01{text}\x02" for name, text in properties.items()])
    stored = "".join(parts)
    _check_size(stored)
    if group is not None:
        names.check_group(group)
    return Outgoing(raw, stored, unique_id, group, queue_id, sharding_key)


def value_in(stored: str, name: str) -> str | None:
    """The value of one property in the stored form; None if there is none."""
    framed, mark = "\x02" + stored, f"\x02{name}\x01"
    begin = framed.find(mark)
    if begin < 0:
        return None
    begin += len(mark)
    return framed[begin : framed.find("\x02", begin)]


def _body(body: bytes | str) -> bytes:
    if isinstance(body, str):
        try:
            raw = body.encode()
        except UnicodeEncodeError:
            raise InvalidArgument("The body holds half of a character (a lone surrogate).", field="body") from None
    elif isinstance(body, bytes | bytearray | memoryview):
        raw = bytes(body)
    else:
        raise InvalidArgument(f"body must be bytes or text, not {type(body).__name__}.", field="body")
    names.check_body(raw)
    return raw


def _check_size(stored: str) -> None:
    if stored.isascii() and len(stored) <= names.MAX_PROPERTIES_BYTES:
        return
    try:
        size = len(stored.encode())
    except UnicodeEncodeError:
        raise InvalidArgument("A property holds half of a character (a lone surrogate).", field="properties") from None
    if size > names.MAX_PROPERTIES_BYTES:
        raise InvalidArgument(
            f"Tag, keys and properties take {size:,} bytes, the limit is {names.MAX_PROPERTIES_BYTES:,}; "
            "move data to the body.",
            field="properties",
        )
