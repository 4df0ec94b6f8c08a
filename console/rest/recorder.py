"""Keep what single calls did as operations: those that end in the same moment are written together."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from django.db import DatabaseError

from console.operations.actor import Actor
from console.operations.kind import ItemResult, Target
from console.operations.single_calls import Single, record
from console.security.tokens import Grant

from .database import DatabaseThread, with_database

logger = logging.getLogger(__name__)

#: most that are written at once
BATCH = 200


class Recorder:
    """Writes operations in the background of the requests that wait for them, many in one statement."""

    def __init__(self) -> None:
        self._thread = DatabaseThread("api-recorder")
        self._waiting: list[tuple[Single, asyncio.Future[bool]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def keep(
        self, kind: str, parameters: Mapping[str, Any], item: Target, result: ItemResult, grant: Grant, reason: str
    ) -> str | None:
        """The address of the operation, when it is written.

        None: the database does not answer. The broker's log has who and why all the same, and the program's log what.
        """
        single = Single(
            uuid.uuid4(), kind, parameters, item, result, token_actor(grant), reason, time.time_ns() // 1_000_000
        )
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
    """The token as the audit knows it."""
    return Actor(f"token {grant.name}", permissions, grant.user_id)


def _recorded(singles: Sequence[Single]) -> list[bool]:
    """Whether each was written; one that cannot be keeps no other from it."""
    try:
        with_database(lambda: record(singles))
    except DatabaseError as error:
        if len(singles) > 1:
            return [kept for single in singles for kept in _recorded([single])]
        logger.error("%s was done and is not kept as an operation: %s", singles[0], error)
        return [False]
    return [True] * len(singles)
