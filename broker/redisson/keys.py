"""The names of a queue's keys.

| Key | Type | Whose | Content |
|---|---|---|---|
| NAME | list | Redisson's | the target: bare values that are due |
| redisson_delay_queue_timeout:{NAME} | zset | Redisson's | members, score = due time in epoch ms |
| redisson_delay_queue:{NAME} | list | Redisson's | the same members in the order of offers |
| redisson_delay_queue_channel:{NAME} | channel | Redisson's | due time of a new head |
| escapement_delay_index:{NAME} | zset | ours | id of a member -> its number in the order of offers |
| escapement_delay_values:{NAME} | zset | ours, expires | digest of a value and number -> found by value |
| escapement_delay_aside:{NAME} | zset | ours | poison that somebody moved aside, score as before |
| escapement_delay_sending:{NAME} | zset | ours | members on their way to a topic, score as before |
| escapement_delay_mode:{NAME} | hash | ours | where due values go, when not to the target |

A name that holds a `{` anywhere is used as it is: it has its own hash tag. So all keys of a queue are in one slot of a
Redis Cluster.
"""

from __future__ import annotations

from dataclasses import dataclass

TIMEOUT_PREFIX = "redisson_delay_queue_timeout:"
_QUEUE_PREFIX = "redisson_delay_queue:"
CHANNEL_PREFIX = "redisson_delay_queue_channel:"
_INDEX_PREFIX = "escapement_delay_index:"
_VALUES_PREFIX = "escapement_delay_values:"
_ASIDE_PREFIX = "escapement_delay_aside:"
_SENDING_PREFIX = "escapement_delay_sending:"
MODE_PREFIX = "escapement_delay_mode:"


@dataclass(frozen=True, slots=True)
class QueueKeys:
    """All keys of the queue `name`, in UTF-8."""

    name: str

    @property
    def target(self) -> bytes:
        """The key of the list of due values."""
        return _encoded(self.name)

    @property
    def timeout(self) -> bytes:
        """The key of the set of waiting members by due time."""
        return self._key(TIMEOUT_PREFIX)

    @property
    def waiting(self) -> bytes:
        """The list of waiting members by the order of offers."""
        return self._key(_QUEUE_PREFIX)

    @property
    def channel(self) -> bytes:
        """The channel in which the due time of a new head is published."""
        return self._key(CHANNEL_PREFIX)

    @property
    def index(self) -> bytes:
        """Our index of places in the waiting list."""
        return self._key(_INDEX_PREFIX)

    @property
    def values(self) -> bytes:
        """Our index of values."""
        return self._key(_VALUES_PREFIX)

    @property
    def aside(self) -> bytes:
        """Poison that was moved aside."""
        return self._key(_ASIDE_PREFIX)

    @property
    def sending(self) -> bytes:
        """Members on their way to a topic."""
        return self._key(_SENDING_PREFIX)

    @property
    def mode(self) -> bytes:
        """The key of the hash that says where due values go."""
        return self._key(MODE_PREFIX)

    def _key(self, prefix: str) -> bytes:
        return _encoded(prefix + tagged(self.name))


def tagged(name: str) -> str:
    """The name in braces, or as it is when it has a `{` of its own."""
    return name if "{" in name else "{" + name + "}"


def name_of(key: bytes, prefix: str = TIMEOUT_PREFIX) -> str | None:
    """The queue that a key belongs to, None when it has another prefix.

    The keys of the queues `orders` and `{orders}` are the same; the name without braces is assumed.
    """
    text = key.decode("utf-8", "surrogateescape")
    if not text.startswith(prefix):
        return None
    tail = text[len(prefix) :]
    inner = tail[1:-1]
    if tail.startswith("{") and tail.endswith("}") and len(tail) > 1 and "{" not in inner:
        return inner
    return tail if "{" in tail else None


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
