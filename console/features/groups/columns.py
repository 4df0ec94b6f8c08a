"""Columns of the list of consumer groups."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from console.ui.table import FIGURE, NAME, RATE, VALUE, Cell, Column, Table, file_columns

GROUPS = Table(
    "groups",
    (
        Column("name", _("Group"), NAME, page="group"),
        Column("state", _("State"), Cell("groups/cells/state.html", by=(VALUE,))),
        Column("lag", _("Lag"), FIGURE),
        Column("consumed_per_s", _("Consumed"), RATE, unit="/s"),
        Column("members", _("Members"), FIGURE),
        Column("topics", _("Topics"), FIGURE),
        Column("retry", _("Waiting for another try"), FIGURE),
        Column("dead", _("Dead letters"), Cell("groups/cells/dead.html", is_figure=True, by=(VALUE,))),
        *file_columns("consume_enable retry_max_times"),
    ),
    row_id="group",
    file_order="name state members topics lag retry dead consumed_per_s",
)
