"""The locks that make each broker be mirrored by one mirror only: PostgreSQL's advisory locks, one a broker.

A lock belongs to a database session: whoever dies lets it go, and another takes it. So several mirrors share the
brokers of a cluster, in one process or in many.
"""

from __future__ import annotations

import logging
import zlib

from django.db import DatabaseError, InterfaceError, connections

logger = logging.getLogger(__name__)

#: first key of all of them, "ESCA"; any number that nobody else uses in this database
FIRST_KEY = 0x45534341


class MirrorBusyError(RuntimeError):
    """Another mirror follows the broker already."""

    def __init__(self, name: str) -> None:
        super().__init__(f"Another mirror holds the lock of {name}; stop its worker first, or leave it the work.")


class Lock:
    """The lock of one name, a broker's or another. One thread uses it: the session is that of its thread."""

    def __init__(self, name: str, database: str) -> None:
        self.name = name
        self._database = database
        self._keys = (FIRST_KEY, second_key(name))
        #: the database session that holds the lock
        self._held_by: int | None = None

    def hold(self) -> None:
        """Hold it, or go on to; raises MirrorBusyError where somebody else does, DatabaseError."""
        if self._held_by is None or self._held_by != self._session():
            if not self._try():
                raise MirrorBusyError(self.name)
            self._held_by = self._session()

    def forget(self) -> None:
        """Note that the session that held it has ended."""
        self._held_by = None

    def release(self) -> None:
        """Let it go; nothing happens when it is not ours."""
        if self._held_by is None:
            return
        self._held_by = None
        try:
            with connections[self._database].cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s, %s)", self._keys)
        except (DatabaseError, InterfaceError):
            logger.info("The lock of %s went with its connection", self.name)

    def _try(self) -> bool:
        """Take it without waiting; return whether it is ours. Taking it twice counts twice."""
        with connections[self._database].cursor() as cursor:
            cursor.execute("SELECT pg_try_advisory_lock(%s, %s)", self._keys)
            row = cursor.fetchone()
        return bool(row and row[0])

    def _session(self) -> int | None:
        """Return the process id of this thread's database session; None while there is none."""
        here = connections[self._database].connection
        return None if here is None else int(here.info.backend_pid)


def second_key(name: str) -> int:
    """Return a number of 32 bits with a sign for a name.

    >>> -(1 << 31) <= second_key("broker-a") < 1 << 31
    True
    """
    return zlib.crc32(name.encode("utf-8", "replace")) - (1 << 31)
