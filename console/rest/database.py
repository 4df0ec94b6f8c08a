"""The database as the REST application uses it beside its loop: a thread with one connection for each purpose."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from django.db import DatabaseError, OperationalError, connection

Result = TypeVar("Result")


class DatabaseThread:
    """One thread with one database connection, which is made again when the server was started again."""

    def __init__(self, name: str) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)

    async def run(self, work: Callable[[], Result]) -> Result:
        """What `work` gives; raises DatabaseError when it failed on a new connection, too."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, with_database, work)

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
