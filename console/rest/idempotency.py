"""`Idempotency-Key`: a request that is sent again with its key is answered as it was, and nothing is done twice.

The key is of the token that brings it. It is kept with a digest of the request and, once there is one, the answer, in
the Redis (or Valkey) of the house, for a day from the request on. There it survives restarts; a machine that loses its
power may have lost the last second of it. Without the header nothing is asked there.

    key kept, answer kept        the same answer again, marked; another request with this key: 422
    key kept, no answer yet      409: it is under way, or, after a minute, nobody knows what became of it
    no key                       it is done; refused with nothing stored, the key is free again

A key whose outcome is not known (the broker did not answer, the process was killed) stays taken: whether the message is
stored is for its sender to look up, with its keys.
"""

from __future__ import annotations

import hashlib
import logging
import re
import time
from collections.abc import Awaitable, Callable
from typing import Any

from django.conf import settings
from redis.asyncio import Redis
from redis.exceptions import RedisError
from starlette.requests import Request
from starlette.responses import Response

from broker.client import ClientError
from broker.client import errors as client
from console.rest.errors import (
    IdempotencyKeyInvalid,
    IdempotencyKeyMismatch,
    IdempotencyKeysAway,
    IdempotencyKeysFull,
    IdempotencyUnderWay,
    IdempotencyUnknown,
    RequestError,
)
from console.rest.responses import HEADERS

logger = logging.getLogger(__name__)

HEADER = "idempotency-key"
_RAW_HEADER = HEADER.encode()
KEPT_S = 24 * 3600
#: of one token in one hour by the clock: the answer to a batch of a thousand may have 300 KB
MOST_AN_HOUR = 20_000
UNDER_WAY_MS = 60_000
_PATIENCE_S = 5.0
_KEY = re.compile(r'"?([\x21\x23-\x5b\x5d-\x7e]{1,255})"?')
#: after them nobody knows whether something is stored
_OPEN = (client.BrokerUnreachable, client.Timeout, client.BadAnswer)

Do = Callable[[], Awaitable[Response]]


def key_of(request: Request) -> str | None:
    """Return the key that the request has, None without one. Raises IdempotencyKeyInvalid."""
    given = [value for name, value in request.scope["headers"] if name == _RAW_HEADER]
    if not given:
        return None
    found = _KEY.fullmatch(given[0].decode("latin-1").strip()) if len(given) == 1 else None
    if found is None:
        raise IdempotencyKeyInvalid("Idempotency-Key: one, of 1 to 255 printable characters without blanks and quotes.")
    return found[1]


class Keys:
    """The keys that were used lately, and what was answered."""

    def __init__(self, now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self._now_ms = now_ms
        self._server: Any = None

    async def once(self, owner: str, key: str, request: Request, body: bytes, do: Do) -> Response:
        """Do it and keep the answer, or return the answer that is kept.

        Raises IdempotencyKeyMismatch, IdempotencyUnderWay, IdempotencyUnknown, IdempotencyKeysFull,
        IdempotencyKeysAway; whatever `do` raises.
        """
        name = f"escapement:idempotency:{owner}:{key}"
        asked = f"{request.method} {request.scope['path']}?".encode() + request.scope["query_string"] + b"\n" + body
        digest = hashlib.sha256(asked).hexdigest().encode()
        kept = await self._begun(owner, name, b"%s %d" % (digest, self._now_ms()))
        if kept is not None:
            return self._again(kept, digest)
        try:
            answer = await do()
        except (RequestError, ClientError) as error:
            if not isinstance(error, _OPEN):
                await self._tried(lambda server: server.delete(name))
            raise
        whole = b"%s\n%d\n%s" % (digest, answer.status_code, bytes(answer.body))
        await self._tried(lambda server: server.set(name, whole, ex=KEPT_S))
        return answer

    async def take(self, owner: str, key: str) -> bool:
        """Take a key that is for one doing alone, whose answer is not kept; False: somebody has it.

        Raises IdempotencyKeysFull, IdempotencyKeysAway.
        """
        name = f"escapement:idempotency:{owner}:{key}"
        return await self._begun(owner, name, b"taken %d" % self._now_ms()) is None

    async def _begun(self, owner: str, name: str, mark: bytes) -> bytes | None:
        """Take the key; returns what is kept of it if somebody has it. Raises IdempotencyKeysFull,
        IdempotencyKeysAway."""
        counter = f"escapement:idempotency-count:{owner}:{self._now_ms() // 3_600_000}"
        try:
            server = self._connected()
            if await server.set(name, mark, ex=KEPT_S, nx=True):
                count = await server.incr(counter)
                if count == 1:
                    await server.expire(counter, 7_200)
                if count > MOST_AN_HOUR:
                    await server.delete(name)
                    raise IdempotencyKeysFull(f"A token uses at most {MOST_AN_HOUR:,} keys an hour.")
                return None
            kept: bytes | None = await server.get(name)
        except RedisError as error:
            logger.warning("idempotency keys cannot be read: %s", error)
            raise IdempotencyKeysAway from None
        # its day ended between both questions
        return kept if kept is not None else await self._begun(owner, name, mark)

    def _again(self, kept: bytes, digest: bytes) -> Response:
        head, _newline, rest = kept.partition(b"\n")
        known, _blank, begun_ms = head.partition(b" ")
        if known != digest:
            raise IdempotencyKeyMismatch
        if not rest:
            if self._now_ms() - int(begun_ms) < UNDER_WAY_MS:
                raise IdempotencyUnderWay
            raise IdempotencyUnknown
        status, _newline, body = rest.partition(b"\n")
        return Response(body, int(status), HEADERS | {"idempotency-replayed": "true"}, "application/json")

    async def _tried(self, step: Callable[[Any], Awaitable[Any]]) -> None:
        """Change what is kept; where that fails, the outcome of the key is not known any more, and it stays taken."""
        try:
            await step(self._connected())
        except RedisError as error:
            logger.warning("the outcome of an idempotency key cannot be kept: %s", error)

    def _connected(self) -> Any:
        if self._server is None:
            self._server = Redis.from_url(
                settings.REDIS_URL, socket_timeout=_PATIENCE_S, socket_connect_timeout=_PATIENCE_S
            )
        return self._server

    async def close(self) -> None:
        """End all connections to Redis."""
        server, self._server = self._server, None
        if server is not None:
            await server.aclose()
