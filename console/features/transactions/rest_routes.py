"""The part of the table of REST operations that is about transactions."""

from __future__ import annotations

from collections.abc import Iterator

from broker.client.transactions import Action
from console.security.tokens import PUBLISH, READ

from ...rest.choice_schemas import OperationPreview
from ...rest.route import Operation
from ..timers.rest_bulk_schemas import OperationShown
from . import rest as transactions_rest
from . import rest_bulk
from .rest_schemas import (
    Decided,
    DecisionReason,
    HalfTaken,
    ManyTransactions,
    NewHalf,
    TransactionLifeShown,
    TransactionRows,
)

_BEGUN = ((202, "It runs, or has run already if it is small; Location says where to look.", OperationShown),)
_BEGUN_MANY = (*_BEGUN, (200, "Asked for a preview: what it would touch.", OperationPreview))
_WAITS = (202, "It waits for a second person: Location says where to look.", OperationShown)
_MANY: tuple[tuple[Action, str], ...] = (
    ("commit", "Commit chosen half messages, or all that match"),
    ("rollback", "Roll chosen half messages back, or all that match"),
    ("check", "Have the producers of chosen ones, or of all that match, asked"),
    ("resume", "Ask about chosen parked half messages again, or all that match"),
)


def _many() -> Iterator[Operation]:
    for action, summary in _MANY:
        yield Operation(
            "POST", f"/transactions:{action}", summary, PUBLISH, rest_bulk.operation(action), ManyTransactions,
            _BEGUN_MANY, narrows="body",
        )  # fmt: skip


OPERATIONS = (
    Operation(
        "POST", "/transactions", "Begin a transaction (send a half message)", PUBLISH, transactions_rest.begin, NewHalf,
        ((201, "It is on disk, and seen by nobody.", HalfTaken), (202, "Taken, not known to be on disk.", HalfTaken)),
        narrows="body",
    ),
    Operation(
        "POST", "/transactions/{id}:commit", "Commit a half message", PUBLISH, transactions_rest.steering("commit"),
        DecisionReason, ((200, "The message is in its topic, or waits for its moment.", Decided), _WAITS), narrows="id",
    ),
    Operation(
        "POST", "/transactions/{id}:rollback", "Roll a half message back", PUBLISH,
        transactions_rest.steering("rollback"), DecisionReason, ((200, "Nobody ever sees it.", Decided), _WAITS),
        narrows="id",
    ),
    Operation(
        "POST", "/transactions/{id}:check", "Have its producer asked", PUBLISH, transactions_rest.steering("check"),
        DecisionReason, ((200, "Asked at once, or as soon as a producer of its group is there.", Decided), _WAITS),
        narrows="id",
    ),
    Operation(
        "POST", "/transactions/{id}:resume", "Ask about a parked half message again", PUBLISH,
        transactions_rest.steering("resume"), DecisionReason, ((200, "Checks begin anew.", Decided), _WAITS),
        narrows="id",
    ),
    Operation(
        "GET", "/transactions", "List transactions", READ, transactions_rest.transactions, None,
        ((200, "A page of them.", TransactionRows),),
        (
            ("state", "open (default), parked or decided."), ("topic", "Only of this topic."),
            ("producer_group", "Only of this group."), ("older_than_ms", "Least age of the half; not with decided."),
            ("limit", "1 to 1,000, 100 by default."), ("cursor", "From the page before."),
        ),
        "rows",
    ),
    *_many(),
    Operation(
        "GET", "/transactions/{id}", "Look at a transaction", READ, transactions_rest.transaction, None,
        ((200, "The transaction, and what happened to it.", TransactionLifeShown),), narrows="id",
    ),
)  # fmt: skip
