"""What the pages of Redisson's delayed queues read. All moments are epoch ms of the Redis server's clock."""

from __future__ import annotations

from dataclasses import dataclass

from broker.redisson.transfer_status import QueueStatus
from broker.redisson.values import RepairPlan, Survey
from console.site.evidence import Evidence

#: queues and values on one page
QUEUES_SHOWN = 50
VALUES_SHOWN = 50
#: of these, how many are shown as they change
UPCOMING = 5


@dataclass(frozen=True, slots=True)
class Service:
    """A transfer service, as it says itself."""

    instance: str
    started_ms: int
    now_ms: int
    #: moving, watching (read-only), waiting (for Redis)
    state: str
    #: by how many ms its clock is ahead of the server's
    skew_ms: float | None
    problem: str
    waiting_since_ms: int | None
    outages: int
    listening: bool


@dataclass(frozen=True, slots=True)
class QueueRow:
    """One queue: what Redis holds, and what the transfer service says of it."""

    name: str
    #: None: it could not be read, `problem` says why
    survey: Survey | None
    #: None: no transfer service watches it
    moved: QueueStatus | None
    #: in words for people; empty when nothing is wrong
    problem: str = ""
    #: transfer services of ours that listen on its channel, which the server does not count
    ours: int = 0

    @property
    def listeners(self) -> int:
        """Who listens on its channel: live RDelayedQueues of Java, and services of ours."""
        return self.ours + (self.survey.listeners if self.survey is not None else 0)

    @property
    def is_stuck(self) -> bool:
        """Something is due and nobody moves it: a second is more than any transfer needs."""
        return self.survey is not None and self.survey.stuck_ms > 1_000

    @property
    def needs_look(self) -> bool:
        """Something is wrong with it."""
        found = self.survey
        return bool(
            self.problem
            or found is None
            or self.is_stuck
            or found.is_damaged
            or found.sampled_poison
            or found.never_due
            or len(found.packings) > 1
            or (self.moved is not None and self.moved.problem)
        )


@dataclass(frozen=True, slots=True)
class QueuesPage:
    """All queues of the server, some at a time."""

    evidence: Evidence
    now_ms: int
    server: str
    rows: tuple[QueueRow, ...]
    services: tuple[Service, ...]
    total: int
    search: str
    offset: int
    read_only: bool

    @property
    def waiting(self) -> int:
        """Values that wait in the queues of this page."""
        return sum(row.survey.set_size for row in self.rows if row.survey is not None)

    @property
    def overdue(self) -> int:
        """Values of this page that are due and still there."""
        return sum(row.survey.overdue for row in self.rows if row.survey is not None)

    @property
    def next_due_ms(self) -> int | None:
        """The next moment of any queue of this page."""
        moments = [row.survey.next_due_ms for row in self.rows if row.survey and row.survey.next_due_ms is not None]
        return min(moments, default=None)

    @property
    def looks(self) -> int:
        """Queues of this page with something wrong."""
        return sum(row.needs_look for row in self.rows)

    @property
    def previous(self) -> int | None:
        """Where the page before begins."""
        return max(0, self.offset - QUEUES_SHOWN) if self.offset else None

    @property
    def following(self) -> int | None:
        """Where the next page begins."""
        return self.offset + QUEUES_SHOWN if self.offset + QUEUES_SHOWN < self.total else None


@dataclass(frozen=True, slots=True)
class ValueRow:
    """One waiting value; `text` is for people, of hostile origin."""

    handle: str
    due_ms: int | None
    text: str
    codec: str
    packing: str
    size_bytes: int
    is_hex: bool
    is_whole: bool
    is_poison: bool
    #: in the packing that clients of the queue do not read
    is_foreign: bool = False


@dataclass(frozen=True, slots=True)
class Handing:
    """Where the due values go, if not to the plain list."""

    kind: str
    is_on: bool
    topic: str
    since_ms: int
    sent: int
    refused: int
    taken_over: int
    sending: int


@dataclass(frozen=True, slots=True)
class QueuePage:
    """One queue with a page of its values in the order in which they are due."""

    evidence: Evidence
    now_ms: int
    name: str
    row: QueueRow | None
    values: tuple[ValueRow, ...]
    cursor: str | None
    aside: bool
    from_ms: int | None
    to_ms: int | None
    codec: str
    handing: Handing | None
    plan: RepairPlan | None
    #: it may not be changed here, and why
    locked: str
    #: the next to come due, whatever page of the values is shown
    upcoming: tuple[ValueRow, ...] = ()
