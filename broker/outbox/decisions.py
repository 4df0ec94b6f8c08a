"""The decision on a half, asked of the database itself by any process that reaches it, and how long its row is kept.

PostgreSQL (pg_xact_status of the transaction that sent it):

| status       | row  | decision                                                      |
|--------------|------|---------------------------------------------------------------|
| in progress  |      | unknown: asked again later                                    |
| aborted      |      | roll back                                                     |
| committed    | yes  | commit (see OutboxHalf for a copy of what was confirmed)      |
| committed    | no   | roll back: its savepoint was rolled back                      |
| too long ago | yes  | commit                                                        |
| too long ago | no   | unknown: the row may have been cleaned; a person decides      |

Other databases: a row commits; no row is unknown until ESCAPEMENT_TRANSACTION_LIMIT_S after the half, then roll back.

A half to be committed whose message is on its topic already is rolled back: another commit would show it once more.

Which database and which transaction that is stands in property ESC_XID of the half:

    pg/<system identifier>/<database oid>/<transaction id>     PostgreSQL
    row/<name of the connection in DATABASES>                  any other database

The system identifier is made by initdb and shared by a cluster's replicas, and no two clusters have the same one: so
the transaction id of one database is never looked up in another.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from datetime import timedelta

from django.db import Error, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils import timezone

from ..client import Admin, ClientError, Decision, Message
from ..rocketmq.message import written_address
from .configuration import namesrv, transaction_limit_s
from .models import OutboxHalf

logger = logging.getLogger(__name__)

#: A row whose commit the broker has confirmed is kept this long, for checks that were under way.
KEEP_CONFIRMED_S = 24 * 3600
#: A row whose commit was never confirmed; a half that is older is decided by a person, never by a missing row.
KEEP_OWED_S = 30 * 24 * 3600


def check(message: Message) -> Decision:
    """Answer a broker's check of a half, in a thread of its own: its connections are closed afterwards.

    Never raises for a database that cannot be asked.
    """
    origin = read_origin(message.properties.get(PROPERTY, ""))
    transaction_id = message.unique_key
    if origin is None or transaction_id is None:
        logger.error("a half of %s was not sent by transactional(): nothing is known of it", message.topic)
        return Decision.UNKNOWN
    try:
        connection = find_connection(origin)
        if connection is None:
            logger.error("no entry of DATABASES is %s, which half %s is of", origin.database, transaction_id)
            return Decision.UNKNOWN
        decision = decide(connection, origin, transaction_id, age_s=time.time() - message.born_ms / 1000)
        if decision is Decision.COMMIT and is_shown(message):
            OutboxHalf.objects.using(connection.alias).filter(pk=transaction_id).update(state=OutboxHalf.State.DONE)
            return Decision.ROLLBACK
        return decision
    except Error as error:
        logger.warning("half %s cannot be decided now: %s", transaction_id, error)
        return Decision.UNKNOWN
    finally:
        connections.close_all()


def is_shown(message: Message) -> bool:
    """Tell whether the broker that asks about a half has its message on the topic already; False if it cannot be asked.

    Apache RocketMQ keeps the word of a commit in memory for up to transactionOpBatchInterval (3 s): killed meanwhile,
    it asks again about what consumers have seen. So it does about the copies that it makes of a half for each check.
    """
    asks = written_address(*message.store_host)
    try:
        with Admin(namesrv()) as admin:
            if message.unique_key is None or asks not in [each.address for each in admin.brokers()]:
                return False
            return bool(admin.records_by_id(message.topic, message.unique_key, 1, address=asks))
    except ClientError as error:
        logger.info("whether half %s is shown already cannot be asked: %s", message.unique_key, error)
        return False


def decide(connection: BaseDatabaseWrapper, origin: Origin, transaction_id: str, *, age_s: float) -> Decision:
    """Decide by what the database says; `connection` must be outside of the transaction in question. Raises Error."""
    if not origin.xid:
        if (state := row_state(connection, transaction_id)) is not None:
            return _of_row(state)
        return Decision.ROLLBACK if age_s > transaction_limit_s() else Decision.UNKNOWN
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_is_in_recovery(), pg_xact_status(%s::xid8)", [origin.xid])
        is_replica, status = cursor.fetchone()
    if is_replica or status == "in progress":
        return Decision.UNKNOWN
    if status == "aborted":
        return Decision.ROLLBACK
    state = row_state(connection, transaction_id)  # a statement of its own: its snapshot is newer than the commit
    if state is not None:
        return _of_row(state)
    return Decision.ROLLBACK if status == "committed" and age_s < KEEP_OWED_S else Decision.UNKNOWN


def row_state(connection: BaseDatabaseWrapper, transaction_id: str) -> str | None:
    """Return the state of the half's row as the connection sees it; None if there is no row."""
    rows = OutboxHalf.objects.using(connection.alias).filter(pk=transaction_id)
    return rows.values_list("state", flat=True).first()


def confirmed(message: Message, decision: Decision) -> None:
    """Note that a broker took our answer to a check: the row owes nothing more, further copies are dropped."""
    origin = read_origin(message.properties.get(PROPERTY, ""))
    if decision is not Decision.COMMIT or origin is None:
        return
    try:
        connection = find_connection(origin)
        if connection is not None:
            rows = OutboxHalf.objects.using(connection.alias).filter(pk=message.unique_key)
            rows.update(state=OutboxHalf.State.DONE)
    except Error as error:
        logger.warning("half %s: its row stays as it is: %s", message.unique_key, error)
    finally:
        connections.close_all()


def _of_row(state: str) -> Decision:
    return Decision.ROLLBACK if state == OutboxHalf.State.DONE else Decision.COMMIT


# Where a half comes from.

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
        """Return the property in which a half names its database and transaction."""
        return {PROPERTY: f"{self.database}/{self.xid}" if self.xid else self.database}


def current_origin(connection: BaseDatabaseWrapper) -> Origin:
    """Return the transaction that `connection` is in; on PostgreSQL this gives it an id if it has none yet."""
    if connection.vendor != "postgresql":
        return Origin(f"row/{connection.alias}", "")
    with connection.cursor() as cursor:
        cursor.execute(f"{_IDENTITY}, pg_current_xact_id()::text")
        system, database, xid = cursor.fetchone()
    return Origin(f"pg/{system}/{database}", xid)


def read_origin(text: str) -> Origin | None:
    """Return the origin in a half's property; None if it is none of ours."""
    kind, _, rest = text.partition("/")
    if kind == "row" and rest:
        return Origin(text, "")
    parts = rest.split("/")
    if kind == "pg" and len(parts) == 3 and all(part.isdigit() for part in parts):
        return Origin(f"pg/{parts[0]}/{parts[1]}", parts[2])
    return None


def find_connection(origin: Origin) -> BaseDatabaseWrapper | None:
    """Return this thread's connection to the database of `origin`; None if no entry of DATABASES is that database.

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


def clean(using: str) -> int:
    """Delete the rows of halves that are older than they are kept; return how many."""
    now = timezone.now()
    rows = OutboxHalf.objects.using(using)
    settled = rows.exclude(state=OutboxHalf.State.OWED).filter(written_at__lt=now - timedelta(seconds=KEEP_CONFIRMED_S))
    owed = rows.filter(written_at__lt=now - timedelta(seconds=KEEP_OWED_S))
    return settled.delete()[0] + owed.delete()[0]
