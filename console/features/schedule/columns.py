"""Columns of the messages of one lane."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from console.ui.table import CHIP, SIZE, TIME, Cell, Column, Table, file_columns

LANE = Table(
    "lane",
    (
        Column("leaves", _("Leaves in"), Cell("schedule/cells/leaves.html", is_figure=True), "due_ms", in_file=False),
        Column("due_ms", _("Due"), TIME),
        *file_columns("released"),
        Column("real_topic", _("Topic"), Cell("schedule/cells/topic.html", by=("real_topic", "real_queue_id"))),
        *file_columns("real_queue_id"),
        Column("keys", _("Key"), Cell("schedule/cells/keys.html")),
        Column("tag", _("Tag"), CHIP, length=30),
        Column("size_bytes", _("Size"), SIZE),
        Column("offset", _("Offset"), Cell("schedule/cells/offset.html", is_figure=True)),
        Column("position", _("Position"), Cell("schedule/cells/position.html", is_figure=True)),
        Column("open", _("Message"), Cell("schedule/cells/open.html"), "offset_message_id", in_file=False),
    ),
    row_id="parked",
    row_id_field="offset",
    file_order=(
        "offset position due_ms released real_topic real_queue_id keys tag unique_key offset_message_id size_bytes"
        " store_ms"
    ),
)
