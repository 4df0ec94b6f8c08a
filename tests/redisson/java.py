"""A stand-in for Java: the operations of Redisson's client, each one atomic script of our own with the same effect.

Described in the recorded transcripts; the real client is run by `make interop`.
"""

from __future__ import annotations

import os
from typing import cast

import redis

from broker.redisson.queue import QueueKeys

_UNPACK = {
    "new": "local r, value = struct.unpack('Bc0Lc0', member)",
    "old": "local r, value = struct.unpack('dLc0', member)",
}
_OFFER = {
    "new": "local member = struct.pack('Bc0Lc0', string.len(ARGV[2]), ARGV[2], string.len(ARGV[3]), ARGV[3])",
    "old": "local member = struct.pack('dLc0', tonumber(ARGV[2]), string.len(ARGV[3]), ARGV[3])",
}
_OFFER_REST = """
redis.call('ZADD', KEYS[2], ARGV[1], member)
redis.call('RPUSH', KEYS[3], member)
if redis.call('ZRANGE', KEYS[2], 0, 0)[1] == member then redis.call('PUBLISH', KEYS[4], ARGV[1]) end
"""
_TRANSFER = """
local due = redis.call('ZRANGEBYSCORE', KEYS[2], 0, ARGV[1], 'LIMIT', 0, ARGV[2])
if #due > 0 then
  for _, member in ipairs(due) do
    {unpack}
    redis.call('RPUSH', KEYS[1], value)
    redis.call('LREM', KEYS[3], 1, member)
  end
  redis.call('ZREM', KEYS[2], unpack(due))
end
return redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2]
"""
_SEARCH = """
for place = 0, redis.call('LLEN', KEYS[3]) - 1 do
  local member = redis.call('LINDEX', KEYS[3], place)
  {unpack}
  if value == ARGV[1] then
    {found}
  end
end
return 0
"""
_REMOVE = """
    redis.call('ZREM', KEYS[2], member)
    redis.call('LREM', KEYS[3], 1, member)
    return 1
"""
_POLL = """
local member = redis.call(ARGV[1], KEYS[3])
if not member then return false end
redis.call('ZREM', KEYS[2], member)
{unpack}
if KEYS[5] then redis.call('LPUSH', KEYS[5], value) end
return value
"""
_READ_ALL = """
local values = {{}}
for _, member in ipairs(redis.call('LRANGE', KEYS[3], 0, -1)) do
  {unpack}
  values[#values + 1] = value
end
return values
"""


class ScriptedJava:
    """One Java client of a queue, of a version that writes this packing."""

    def __init__(self, client: redis.Redis, name: str, packing: str = "new") -> None:
        self.client = client
        keys = QueueKeys(name)
        self.keys = [keys.target, keys.timeout, keys.waiting, keys.channel]
        self.packing = packing

    def offer(self, value: bytes, due_ms: int) -> None:
        """offer(value, delay), with the client's clock already added."""
        random: bytes = os.urandom(8)
        if self.packing == "old":
            random = str(int.from_bytes(random, "big", signed=True)).encode()
        self._eval(_OFFER[self.packing] + _OFFER_REST, due_ms, random, value)

    def transfer(self, now_ms: int, limit: int = 100) -> float | None:
        """What the client's transfer task does; the due time of the new head."""
        head = self._eval(self._unpacking(_TRANSFER), now_ms, limit)
        return None if head is None else float(cast("bytes", head))

    def remove(self, value: bytes) -> bool:
        """remove(value)."""
        return self._eval(self._unpacking(_SEARCH, found=_REMOVE), value) == 1

    def contains(self, value: bytes) -> bool:
        """contains(value)."""
        return self._eval(self._unpacking(_SEARCH, found="return 1"), value) == 1

    def poll(self) -> bytes | None:
        """poll(): the first offered, due or not."""
        return cast("bytes | None", self._eval(self._unpacking(_POLL), "LPOP"))

    def poll_last_and_offer_first_to(self, other: str) -> bytes | None:
        """pollLastAndOfferFirstTo(other)."""
        script = self._unpacking(_POLL)
        return cast("bytes | None", self.client.eval(script, 5, *self.keys, other.encode(), "RPOP"))

    def read_all(self) -> list[bytes]:
        """readAll()."""
        return cast("list[bytes]", self._eval(self._unpacking(_READ_ALL)))

    def size(self) -> int:
        """size()."""
        return cast("int", self.client.llen(self.keys[2]))

    def clear(self) -> None:
        """clear()."""
        self.client.delete(self.keys[2], self.keys[1])

    def take_now(self) -> bytes | None:
        """poll() of the target queue."""
        return cast("bytes | None", self.client.lpop(self.keys[0].decode()))

    def _unpacking(self, script: str, **parts: str) -> str:
        return script.format(unpack=_UNPACK[self.packing], **parts)

    def _eval(self, script: str, *arguments: bytes | str | int) -> object:
        result: object = self.client.eval(script, 4, *self.keys, *arguments)
        return result
