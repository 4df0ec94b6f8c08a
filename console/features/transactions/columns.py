"""Columns of the lists of transactions: undecided, parked, decided."""

from __future__ import annotations

from collections.abc import Mapping

from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from console.ui.table import AGE, KEY, LEFT, MOMENT, SPAN, VALUE, Cell, Choice, Column, Table

_FILE = (
    "offset position state group topic transaction_id keys tag store_ms checks next_check_ms parked_ms decided_ms by"
    " reason"
)
_NAME = pgettext_lazy("half", "Transaction")
_FIRST = (
    Column("name", _NAME, KEY, in_file=False, page="transaction", page_field="position", length=60),
    Column("state", _("State"), Cell("transactions/cells/state.html", by=(VALUE,))),
    Column("store_ms", _("Age"), AGE),
    Column("topic", _("Real topic")),
    Column("group", _("Group")),
)
_CHECKS = Column("checks", _("Checks"), Cell("transactions/cells/checks.html", is_figure=True, by=(VALUE,)))
_ASKED_CELL = Cell("transactions/cells/asked.html", by=("producers", "group", "is_alone"))
_ASKED = Column("producers", _("Would be asked"), _ASKED_CELL, in_file=False)
_CHOICE = Choice("half", "choice")

#: by the state that is listed
TRANSACTIONS: Mapping[str, Table] = {
    "open": Table(
        "transactions",
        (*_FIRST, _CHECKS, Column("next_check_ms", _("Next check"), LEFT), _ASKED),
        choice=_CHOICE,
        file_order=_FILE,
    ),
    "parked": Table(
        "transactions",
        (*_FIRST, _CHECKS, Column("parked_ms", _("Parked for"), AGE), _ASKED),
        choice=_CHOICE,
        file_order=_FILE,
    ),
    "decided": Table(
        "transactions",
        (
            *_FIRST,
            Column("decided_ms", _("When"), MOMENT),
            Column("by", _("By"), Cell("transactions/cells/by.html", by=("by", "reason"))),
            Column("took_ms", _("Took"), SPAN, in_file=False),
        ),
        file_order=_FILE,
    ),
}
