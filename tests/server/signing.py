"""Sends that are signed, as clients write them."""

from __future__ import annotations

from collections.abc import Mapping

from broker.client.credentials import Signer
from broker.rocketmq.acl import ACCESS_KEY, SIGNATURE, content
from broker.rocketmq.frame import BINARY, Command, decode, encode, encode_fields
from broker.rocketmq.sends import SignedSend, read_send_header
from tests.server.peer import send_ext

SECRET = b"alice-secret"


def signed(
    topic: str, properties: str, body: bytes = b"body", *, by: tuple[str, bytes] = ("alice", SECRET), **changes: str
) -> dict[str, str]:
    """The fields of a send, signed."""
    return Signer(by[0], by[1].decode()).sign(send_ext(topic, properties, **changes), body)


def signed_frame(ext: Mapping[str, str], body: bytes, serialization: int = BINARY, opaque: int = 7) -> bytes:
    """A send without its length, as our client and those of other languages write it."""
    return encode(Command(310, dict(ext), body, opaque=opaque, serialization=serialization))[4:]


def doubled(ext: Mapping[str, str], body: bytes, again: Mapping[str, str] | None = None, opaque: int = 7) -> bytes:
    """As Java's client writes it: all fields in the order of the letters, then all in that of a hash table.

    `again`: what the second time is another value.
    """
    own = (ACCESS_KEY, SIGNATURE)
    first = {name: ext[name] for name in sorted(ext) if name not in own}
    second = {ACCESS_KEY: ext.get(ACCESS_KEY, ""), **first, **(again or {}), SIGNATURE: ext.get(SIGNATURE, "")}
    fields = encode_fields(first) + encode_fields({name: value for name, value in second.items() if value})
    head = encode(Command(310, {}, opaque=opaque, serialization=BINARY))[8:-4]
    header = head + len(fields).to_bytes(4, "big") + fields
    return bytes((BINARY,)) + len(header).to_bytes(3, "big") + header + body


def assert_as_the_long_way(frame: bytes, found: SignedSend) -> None:
    """What was read short means what is read in full, and its signature is to be of the same."""
    command = decode(frame)
    header = read_send_header(command.ext)
    assert found.user == command.ext[ACCESS_KEY]
    assert found.signature == command.ext[SIGNATURE].encode("utf-8", "surrogateescape")
    assert found.content == content(command.ext, command.body, command.version)
    numbers = header.queue_id, header.sys_flag, header.born_ms, header.flag
    assert found.send == (command.opaque, command.flag, header.topic, *numbers, header.properties, command.body, False)
    assert not header.reconsume_times and header.most_reconsume_times is None
    assert not header.is_batch
