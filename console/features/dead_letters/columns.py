"""Columns of the groups with dead letters, and of the dead letters of one."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from console.ui.table import AGE, CHIP, FIGURE, LOUD, NAME, VALUE, Cell, Choice, Column, Table, file_columns

GROUPS = Table(
    "dead-letter-groups",
    (
        Column("name", _("Group"), NAME, page="dead_letters_of", length=80),
        Column("count", _("Dead letters"), LOUD),
        Column("stored_total", _("Ever"), FIGURE),
        Column("last_ms", _("Last one"), AGE),
        Column("members", _("Members"), FIGURE),
    ),
)

_MESSAGE = Cell("dead_letters/cells/message.html")
_TOPIC = Cell("dead_letters/cells/topic.html")
_PREVIEW = Cell("dead_letters/cells/preview.html")
_SENT_AGAIN = Cell("dead_letters/cells/sent_again.html", by=(VALUE,))

DEAD_LETTERS = Table(
    "dead-letters",
    (
        *file_columns("queue_id offset"),
        Column("name", _("Message"), _MESSAGE, in_file=False, page="message", page_field="offset_message_id"),
        Column("topic", _("Topic"), _TOPIC, page="topic"),
        *file_columns("keys"),
        Column("tag", _("Tag"), CHIP, length=30),
        *file_columns("unique_key offset_message_id"),
        Column("preview", _("Body"), _PREVIEW),
        Column("attempts", _("Tries"), FIGURE),
        Column("born_ms", _("Sent first"), AGE),
        Column("died_ms", _("Died"), AGE),
        *file_columns("size_bytes"),
        Column("sent_again", _("Sent again"), _SENT_AGAIN),
    ),
    choice=Choice("letter", "choice"),
    file_order=(
        "queue_id offset topic keys tag unique_key offset_message_id born_ms died_ms attempts size_bytes preview"
        " sent_again"
    ),
)
