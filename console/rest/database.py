"""REST's reads and writes in the database, in threads beside its loop: tokens, and single calls that are kept.

A token is checked against the database at most a second ago, in one thread of its own with one connection; requests
with the same token share one check. What access control lets its user do is asked of the brokers at most a moment ago.
What a route asks of them is in `access`.

Single calls are kept as operations: those that end in the same moment are written together.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from django.db import DatabaseError, OperationalError, connection
from starlette.requests import Request

from broker.client import AsyncAdmin, ClientError
from broker.client.admin import UserAccess
from console.operations.actor import Actor
from console.operations.kind import ItemResult, Target
from console.operations.single_calls import Single, record
from console.rest.errors import (
    PoliciesUnreadable,
    TokenInvalid,
    TokenLimited,
    TokenMissing,
    TokensUnreadable,
    TooManyRequests,
)
from console.rest.masking import Hiding
from console.rest.person import PersonGrant
from console.security import tokens as security_tokens
from console.security.masking import Masks, masks
from console.security.sessions import signed_in
from console.security.tokens import Grant, PoliciesOfUser
from console.site.slow_requests import for_this_request

logger = logging.getLogger(__name__)

#: A revoked token works at most this long (design: within a second; the check itself takes some milliseconds).
CACHE_S = 0.8
MAX_CACHED = 10_000
MAX_CHECKS_WAITING = 256
#: most that are written at once
BATCH = 200

Result = TypeVar("Result")


class DatabaseThread:
    """A thread with one database connection, which is made again when the server was started again."""

    def __init__(self, name: str) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)

    async def run(self, work: Callable[[], Result]) -> Result:
        """Return what `work` returns; raises DatabaseError when it failed on a new connection, too."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, with_database, for_this_request(work))

    def close(self) -> None:
        """End the thread and its connection, after the work that is under way."""
        self._thread.submit(lambda: connection.close())  # each thread has its own
        self._thread.shutdown(wait=True)


def with_database(work: Callable[[], Result]) -> Result:
    """Run `work`; once more on a new connection if the old one broke (the database was started again)."""
    try:
        return work()
    except OperationalError:
        connection.close()
    try:
        return work()
    except DatabaseError:
        connection.close()
        raise


#: tokens that are counted at the same time; when there are more, all begin anew
MAX_COUNTED = 10_000


class Rates:
    """The requests of tokens that have a limit: so many a second, those of one second at once. Each process counts for
    itself, and the web process is one."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        #: by prefix: requests that are left, and when that was counted
        self._left: dict[str, tuple[float, float]] = {}

    def require(self, grant: Grant) -> None:
        """Count a request; raises TokenLimited."""
        most = grant.requests_per_s
        if not most:
            return
        now_s = self._clock_s()
        left, at_s = self._left.get(grant.prefix, (float(most), now_s))
        left = min(float(most), left + (now_s - at_s) * most)
        if left < 1:
            raise TokenLimited(f"The token {grant.name!r} may ask {most} times a second.")
        if len(self._left) >= MAX_COUNTED:
            self._left.clear()
        self._left[grant.prefix] = (left - 1, now_s)


class Grants:
    """Tokens that were seen lately, and what they allow."""

    def __init__(self, admin: AsyncAdmin) -> None:
        self._users = BoundUsers(admin)
        self._known: dict[bytes, tuple[float, Grant | None]] = {}
        self._checking: dict[bytes, asyncio.Task[Grant | None]] = {}
        self._masks: tuple[float, Masks] | None = None
        self._thread = DatabaseThread("api-grants")
        self._rates = Rates()

    async def of(self, request: Request) -> Grant:
        """Return what the request's token allows; raises TokenMissing, TokenInvalid, TokenLimited, TokensUnreadable,
        PoliciesUnreadable."""
        grant = await self.known(request)
        self._rates.require(grant)
        if not grant.access_user:
            return grant
        of_brokers = await self._users.access_of(grant.access_user)
        if not of_brokers:
            return grant
        source = request.client.host if request.client is not None else None
        return replace(grant, policies=PoliciesOfUser(grant.access_user, of_brokers, source))

    async def known(self, request: Request) -> Grant:
        """Return the request's token without its policies, for what everybody with a token may read; raises as `of`."""
        kind, _, token = dict(request.scope["headers"]).get(b"authorization", b"").partition(b" ")
        if kind.lower() != b"bearer" or not token:
            raise TokenMissing
        key = hashlib.sha256(token).digest()
        known = self._known.get(key)
        if known is None or known[0] <= time.monotonic():
            grant = await self._check(key, token.strip().decode("latin-1"))
        else:
            grant = known[1]
        if grant is None:
            raise TokenInvalid
        return grant

    async def _check(self, key: bytes, token: str) -> Grant | None:
        if security_tokens.prefix_of(token) is None:
            return None
        task = self._checking.get(key)
        if task is None:
            if len(self._checking) >= MAX_CHECKS_WAITING:
                raise TooManyRequests("Too many tokens are being checked.")
            task = asyncio.get_running_loop().create_task(self._load(key, token))
            self._checking[key] = task
            task.add_done_callback(lambda done: self._checked(key, done))
        return await asyncio.shield(task)

    def _checked(self, key: bytes, task: asyncio.Task[Grant | None]) -> None:
        self._checking.pop(key, None)
        if not task.cancelled():
            task.exception()

    async def _load(self, key: bytes, token: str) -> Grant | None:
        asked = time.monotonic()
        grant = await self._in_thread(lambda: security_tokens.grant_of(token))
        if len(self._known) >= MAX_CACHED:
            self._known.clear()
        self._known[key] = (asked + CACHE_S, grant)
        return grant

    async def hiding(self, grant: Grant) -> Hiding:
        """Return what the rules of masks hide from the token; raises TokensUnreadable where they cannot be read."""
        known = self._masks
        if known is None or known[0] <= time.monotonic():
            asked = time.monotonic()
            known = self._masks = (asked + CACHE_S, await self._in_thread(masks))
        return Hiding(known[1], grant)

    async def signed_in(self, request: Request, cookie: str) -> bool:
        """Return whether the request comes with the session of somebody who is signed in to the console."""
        session_key = request.cookies.get(cookie)
        if not session_key or len(session_key) > 64:
            return False
        return await self._in_thread(lambda: signed_in(session_key) is not None)

    async def _in_thread(self, work: Callable[[], Result]) -> Result:
        try:
            return await self._thread.run(work)
        except DatabaseError as error:
            logger.warning("tokens cannot be checked: %s", error)
            raise TokensUnreadable from None

    def close(self) -> None:
        """End the thread and its database connection."""
        self._thread.close()


class BoundUsers:
    """The policies of users that tokens are bound to, kept for a moment; requests of one user share one question."""

    def __init__(self, admin: AsyncAdmin) -> None:
        self._admin = admin
        self._known: dict[str, tuple[float, tuple[UserAccess, ...]]] = {}
        self._asking: dict[str, asyncio.Task[tuple[UserAccess, ...]]] = {}

    async def access_of(self, user: str) -> tuple[UserAccess, ...]:
        """Return what each broker with access control lets the user do, () where none has it; raises
        PoliciesUnreadable."""
        known = self._known.get(user)
        if known is not None and known[0] > time.monotonic():
            return known[1]
        task = self._asking.get(user)
        if task is None:
            task = self._asking[user] = asyncio.get_running_loop().create_task(self._ask(user))
            task.add_done_callback(lambda done: self._asked(user, done))
        try:
            return await asyncio.shield(task)
        except ClientError as error:
            logger.warning("the policies of the user %s cannot be read: %s", user, error)
            raise PoliciesUnreadable(f"The policies of the user {user!r} cannot be read now: {error}") from None

    async def _ask(self, user: str) -> tuple[UserAccess, ...]:
        asked = time.monotonic()
        found = await self._admin.access_of(user)
        self._known[user] = (asked + CACHE_S, found)
        return found

    def _asked(self, user: str, task: asyncio.Task[tuple[UserAccess, ...]]) -> None:
        self._asking.pop(user, None)
        if not task.cancelled():
            task.exception()


class Recorder:
    """Writes operations in the background of the requests that wait for them, many in one statement."""

    def __init__(self) -> None:
        self._thread = DatabaseThread("api-recorder")
        self._waiting: list[tuple[Single, asyncio.Future[bool]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def keep(
        self,
        kind: str,
        parameters: Mapping[str, Any],
        item: Target,
        result: ItemResult,
        grant: Grant,
        reason: str,
        broker: str = "",
    ) -> str | None:
        """Return the address of the operation once it is written; `broker`: of several the one that it was done at.

        None: the database does not answer. The broker's log has who and why all the same, and the program's log what.
        """
        at_ms = time.time_ns() // 1_000_000
        single = Single(uuid.uuid4(), kind, parameters, item, result, token_actor(grant), reason, at_ms, broker)
        kept = asyncio.get_running_loop().create_future()
        self._waiting.append((single, kept))
        if self._writing is None:
            self._writing = asyncio.get_running_loop().create_task(self._write())
        return f"/api/v1/operations/{single.number}" if await asyncio.shield(kept) else None

    async def _write(self) -> None:
        try:
            while self._waiting:
                batch = self._waiting[:BATCH]
                del self._waiting[:BATCH]
                are_kept = await self._thread.run(partial(_recorded, [single for single, _ in batch]))
                for (_, kept), is_kept in zip(batch, are_kept, strict=True):
                    if not kept.done():
                        kept.set_result(is_kept)
        finally:
            self._writing = None

    def close(self) -> None:
        """End the thread and its database connection."""
        self._thread.close()


def token_actor(grant: Grant, permissions: frozenset[str] = frozenset()) -> Actor:
    """Return the token as an actor with these permissions; the audit has its name, and the number of the token.

    A person who asks without a token is that person, with no other permissions than the own ones.
    """
    if isinstance(grant, PersonGrant):
        return grant.actor
    return Actor(grant.who, permissions, grant.user_id, token=grant.prefix)


def _recorded(singles: Sequence[Single]) -> list[bool]:
    """Write operations, and return of each whether that was possible; one that is not keeps no other from it."""
    try:
        with_database(lambda: record(singles))
    except DatabaseError as error:
        if len(singles) > 1:
            return [kept for single in singles for kept in _recorded([single])]
        logger.error("%s was done and is not kept as an operation: %s", singles[0], error)
        return [False]
    return [True] * len(singles)
