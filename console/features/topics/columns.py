"""Columns of the list of topics, and of the messages of a queue."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from django.utils.safestring import SafeString
from django.utils.translation import get_language, gettext
from django.utils.translation import gettext_lazy as _

from console.site.history import History
from console.templatetags.charts import sparks
from console.templatetags.escapement import figure
from console.ui.table import AGE, FIGURE, LABEL, NAME, RATE, VALUE, Cell, Column, Table, file_columns


@cache
def _line(_language: str | None) -> Callable[[History], SafeString]:
    """What draws the last minutes of a topic, with its words in this language."""
    return sparks(gettext("Stored"))


#: nothing is said in figures of a topic that was never used
_HELD = Cell(
    "topics/cells/held.html",
    is_figure=True,
    text=lambda value, place: "" if place.row.never_used else figure(value),
)
_SENDS = Cell("ui/cells/text.html", text=lambda value, _place: _line(get_language())(value))
_QUEUES = Cell("topics/cells/queues.html", is_figure=True, by=("read_queues", "write_queues"))

TOPICS = Table(
    "topics",
    (
        Column("name", _("Topic"), NAME, page="topic", sort="name"),
        Column("kind", _("Kind"), LABEL),
        Column("messages", _("Held"), _HELD, sort="messages"),
        Column("stored_total", _("Ever stored"), FIGURE),
        Column("sends", _("Last 5 min"), _SENDS, in_file=False),
        Column("sends_per_s", _("Stored"), RATE, unit="/s", sort="rate"),
        Column("last_ms", _("Last message"), AGE, sort="last"),
        Column("read_queues", _("Queues"), _QUEUES),
        Column("write_queues"),
        Column("groups", _("Groups"), FIGURE),
        Column("permission", _("Permission"), Cell("topics/cells/permission.html", by=(VALUE,))),
    ),
    row_id="topic",
    file_order="name kind messages stored_total sends_per_s last_ms read_queues write_queues permission groups",
)

QUEUE = Table(
    "queue",
    file_columns(
        "offset position store_ms born_ms unique_key offset_message_id keys tag size_bytes reconsume_times preview"
    ),
)
