"""Transactions as the pages show them: halves, op records, the board that joins them, a life, and their columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from django.db.models import TextChoices
from django.utils.functional import Promise
from django.utils.translation import gettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from console.features.checkback.registry import AddressRow
from console.last_known import Away
from console.site.evidence import Evidence
from console.site.merged import Place
from console.templatetags.escapement import due_in, figure
from console.ui.table import AGE, BROKER, KEY, LEFT, MOMENT, SPAN, VALUE, Cell, Choice, Column, Table
from console.ui.verdicts import Tone, Verdict, not_known, said

_FILE = (
    "offset position state group topic transaction_id keys tag store_ms checks next_check_ms parked_ms decided_ms by"
    " reason"
)
_NAME = pgettext_lazy("half", "Transaction")
_FIRST = (
    Column(
        "name", _NAME, KEY, in_file=False, page="transaction", page_field="position", page_broker="broker", length=60
    ),
    Column("state", _("State"), Cell("transactions/cells/state.html", by=(VALUE,))),
    Column("store_ms", _("Age"), AGE),
    Column("topic", _("Real topic"), length=40),
    Column("group", _("Group"), length=40),
)
_CHECKS = Column("checks", _("Checks"), Cell("transactions/cells/checks.html", is_figure=True, by=(VALUE,)))
_ASKED_CELL = Cell("transactions/cells/asked.html", by=("producers", "group", "is_alone"))
_ASKED = Column("producers", _("Check goes to"), _ASKED_CELL, in_file=False)
_CHOICE = Choice("half", "choice")

#: by the state that is listed
TRANSACTIONS: Mapping[str, Table] = {
    "open": Table(
        "transactions",
        (*_FIRST, _CHECKS, Column("next_check_ms", _("Next check"), LEFT), _ASKED, BROKER),
        choice=_CHOICE,
        file_order=_FILE,
    ),
    "parked": Table(
        "transactions",
        (*_FIRST, _CHECKS, Column("parked_ms", _("Parked for"), AGE), _ASKED, BROKER),
        choice=_CHOICE,
        file_order=_FILE,
    ),
    "decided": Table(
        "transactions",
        (
            *_FIRST,
            Column("decided_ms", _("Time"), MOMENT),
            Column("by", _("Decided by"), Cell("transactions/cells/by.html", by=("by", "reason"))),
            Column("took_ms", _("Run time"), SPAN, in_file=False),
            BROKER,
        ),
        file_order=_FILE,
    ),
}
#: of several brokers: a box says whose the half is
OF_ALL: Mapping[str, Table] = {
    state: replace(table, choice=table.choice and Choice("half", "choice_of_all"))
    for state, table in TRANSACTIONS.items()
}


#: rows of each table on the first page, and on a page of the list
FIRST_COUNT = 12
PAGE_COUNT = 100
#: a half that is open for longer deserves a look, in periods of grace (transactionTimeOut)
LOOK_AFTER_PERIODS = 2


class TransactionState(TextChoices):
    """The state of a half; the value is the broker's word."""

    OPEN = "open", _("undecided")
    DUE = "due", _("check due")
    ENDING = "ending", _("being decided")
    PARKED = "parked", _("parked")
    COMMITTED = "committed", _("committed")
    ROLLED_BACK = "rolled back", _("rolled back")
    DECIDED = "decided", _("decided")
    REPLACED = "replaced", _("queued again as another half message")
    UNKNOWN = "unknown", _("not known")


#: states in which somebody may still decide
UNDECIDED = frozenset({TransactionState.OPEN, TransactionState.DUE, TransactionState.PARKED})


class TransactionEvent(TextChoices):
    """The kinds of event in a transaction's life."""

    HALF = "half", _("half message stored")
    CHECK = "check", _("check sent")
    PARKED = "parked", _("parked")
    RESUMED = "resumed", _("checks resumed")
    COMMITTED = "committed", _("committed")
    ROLLED_BACK = "rolled back", _("rolled back")
    DECIDED = "decided", _("decided")
    SCHEDULED = "scheduled", _("waiting until due")
    DELIVERED = "delivered", _("in its topic")
    TIMER_CANCELLED = "timer cancelled", _("timer cancelled")
    TIMER_MOVED = "timer moved", _("timer rescheduled")
    NOTHING_CHANGED = "nothing changed", _("no timer changed")
    #: checks whose records are gone
    UNKNOWN_CHECKS = "unknown checks", _("checks no longer known")


@dataclass(frozen=True, slots=True)
class TransactionRow:
    """A half and what is known of it; None is not known. Names, keys and reasons are untrusted text."""

    #: index in queue 0 of the half topic
    offset: int
    state: TransactionState
    #: byte address of the half's record; None where it is gone
    position: int | None = None
    group: str = ""
    topic: str = ""
    queue_id: int | None = None
    transaction_id: str = ""
    keys: tuple[str, ...] = ()
    tag: str = ""
    store_ms: int | None = None
    born_ms: int | None = None
    born_host: str = ""
    body_bytes: int | None = None
    delay_level: str = ""
    schedule_key: str = ""
    #: what its commit does to the timer of that key: cancel or move; empty where it shows a message
    timer_act: str = ""
    checks: int | None = None
    next_check_ms: int | None = None
    parked_ms: int | None = None
    #: byte address of the parked copy
    copy_position: int | None = None
    decided_ms: int | None = None
    by: str = ""
    reason: str = ""
    #: client ids that would be asked; None: the broker does not tell
    producers: tuple[str, ...] | None = None
    broker: str = ""

    @property
    def name(self) -> str:
        """The name that people know it by: its first key, else its transaction id, else its offset."""
        return next(iter(self.keys), "") or self.transaction_id or str(self.offset)

    @property
    def is_undecided(self) -> bool:
        """Tell whether somebody may still decide."""
        return self.state in UNDECIDED

    @property
    def is_parked(self) -> bool:
        """Tell whether it is parked, so that nobody is asked any more."""
        return self.state == TransactionState.PARKED

    @property
    def is_alone(self) -> bool:
        """Tell whether it waits for a producer of its group while none is there."""
        return self.state in (TransactionState.OPEN, TransactionState.DUE) and self.producers == ()

    @property
    def took_ms(self) -> int | None:
        """The time in ms from half to decision."""
        return None if self.decided_ms is None or self.store_ms is None else max(0, self.decided_ms - self.store_ms)

    @property
    def choice(self) -> str:
        """The name of the row in a form; empty where it cannot be acted on."""
        return "" if self.position is None else f"{self.offset}-{self.position}"

    @property
    def choice_of_all(self) -> str:
        """The same among rows of several brokers."""
        return "" if self.position is None else f"{self.choice}-{self.broker}"


@dataclass(frozen=True, slots=True)
class OpRow:
    """A record of the op topic: which halves it decides. `words` has one word for each offset."""

    offset: int
    position: int
    store_ms: int
    halves: tuple[int, ...]
    words: tuple[TransactionState, ...]


@dataclass(frozen=True, slots=True)
class Board:
    """The newest halves in order of their offsets and the op records that decide them."""

    evidence: Evidence
    halves: tuple[TransactionRow, ...]
    ops: tuple[OpRow, ...]
    #: op records read, and how many there are
    ops_read: int
    ops_total: int
    halves_total: int


@dataclass(frozen=True, slots=True)
class GroupRow:
    """Open halves of a producer group; `producers`: how many are connected now; `alone`: halves whose broker has
    none."""

    group: str
    open: int
    due: int
    producers: int
    alone: int


@dataclass(frozen=True, slots=True)
class TransactionFigures:
    """The transactions as a whole; None is not told. Totals count since the broker's last start, at `started_ms`."""

    open: int | None = None
    parked: int | None = None
    oldest_store_ms: int | None = None
    next_check_ms: int | None = None
    timeout_ms: int | None = None
    interval_ms: int | None = None
    max_checks: int | None = None
    half_total: int | None = None
    commit_total: int | None = None
    rollback_total: int | None = None
    check_total: int | None = None
    #: of the decisions that are listed
    took_p50_ms: int | None = None
    took_p99_ms: int | None = None
    took_count: int = 0
    #: of several brokers the earliest
    started_ms: int | None = None


@dataclass(frozen=True, slots=True)
class TransactionFilter:
    """The choice among transactions; `before_ms`: halves that were stored at this moment or before."""

    state: str = "open"
    group: str = ""
    topic: str = ""
    before_ms: int | None = None

    @property
    def is_empty(self) -> bool:
        """Tell whether everything in this state is meant."""
        return not (self.group or self.topic) and self.before_ms is None

    def takes(self, row: TransactionRow) -> bool:
        """Tell whether the row is old enough."""
        return self.before_ms is None or (row.store_ms is not None and row.store_ms <= self.before_ms)


@dataclass(frozen=True, slots=True)
class TransactionList:
    """A page of a list of transactions."""

    evidence: Evidence
    now_ms: int
    wanted: TransactionFilter
    rows: tuple[TransactionRow, ...]
    #: `after` of the next page, of several brokers a cursor; None: this was the last
    following: Place | None
    #: checks before a half is parked; None: not told
    max_checks: int | None = None
    #: on an Apache RocketMQ broker: half records read, and how many there are
    read: int | None = None
    total: int | None = None
    #: so many were looked through where the look ended before the page was full; 0: it did not
    looked: int = 0
    #: the rows are of several brokers; of these, which have no list of their own, from their newest records
    has_several: bool = False
    polled_of: tuple[str, ...] = ()

    @property
    def polled(self) -> bool:
        """Tell whether it was made from what was pulled."""
        return self.read is not None

    @property
    def table(self) -> Table:
        """The columns of its state; a row of several brokers is chosen with its broker."""
        tables = OF_ALL if self.has_several else TRANSACTIONS
        return tables.get(self.wanted.state, tables["open"])


@dataclass(frozen=True, slots=True)
class OwnHalves:
    """Undecided and parked halves of some topics; None is not known."""

    undecided: int | None = None
    parked: int | None = None
    oldest_store_ms: int | None = None
    #: there may be more than were counted
    is_least: bool = False


@dataclass(frozen=True, slots=True)
class TransactionsPage:
    """The content of the Transactions page."""

    evidence: Evidence
    now_ms: int
    broker: str
    figures: TransactionFigures
    groups: tuple[GroupRow, ...]
    open: TransactionList
    parked: TransactionList
    decided: TransactionList
    board: Board | None
    polled: bool = False
    addresses: tuple[AddressRow, ...] = ()
    #: in total over several brokers: each with its board, and those that are read by pulling
    has_several: bool = False
    boards: tuple[tuple[str, Board | None], ...] = ()
    polled_of: tuple[str, ...] = ()
    #: the brokers ask after other times, or otherwise often, than each other
    has_other_checks: bool = False
    #: those that do not answer: what was undecided there last is in the sums, and in nothing else
    away: tuple[Away, ...] = ()
    #: what can be told of the topics that are seen by who sees some only; None: `figures` are of them all
    own: OwnHalves | None = None

    @property
    def lonely(self) -> tuple[GroupRow, ...]:
        """The groups with open halves of which no producer is connected to their broker."""
        return tuple(row for row in self.groups if row.alone)


@dataclass(frozen=True, slots=True)
class LifeEvent:
    """Something that happened; `count`: how often its producer had been asked by then; `first`: of checks that are no
    longer known, the first one."""

    kind: TransactionEvent
    ms: int
    position: int | None = None
    count: int | None = None
    first: int | None = None
    by: str = ""
    reason: str = ""
    topic: str = ""
    queue_id: int | None = None
    queue_offset: int | None = None
    #: offset id of the record, where it can be opened
    message_id: str = ""


@dataclass(frozen=True, slots=True)
class TransactionLife:
    """A transaction and what happened to it, oldest first."""

    evidence: Evidence
    now_ms: int
    position: int
    row: TransactionRow | None
    events: tuple[LifeEvent, ...]
    max_checks: int | None = None
    polled: bool = False

    @property
    def listed(self) -> tuple[LifeEvent, ...]:
        """The events, and in their place the checks of which no record is left."""
        found: list[LifeEvent] = []
        known = 0
        for event in self.events:
            if event.kind is TransactionEvent.CHECK and event.count is not None:
                # where checks begin anew after a halt they are counted anew
                before = known if event.count > known else 0
                if event.count > before + 1:
                    found.append(_unknown_checks(before + 1, event.count - 1, event.ms))
                known = event.count
            found.append(event)
        count = self.row.checks if self.row is not None else None
        if not known and count is not None and count > 1:
            found.insert(1, _unknown_checks(1, count, self.now_ms))
        return tuple(found)

    @property
    def delivered(self) -> LifeEvent | None:
        """The event that says where consumers find it, or None."""
        return next((event for event in self.events if event.kind is TransactionEvent.DELIVERED), None)

    @property
    def verdict(self) -> Verdict:
        """What is with the half, and what can be done."""
        row = self.row
        if row is None:
            return not_known()
        if self.delivered is not None:
            words = said(gettext("Committed: the message is in its topic."))
            return Verdict("ok", words, gettext("Whether it was consumed is on its page."))
        if row.is_undecided and not row.is_parked:
            return self._undecided(row)
        tone, text, advice = _SAID.get(row.state, ("look", _("Its outcome is unknown."), ""))
        return Verdict(tone, said(str(text)), str(advice))

    def _undecided(self, row: TransactionRow) -> Verdict:
        """Return whether somebody is asked."""
        if row.is_alone:
            words = said(
                gettext("Undecided and invisible to consumers: no producer of {group} is connected, so none is asked."),
                group=row.group,
            )  # fmt: skip
            return Verdict("look", words, gettext("It can be committed or rolled back here."))
        if row.next_check_ms is None:
            words = said(gettext("Undecided and invisible to consumers."))
        else:
            words = said(
                gettext("Undecided and invisible to consumers; the next check is {when}."),
                when=due_in(row.next_check_ms, self.now_ms),
            )  # fmt: skip
        if row.checks and self.max_checks:
            advice = said(
                gettext("{checks} of {most} checks got no decision."),
                checks=figure(row.checks), most=figure(self.max_checks),
            )  # fmt: skip
            return Verdict("wait", words, advice)
        return Verdict("wait", words, gettext("Its producer decides; it can be committed or rolled back here, too."))


def _unknown_checks(first: int, last: int, ms: int) -> LifeEvent:
    return LifeEvent(TransactionEvent.UNKNOWN_CHECKS, ms, count=last, first=first)


#: what is said of a half that nobody is asked about: tone, sentence, what one can do
_SAID: Mapping[TransactionState, tuple[Tone, Promise, Promise | str]] = {
    TransactionState.ENDING: ("wait", _("It is being decided."), ""),
    TransactionState.PARKED: (
        "look",
        _("Parked: it reached the check limit without a decision."),
        _("It can be committed, rolled back or checked again."),
    ),
    TransactionState.COMMITTED: (
        "ok",
        _("Committed. The message is being written to its topic, or its record there has expired."),
        "",
    ),
    TransactionState.ROLLED_BACK: ("idle", _("Rolled back: consumers never see this message."), _("This is final.")),
    TransactionState.DECIDED: ("idle", _("Decided; the op record of this broker does not contain the decision."), ""),
    TransactionState.REPLACED: ("idle", _("This half message was queued again as another record."), ""),
}
