"""Dead letters: groups that have some, the letters of one, the columns of both lists, and places in them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from django.utils.translation import gettext_lazy as _

from console.operations.fates import Became
from console.site.evidence import Evidence
from console.site.merged import Places, read_cursor, write_cursor
from console.site.parsing import whole_number
from console.ui.ordering import Sorting
from console.ui.table import AGO, BROKER, CHIP, FIGURE, LOUD, NAME, VALUE, Cell, Choice, Column, Table, file_columns

GROUPS = Table(
    "dead-letter-groups",
    (
        Column("name", _("Group"), NAME, page="dead_letters_of", length=80, sort="name"),
        Column("count", _("Dead letters"), LOUD, sort="count"),
        Column("stored_total", _("Total"), FIGURE, sort="total"),
        Column("last_ms", _("Latest"), AGO, sort="last"),
        Column("members", _("Members"), FIGURE, sort="members"),
        BROKER,
    ),
)

#: the order of that list for which none was asked
MOST = "-count"

_MESSAGE = Cell("dead_letters/cells/message.html")
_TOPIC = Cell("dead_letters/cells/topic.html")
_PREVIEW = Cell("dead_letters/cells/preview.html")
_SENT_AGAIN = Cell("dead_letters/cells/sent_again.html", by=(VALUE, "became"))
_ERROR = Cell("dead_letters/cells/error.html", by=(VALUE,))
_STATE = Cell("dead_letters/cells/state.html", by=(VALUE,))
_COPY = Cell("dead_letters/cells/copy.html")

DEAD_LETTERS = Table(
    "dead-letters",
    (
        *file_columns("queue_id offset"),
        Column(
            "name",
            _("Message"),
            _MESSAGE,
            in_file=False,
            page="message",
            page_field="offset_message_id",
            page_broker="broker",
        ),
        Column("topic", _("Topic"), _TOPIC, page="topic"),
        *file_columns("keys"),
        Column("tag", _("Tag"), CHIP, length=30),
        *file_columns("unique_key offset_message_id"),
        Column("last_error", _("Last error"), _ERROR),
        Column("preview", _("Body"), _PREVIEW),
        Column("attempts", _("Failed deliveries"), FIGURE),
        Column("born_ms", _("First sent"), AGO),
        Column("died_ms", _("Dead-lettered"), AGO),
        *file_columns("size_bytes"),
        Column("sent_again", _("Resent"), _SENT_AGAIN),
        *file_columns("became.fate became.message_id"),
        Column("state", _("State"), _STATE),
        BROKER,
        Column("copy", _("Edit"), _COPY, field="offset_message_id", in_file=False),
    ),
    choice=Choice("letter", "choice"),
    file_order=(
        "queue_id offset topic keys tag unique_key offset_message_id born_ms died_ms attempts size_bytes preview"
        " sent_again last_error state"
    ),
)

#: the address of the page to which operations on dead letters belong
PAGE = "dead_letters"
#: operations that say what became of a letter, and send nothing
MARKING = ("dead_letters.mark_handled", "dead_letters.reopen", "dead_letters.hide")
#: outcomes of letters that were sent again
SENT_BACK, SENT_AS_NEW = "sent_back", "sent_as_new"

#: which are listed: those that nobody has dealt with, those that are handled, or both; hidden ones never are
OPEN, HANDLED, ALL = "", "handled", "all"
STATES = (OPEN, HANDLED, ALL)
#: in a filter: letters without an error that anybody reported
NO_ERROR = "-"
#: what differs between two errors of one kind
_NUMBERS = re.compile(r"\d+")


#: where the list of one broker goes on: queue and the offset behind its first
Place = tuple[int, int]
#: where a list goes on; of several brokers the place of each, as a text. None: at its beginning
After = Place | Places | None


@dataclass(frozen=True, slots=True)
class DeadLetterFilter:
    """The choice among the dead letters of a group; empty texts and None match all."""

    #: the topic in which the group got it
    topic: str = ""
    #: one of its keys, its message id or its tag, exactly
    key: str = ""
    #: died at or after, and before; epoch ms
    from_ms: int | None = None
    to_ms: int | None = None
    #: with this last error, whatever numbers are in it; NO_ERROR: without one
    error: str = ""
    #: OPEN, HANDLED or ALL
    state: str = OPEN

    @property
    def is_empty(self) -> bool:
        """Tell whether every dead letter matches that nobody has dealt with."""
        bounds = self.from_ms is not None or self.to_ms is not None
        return not (self.topic or self.key or self.error or self.state or bounds)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that its group gave up."""

    queue_id: int
    offset: int
    position: int
    offset_message_id: str
    #: the topic in which the group got it
    topic: str
    unique_key: str
    keys: tuple[str, ...]
    tag: str
    #: when it was sent first, and when it died
    born_ms: int
    died_ms: int
    attempts: int
    size_bytes: int
    #: the beginning of a text body; None: not text, or compressed
    preview: str | None
    #: why its handler gave it up; "": nobody reported that
    last_error: str = ""
    #: handled, or hidden; "": nobody has dealt with it
    state: str = ""
    #: what was done with it in this console: an outcome code; "": nothing
    sent_again: str = ""
    #: what the operation told of that
    sent: Mapping[str, Any] = field(default_factory=dict, compare=False)
    #: which item of which operation did it
    sent_by: tuple[str, int] = ("", 0)
    #: what became of it since; None: it was not sent again, or that is not known now
    became: Became | None = None
    #: where it lies, and whether the list has those of several brokers
    broker: str = ""
    of_several: bool = False

    @property
    def name(self) -> str:
        """The name that people know it by: its first key, else its unique key, else its offset id."""
        return self.keys[0] if self.keys else self.unique_key or self.offset_message_id

    @property
    def choice(self) -> str:
        """The value that names it in a form: queue and offset, and of several brokers which."""
        return f"{place_text((self.queue_id, self.offset))}{f'-{self.broker}' if self.of_several else ''}"


@dataclass(frozen=True, slots=True)
class LetterKind:
    """Dead letters of one topic with one error, numbers in it aside."""

    topic: str
    last_error: str
    count: int
    last_ms: int

    @property
    def error_filter(self) -> str:
        """The filter that finds them."""
        return self.last_error or NO_ERROR


@dataclass(frozen=True, slots=True)
class LetterKinds:
    """The kinds among the newest dead letters of a group that nobody has dealt with, those with most first."""

    group: str
    now_ms: int
    rows: tuple[LetterKind, ...]
    #: so many were read, and whether there may be more
    read: int
    is_whole: bool


def kind_of_error(error: str) -> str:
    """Return the error without what differs between two of a kind: its numbers."""
    return _NUMBERS.sub("#", error)


@dataclass(frozen=True, slots=True)
class DeadLetterGroup:
    """A group with dead letters."""

    name: str
    #: held now, and ever stored; None: some are of topics that are not seen
    count: int | None
    stored_total: int | None
    #: epoch ms of the newest; None: not known
    last_ms: int | None
    members: int | None
    #: the brokers at which they lie
    brokers: tuple[str, ...] = ()

    @property
    def broker(self) -> str:
        """The brokers at which they lie, in one text."""
        return " ".join(self.brokers)

    @property
    def uncounted(self) -> DeadLetterGroup:
        """The group without how many letters it has, and when the last one came."""
        return replace(self, count=None, stored_total=None, last_ms=None)


@dataclass(frozen=True, slots=True)
class DeadLetterGroups:
    """The groups that have dead letters, those with most first."""

    table: ClassVar[Table] = GROUPS

    evidence: Evidence
    now_ms: int
    rows: tuple[DeadLetterGroup, ...]
    has_several: bool = False
    order: str = MOST

    @property
    def sorting(self) -> Sorting:
        """The order of the list: it has no filters."""
        return Sorting(self.order)


@dataclass(frozen=True, slots=True)
class DeadLetterPage:
    """Dead letters of one group, the newest first."""

    table: ClassVar[Table] = DEAD_LETTERS

    evidence: Evidence
    now_ms: int
    group: str
    wanted: DeadLetterFilter
    rows: tuple[DeadLetter, ...]
    #: held now; None: not known
    total: int | None
    #: where the next page begins; None: this was the last
    following: After
    #: who consumes for the group now; None: not known
    members: int | None
    #: so many were looked through where the look ended before the page was full; 0: it did not
    looked: int = 0
    has_several: bool = False
    #: handled or hidden ones, whatever the filter
    dealt_with: int = 0

    @property
    def cursor(self) -> str | None:
        """The place where the next page begins, as a text that `read_after` reads."""
        if self.following is None:
            return None
        return place_text(self.following) if isinstance(self.following, tuple) else write_cursor(self.following)


def place_text(place: Place) -> str:
    """Return a place as `queue-offset`."""
    return f"{place[0]}-{place[1]}"


def read_after(text: str) -> After:
    """Read what `DeadLetterPage.cursor` gave; return None for anything else."""
    return read_place(text) or read_cursor(text) or None


def read_place(text: str) -> Place | None:
    """Read `queue-offset`; return None for anything else."""
    queue_id, offset = (whole_number(part) for part in (text.split("-", 1) if "-" in text else ("", "")))
    return None if queue_id is None or offset is None else (queue_id, offset)
