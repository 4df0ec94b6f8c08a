"""Where a half comes from: the mark that lets any process ask the right database what became of its transaction.

Property ESC_XID of the half:

    pg/<system identifier>/<database oid>/<transaction id>     PostgreSQL
    row/<name of the connection in DATABASES>                  any other database

The system identifier is made by initdb and shared by a cluster's replicas, and no two clusters have the same one: so
the transaction id of one database is never looked up in another.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.db import Error, connections
from django.db.backends.base.base import BaseDatabaseWrapper

PROPERTY = "ESC_XID"
_IDENTITY = (
    "SELECT (SELECT system_identifier FROM pg_control_system())::text,"
    " (SELECT oid FROM pg_database WHERE datname = current_database())::text"
)


@dataclass(frozen=True, slots=True)
class Origin:
    """A database, and (PostgreSQL) a transaction of it. `xid` is empty where the row alone decides."""

    database: str
    xid: str

    def mark(self) -> dict[str, str]:
        """The property that the half carries."""
        return {PROPERTY: f"{self.database}/{self.xid}" if self.xid else self.database}


def current_origin(connection: BaseDatabaseWrapper) -> Origin:
    """The transaction that `connection` is in; on PostgreSQL this gives it an id if it has none yet."""
    if connection.vendor != "postgresql":
        return Origin(f"row/{connection.alias}", "")
    with connection.cursor() as cursor:
        cursor.execute(f"{_IDENTITY}, pg_current_xact_id()::text")
        system, database, xid = cursor.fetchone()
    return Origin(f"pg/{system}/{database}", xid)


def read_origin(text: str) -> Origin | None:
    """The origin in a half's property; None if it is none of ours."""
    kind, _, rest = text.partition("/")
    if kind == "row" and rest:
        return Origin(text, "")
    parts = rest.split("/")
    if kind == "pg" and len(parts) == 3 and all(part.isdigit() for part in parts):
        return Origin(f"pg/{parts[0]}/{parts[1]}", parts[2])
    return None


def find_connection(origin: Origin) -> BaseDatabaseWrapper | None:
    """This thread's connection to the database of `origin`; None if no entry of DATABASES is that database.

    Raises Django's Error where that cannot be said because one of them does not answer.
    """
    if not origin.xid:
        alias = origin.database.partition("/")[2]
        return connections[alias] if alias in connections.settings else None
    failure: Error | None = None
    for alias in connections:
        connection = connections[alias]
        try:
            if connection.vendor == "postgresql" and _identity(connection) == origin.database:
                return connection
        except Error as error:
            failure = error  # it may be another one
    if failure is not None:
        raise failure
    return None


def _identity(connection: BaseDatabaseWrapper) -> str:
    with connection.cursor() as cursor:
        cursor.execute(_IDENTITY)
        system, database = cursor.fetchone()
    return f"pg/{system}/{database}"
