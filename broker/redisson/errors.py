"""Every error of the Redisson package, as one tree.

RedissonError
├── InvalidDelay           a negative delay, or none; nothing was sent
├── ValueRefused           the codec cannot write this value; nothing was sent
│   └── CodecNotWritable   only Java can write this codec
├── ValueUnreadable        the codec cannot read these bytes; they are in `value`
│   └── CodecNotReadable   only Java can read this value
├── MemberUnreadable       a member has neither packing (poison)
├── WrongType              a key of the queue holds something else; it was left alone
├── MemberGone             the member is not waiting any more
├── NotAllowed             read-only mode, or a queue that is not on the list
├── DifferentSlots         two queues that one script cannot touch in a Redis Cluster
└── ClientUnfit            the Redis client decodes answers; Redisson's members are bytes

Errors of the connection are redis-py's own (`redis.exceptions.RedisError`).
"""

from __future__ import annotations


class RedissonError(Exception):
    """A delayed queue could not do what was asked."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (self.__doc__ or "").strip())


class InvalidDelay(RedissonError):
    """Give either a delay of 0 ms or more, or a due time; nothing was sent."""


class ValueRefused(RedissonError):
    """The codec cannot write this value; nothing was sent."""

    def __init__(self, codec: str, reason: str) -> None:
        super().__init__(f"{codec} cannot write this value: {reason}")
        self.codec = codec


class CodecNotWritable(ValueRefused):
    """Only Java can write this codec."""

    def __init__(self, codec: str) -> None:
        super().__init__(
            codec, "only Java writes this codec; set StringCodec or JsonJacksonCodec on both sides, or offer raw bytes."
        )


class ValueUnreadable(RedissonError):
    """The codec cannot read these bytes; they are unchanged in `value`."""

    def __init__(self, codec: str, value: bytes, reason: str) -> None:
        super().__init__(f"{codec} cannot read these {len(value):,} bytes ({value[:32].hex()}): {reason}")
        self.codec = codec
        self.value = value


class CodecNotReadable(ValueUnreadable):
    """Only Java can read this value; its bytes are in `value`."""

    def __init__(self, codec: str, value: bytes) -> None:
        super().__init__(codec, value, "only Java reads such an object; use StringCodec or JsonJacksonCodec for it.")


class MemberUnreadable(RedissonError):
    """A member has neither of Redisson's envelopes; move it aside, or Java's transfer stops at it."""

    def __init__(self, member: bytes) -> None:
        super().__init__(
            f"A member of {len(member):,} bytes has neither of Redisson's envelopes ({member[:32].hex()}); "
            "move it aside, or Java's transfer stops at it."
        )
        self.member = member


class WrongType(RedissonError):
    """A key of the queue holds something else than Redisson puts there; it was left alone."""

    def __init__(self, key: str, wanted: str, found: str) -> None:
        super().__init__(f"Key {key!r} is a {found}, not a {wanted}: it was left alone. Rename it, or the queue.")
        self.key = key
        self.wanted = wanted
        self.found = found


class MemberGone(RedissonError):
    """The member is not waiting any more: it was delivered or removed meanwhile."""


class NotAllowed(RedissonError):
    """This queue may not be changed here."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"Queue {name!r} may not be changed here: {reason}")
        self.name = name


class DifferentSlots(RedissonError):
    """In a Redis Cluster two queues can be changed together only when they share a {hash tag}."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(
            f"Queues {first!r} and {second!r} are in different slots of the cluster: give them the same {{hash tag}}."
        )


class ClientUnfit(RedissonError):
    """Make the Redis client with decode_responses=False: members and values are bytes."""
