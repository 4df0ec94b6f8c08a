"""Columns of the list of connected clients."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from console.ui.table import AGE, VALUE, Cell, Column, Table, file_columns

CLIENTS = Table(
    "clients",
    (
        Column("client_id", _("Client"), Cell("clients/cells/client.html")),
        Column("role", _("Role"), Cell("clients/cells/role.html", by=(VALUE,))),
        Column("group", _("Group"), Cell("clients/cells/group.html", by=("role", "group"))),
        Column("address", _("Address"), Cell("clients/cells/address.html", by=(VALUE,))),
        Column("language", _("Language"), length=20),
        Column("version", _("Version"), Cell("clients/cells/version.html", is_figure=True, by=(VALUE,))),
        Column("since_ms", _("Since"), AGE),
        Column("seen_ms", _("Last heartbeat"), AGE),
        *file_columns("consume_type message_model"),
        Column("subscriptions", _("Subscribes to"), Cell("clients/cells/subscriptions.html", by=(VALUE,))),
        Column("locked", _("Holds in order"), Cell("clients/cells/locked.html", by=(VALUE,)), in_file=False),
    ),
    row_id="client",
    file_order="role group client_id",
)
