"""Columns of the list of timers, and of those that fire next."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from console.ui.table import AGE, CHIP, KEY, LEFT, MOMENT, SIZE, TIME, VALUE, Cell, Choice, Column, Table, file_columns

_LEFT = Column("left", _("In"), LEFT, field="due_ms", in_file=False)
_TOPIC = Column("topic", _("Topic"))
_NAME = Column("name", _("Key"), KEY, in_file=False, page="timer", page_field="position", length=60)
_SIZE = Column("size_bytes", _("Size"), SIZE)
_ROLLED = Column("rolled", _("Life"), Cell("timers/cells/rolled.html", by=(VALUE,)))

TIMERS = Table(
    "timers",
    (
        Column("position"),
        Column("due_ms", _("Due"), MOMENT),
        _LEFT,
        _TOPIC,
        _NAME,
        *file_columns("queue_id schedule_key keys"),
        Column("tag", _("Tag"), CHIP, length=30),
        *file_columns("unique_key message_id"),
        _SIZE,
        Column("store_ms", _("Parked for"), AGE),
        _ROLLED,
    ),
    choice=Choice("position", "position"),
)

NEXT_TIMERS = Table(
    "timers",
    (Column("due_ms", _("Due"), TIME), _LEFT, _TOPIC, _NAME, _SIZE, _ROLLED),
    row_id="timer",
    row_id_field="position",
)
