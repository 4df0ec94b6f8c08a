"""Columns of the messages that were found."""

from __future__ import annotations

from dataclasses import replace

from django.utils.translation import gettext_lazy as _

from console.ui.table import CHIP, MOMENT, SIZE, Cell, Column, Table, file_columns

#: in all topics
MESSAGES = Table(
    "messages",
    (
        Column("message", _("Message"), Cell("messages/cells/message.html"), "offset_message_id", in_file=False),
        Column("topic", _("Topic"), Cell("messages/cells/topic.html", by=("topic",))),
        *file_columns("unique_key offset_message_id"),
        Column("store_ms", _("Stored"), MOMENT),
        Column("pending", _("State"), Cell("messages/cells/state.html", by=("pending",))),
        Column("keys", _("Key"), Cell("messages/cells/keys.html")),
        Column("tag", _("Tag"), CHIP, length=30),
        Column("size_bytes", _("Size"), SIZE),
    ),
    file_order="topic unique_key offset_message_id keys tag store_ms size_bytes pending due_ms",
)
#: in one topic, which the page names above the list
MESSAGES_OF_TOPIC = replace(MESSAGES, columns=tuple(each for each in MESSAGES.columns if each.name != "topic"))
