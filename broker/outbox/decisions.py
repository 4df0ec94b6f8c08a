"""What became of a half: asked of the database itself, by any process that reaches it.

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
"""

from __future__ import annotations

import logging
import time

from django.db import Error, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from ..client import Decision, Message
from .configuration import transaction_limit_s
from .models import OutboxHalf
from .origin import PROPERTY, Origin, find_connection, read_origin
from .retention import KEEP_OWED_S

logger = logging.getLogger(__name__)


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
        return decide(connection, origin, transaction_id, age_s=time.time() - message.born_ms / 1000)
    except Error as error:
        logger.warning("half %s cannot be decided now: %s", transaction_id, error)
        return Decision.UNKNOWN
    finally:
        connections.close_all()


def decide(connection: BaseDatabaseWrapper, origin: Origin, transaction_id: str, *, age_s: float) -> Decision:
    """What the database says; `connection` must be outside of the transaction in question. Raises Error."""
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
    """The state of the half's row as the connection sees it; None if there is no row."""
    rows = OutboxHalf.objects.using(connection.alias).filter(pk=transaction_id)
    return rows.values_list("state", flat=True).first()


def confirmed(message: Message, decision: Decision) -> None:
    """A broker took our answer to a check: the row owes nothing any more, and further copies are dropped."""
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
