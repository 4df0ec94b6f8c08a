"""A stored message once more: as a new one with its body, tag, keys and its sender's properties, or back to a group."""

from __future__ import annotations

import hashlib
import re
import zlib
from dataclasses import dataclass, field

from broker.client import Admin, BrokerRefused, Message, Producer, SendResult
from broker.client.names import MAX_BODY_BYTES
from broker.mirror.models import ConsumerOffset
from broker.rocketmq.properties import OWN_PREFIX, SHARDING_KEY, SYSTEM_PROPERTIES
from broker.rocketmq.topics import RETRY_PREFIX
from console.operations.kind import ItemResult, LagPreview
from console.site.broker import KeptClients, namesrv_of
from console.site.chosen import chosen
from console.site.mirrored import mirrored

#: a property of the copy: offset message id of the record that was copied
COPY_OF = "RESENT_FROM"
#: sysFlag bit 0: compressed; bits 8 to 10 say how: 0 and 3 zlib (MessageSysFlag)
_COMPRESSED = 1
_ZLIB = (0, 3)
#: the shortest delay level: the broker parks what is sent back, as after any failed attempt
LEVEL = 1
NEVER_ARRIVES = (
    "This group pops, and on Apache RocketMQ only consumers that pull receive what is sent back: it would not arrive. "
    "Send it as a new message."
)

#: RocketMQ's message ids: 4 bytes of address, 2 of process, 4 of loader, 4 of time in the month, 2 of counter
_UNIQUE_ID = re.compile(r"[0-9A-F]{32}\Z")
_OF_SENDER = 20

_producers = KeptClients(lambda namesrv: Producer(group="escapement-console", namesrv=namesrv))


@dataclass(frozen=True, slots=True, kw_only=True)
class SentAgainPreview(LagPreview):
    """The messages that would be sent again."""

    #: how many of them were sent again before
    met_count: int | None = None
    #: brokers that did not answer: what lies there is neither counted nor sent
    away: list[str] = field(default_factory=list)


class NotReadable(Exception):
    """The body is compressed in a way that is not read here."""


def message_id_again(position: int, unique_key: str) -> str:
    """Return the message id of what takes the place of a parked record; its time of birth stays readable."""
    made = hashlib.sha256(f"{position} {unique_key}".encode()).hexdigest().upper()
    return made[:_OF_SENDER] + (unique_key if _UNIQUE_ID.match(unique_key) else "0" * 32)[_OF_SENDER:]


def send_copy(message: Message, topic: str) -> SendResult:
    """Send it to `topic`, to the queue of its sharding key if it has one; raises ClientError, NotReadable."""
    kept = {
        name: text
        for name, text in message.properties.items()
        if name not in SYSTEM_PROPERTIES and not name.startswith(OWN_PREFIX)
    }
    return producer().send(
        topic,
        plain_body(message),
        tag=message.tags,
        keys=message.keys,
        properties={**kept, COPY_OF: message.offset_message_id},
        sharding_key=message.properties.get(SHARDING_KEY) or None,
    )


def send_back(admin: Admin, group: str, message: Message, topic: str) -> ItemResult:
    """Ask the broker for another attempt (request 36): it copies the record, nothing passes through here.

    `topic` is the one that the group reads. Refused where the group would not get it; raises ClientError.
    """
    if never_arrives(admin, group, topic):
        return ItemResult("refused", {"error": NEVER_ARRIVES})
    admin.send_back(group, message, delay_level=LEVEL, max_reconsume_times=message.reconsume_times + 1)
    return ItemResult("sent_back", {"topic": topic})


def never_arrives(admin: Admin, group: str, topic: str) -> bool:
    """Return True on Apache RocketMQ for a group that pops and does not pull: there nobody reads what is sent back."""
    here = mirrored()
    if not here.polling:
        return False
    # KeyBuilder's two forms of the topic from which a group pops once more
    popped = [f"{RETRY_PREFIX}{group}_{topic}", f"{RETRY_PREFIX}{group}+{topic}"]
    own = f"{RETRY_PREFIX}{group}"
    read = ConsumerOffset.objects.filter(broker=here.name, group=group)
    if read.filter(topic=own).exists():
        return False
    # the mirror learns late that there is one, and what is sent back meanwhile would be lost: the broker itself knows
    if not read.filter(topic__in=popped).exists() and not any(admin.topic_settings(each) for each in popped):
        return False
    try:
        return own not in admin.connections(group).subscriptions
    except BrokerRefused:
        return True


def hang_up() -> None:
    """End the connection; the next copy makes a new one."""
    _producers.hang_up()


def producer() -> Producer:
    """Return the client that sends for the console; safe for threads."""
    return _producers.at(namesrv_of(chosen().entry))


def plain_body(message: Message) -> bytes:
    """Return the body as its sender gave it; raise NotReadable."""
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
