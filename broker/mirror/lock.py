"""The advisory lock that makes one mirror the only one. It belongs to the database session: whoever dies lets it go."""

from __future__ import annotations

from django.db import connections

#: first key "Escapement", second "mirror"; any two numbers that nobody else uses in this database
LOCK_KEYS = (0x45534341, 0x4D495252)


class MirrorBusyError(RuntimeError):
    """Another mirror follows the broker already."""

    def __init__(self) -> None:
        super().__init__("Another mirror holds the lock of this database; stop its worker first, or leave it the work.")


def try_lock(database: str) -> bool:
    """Take the lock for this session without waiting; True when it is ours. Taking it twice counts twice."""
    with connections[database].cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s, %s)", LOCK_KEYS)
        row = cursor.fetchone()
    return bool(row and row[0])


def session(database: str) -> int | None:
    """The process id of this thread's database session; None while there is none."""
    here = connections[database].connection
    return None if here is None else int(here.info.backend_pid)


def unlock(database: str) -> None:
    """Let it go; nothing happens when it is not ours."""
    with connections[database].cursor() as cursor:
        cursor.execute("SELECT pg_advisory_unlock(%s, %s)", LOCK_KEYS)
