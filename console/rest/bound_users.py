"""What access control lets the users do that tokens are bound to, asked of the brokers at most a moment ago."""

from __future__ import annotations

import asyncio
import logging
import time

from broker.client import AsyncAdmin, ClientError
from broker.client.admin_access import UserAccess

from .errors import PoliciesUnreadable

logger = logging.getLogger(__name__)

#: A policy that was taken away works at most this long (as a token that was revoked).
CACHE_S = 0.8


class BoundUsers:
    """Users that were asked for lately. Requests of one user share one question; there are as many as tokens name."""

    def __init__(self, admin: AsyncAdmin) -> None:
        self._admin = admin
        self._known: dict[str, tuple[float, tuple[UserAccess, ...]]] = {}
        self._asking: dict[str, asyncio.Task[tuple[UserAccess, ...]]] = {}

    async def access_of(self, user: str) -> tuple[UserAccess, ...]:
        """What each broker with access control lets the user do; none has it: (). Raises PoliciesUnreadable."""
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
