"""The database as threads of the REST interface use it: one connection each, made again when the server was."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from django.db import DatabaseError, OperationalError, connection

Result = TypeVar("Result")


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


def close_connection() -> None:
    """Close the connection of the thread that this runs in."""
    connection.close()
