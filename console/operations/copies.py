"""A stored message as a new one: its body, tag, keys and the user's own properties, and where it came from."""

from __future__ import annotations

import zlib

from django.conf import settings

from broker.client import Message, Producer, SendResult
from broker.client.names import MAX_BODY_BYTES
from broker.rocketmq.properties import OWN_PREFIX, SHARDING_KEY, SYSTEM_PROPERTIES
from console.site.kept_clients import KeptClients

#: a property of the copy: offset message id of the record that was copied
COPY_OF = "RESENT_FROM"
#: sysFlag bit 0: compressed; bits 8 to 10 say how: 0 and 3 zlib (MessageSysFlag)
_COMPRESSED = 1
_ZLIB = (0, 3)

_producers = KeptClients(lambda namesrv: Producer(group="escapement-console", namesrv=namesrv))


class NotReadable(Exception):
    """The body is compressed in a way that is not read here."""


def send_copy(message: Message, topic: str) -> SendResult:
    """Send it to `topic`, to the queue of its sharding key if it has one; raises ClientError, NotReadable."""
    kept = {
        name: text
        for name, text in message.properties.items()
        if name not in SYSTEM_PROPERTIES and not name.startswith(OWN_PREFIX)
    }
    return producer().send(
        topic, plain_body(message), tag=message.tags, keys=message.keys,
        properties={**kept, COPY_OF: message.offset_message_id},
        sharding_key=message.properties.get(SHARDING_KEY) or None,
    )  # fmt: skip


def hang_up() -> None:
    """End the connection; the next copy makes a new one."""
    _producers.hang_up()


def producer() -> Producer:
    """The client that sends for the console; safe for threads."""
    return _producers.at(settings.ESCAPEMENT_NAMESRV)


def plain_body(message: Message) -> bytes:
    """The body as its sender gave it; raises NotReadable."""
    if not message.sys_flag & _COMPRESSED:
        return message.body
    kind = message.sys_flag >> 8 & 7
    if kind not in _ZLIB:
        raise NotReadable("The body is compressed by LZ4 or ZSTD, which is not read here: send it back to its group.")
    reader = zlib.decompressobj()
    try:
        body = reader.decompress(message.body, MAX_BODY_BYTES + 1)
    except zlib.error as error:
        raise NotReadable(f"The body says that it is compressed, and is not: {error}.") from None
    if len(body) > MAX_BODY_BYTES or not reader.eof:
        raise NotReadable(f"The body has more than {MAX_BODY_BYTES:,} bytes, or ends too early.")
    return body
