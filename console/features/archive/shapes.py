"""What the archive's page shows: what there is of each broker, the records that were found, and the columns of both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from console.ui.table import BROKER, CHIP, FIGURE, MOMENT, SIZE, TEXT, Cell, Column, Table, file_columns

_KEYS = Cell("archive/cells/keys.html", text=lambda value, _place: ", ".join(value)[:80])

RECORDS = Table(
    "archive",
    (
        Column("store_ms", _("Stored"), MOMENT),
        Column("what", _("Record"), TEXT, in_file=False),
        *file_columns("kind"),
        Column("topic", _("Topic"), TEXT, length=60),
        Column("keys", _("Key"), _KEYS),
        Column("tag", _("Tag"), CHIP, length=30),
        Column("due_ms", _("Due"), MOMENT),
        Column("unique_key", _("Message id"), TEXT, length=40),
        Column("size_bytes", _("Size"), SIZE),
        Column("position", _("Position"), FIGURE),
        *file_columns("queue_id queue_offset born_ms born_host producer_group ends_position"),
        BROKER,
    ),
)
EXTENTS = Table(
    "archived",
    (
        Column("broker", _("Broker")),
        Column("first_ms", _("First stored"), MOMENT),
        Column("last_ms", _("Last stored"), MOMENT),
        Column("records", _("Records"), FIGURE),
        Column("segments", _("Segments"), FIGURE),
        Column("size_bytes", _("Size"), SIZE),
        Column("log_bytes", _("Size of the log"), SIZE),
        Column("missing_bytes", _("Missing"), SIZE),
    ),
)

#: What a record is, by its kind, and of messages by how they came to be there.
_WHAT: Mapping[str, str | Promise] = {
    "plain": _("sent"), "released": _("delivered when due"), "committed": _("committed"), "level": _("delayed"),
    "timer": _("timer"), "replaced": _("timer, moved"), "rolled": _("timer, written again"), "delete": _("cancelled"),
    "half": _("half message"), "op": _("decision"), "stuck": _("check limit reached"), "note": _("broker's own note"),
    "damage": _("damaged"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Extent:
    """What there is of one broker."""

    broker: str
    #: when its first record and its last were stored; None: there is none
    first_ms: int | None
    last_ms: int | None
    records: int
    segments: int
    size_bytes: int
    #: of the segments when they were in the log
    log_bytes: int
    #: between what there is
    missing_bytes: int
    #: files that cannot be read
    unreadable: tuple[str, ...]

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> Extent:
        """Return what the archive's process said of a broker."""
        return cls(
            said["broker"],
            said["first_ms"],
            said["last_ms"],
            said["records"],
            said["segments"],
            said["bytes"],
            said["log_bytes"],
            sum(end - start for start, end in said["gaps"]),
            tuple(said["unreadable"]),
        )


@dataclass(frozen=True, slots=True)
class Archived:
    """A record of the archive."""

    broker: str
    position: int
    #: what it is, a key of _WHAT
    kind: str
    #: the topic that it is about
    topic: str
    keys: tuple[str, ...]
    tag: str
    unique_key: str
    store_ms: int | None
    due_ms: int | None
    born_ms: int | None
    born_host: str
    producer_group: str
    queue_id: int | None
    queue_offset: int | None
    size_bytes: int
    #: the record that it ends, or was made of
    ends_position: int | None

    @property
    def what(self) -> str:
        """What it is, for people."""
        return str(_WHAT[self.kind])

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Archived:
        """Return a record as the archive's process gives it."""
        named = ("source_position", "cancels_position", "replaces_position", "stuck_position")
        ends = next((row[name] for name in named if row[name] is not None), None)
        return cls(
            row["broker"] or "",
            row["position"],
            _kind(row),
            row["shown"] or row["topic"] or "",
            tuple((row["keys"] or "").split()),
            row["tag"] or "",
            row["unique_key"] or "",
            row["store_ms"],
            row["due_ms"],
            row["born_ms"],
            row["born_host"] or "",
            row["producer_group"] or "",
            row["queue_id"],
            row["queue_offset"],
            row["size"],
            row["prepared_position"] if row["committed"] else ends,
        )


def _kind(row: Mapping[str, Any]) -> str:
    kind = str(row["kind"])
    if kind == "parked":
        return "replaced" if row["replaces_position"] is not None else str(row["mode"])
    if kind == "plain" and (row["released"] or row["committed"]):
        return "released" if row["released"] else "committed"
    return kind if kind in _WHAT else "note"


@dataclass(frozen=True, slots=True)
class ArchivePage:
    """What was found, or without a search what there is."""

    now_ms: int
    rows: tuple[Archived, ...] = ()
    extents: tuple[Extent, ...] = ()
    #: more were found than are shown
    is_cut: bool = False
    #: why the archive did not answer; empty: it did
    error: str = ""
    #: files that could not be searched
    unreadable: tuple[str, ...] = ()
    has_several: bool = False
    table: ClassVar[Table] = RECORDS
    extents_table: ClassVar[Table] = EXTENTS
