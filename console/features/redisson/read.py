"""The content of the pages of Redisson's delayed queues: as Redis has them, and as transfer services report them.

There is one client for the process. Where its server is away or refuses, the page has the reason as evidence. All
moments are epoch ms of the Redis server's clock.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import ClassVar, TypeVar
from urllib.parse import urlsplit

from django.conf import settings
from django.utils.translation import gettext_lazy as _
from redis.exceptions import RedisError

from broker.redisson import Codec, DelayedQueue, Packing, RedissonError, codec_named
from broker.redisson.repair import plan_repair
from broker.redisson.server import Server, connect
from broker.redisson.survey import page, queue_names, survey
from broker.redisson.to_topic import Mode, read_mode
from broker.redisson.transfer_status import QueueStatus, TransferStatus, running_services
from broker.redisson.values import Page, RepairPlan, Survey, Waiting
from console.security.masking import masks
from console.security.topic_scope import TopicScope, authorised
from console.site.broker import KeptClients
from console.site.clock import now_ms
from console.site.evidence import Evidence, StaleReason
from console.templatetags.escapement import figure, length
from console.ui.table import FIGURE, LEFT, SIZE, VALUE, Across, Cell, Choice, Column, Table, file_columns

_NUMBER = "ui/cells/figure.html"
_MOVED = Cell(_NUMBER, is_figure=True, text=lambda value, _place: figure(value.moved if value else None))
_LATE = Cell(
    _NUMBER, is_figure=True, text=lambda value, _place: length(value.late_ms if value and value.last_moved_ms else None)
)

QUEUES = Table(
    "redisson-queues",
    (
        Column("name", _("Queue"), Cell("delayed_queues/cells/name.html")),
        Column("state", _("State"), Cell("delayed_queues/cells/state.html"), "survey", in_file=False),
        Column("survey.set_size", _("Waiting"), Cell("delayed_queues/cells/waiting.html", is_figure=True), "survey"),
        Column("survey.overdue", _("Due, not transferred"), Cell("delayed_queues/cells/overdue.html", is_figure=True)),
        Column("survey.next_due_ms", _("Next due"), LEFT),
        Column("survey.target_size", _("In the destination queue"), FIGURE, in_file=False),
        Column("moved", _("Transferred"), _MOVED, in_file=False),
        Column("late", _("Late"), _LATE, "moved", in_file=False),
        Column("listeners", _("Listeners"), FIGURE),
        *file_columns("is_stuck problem"),
        Column("codec", _("Envelope, codec"), Cell("delayed_queues/cells/packings.html"), "survey", in_file=False),
    ),
    # of a queue that could not be read its problem is told
    across=Across(2, "survey", "problem"),
    row_id="queue",
)

VALUES = Table(
    "redisson-values",
    (
        *file_columns("handle"),
        Column("due_ms", _("Due"), Cell("delayed_queues/cells/due.html", by=(VALUE,))),
        Column("left", _("Due in"), LEFT, "due_ms", in_file=False),
        Column("text", _("Value"), Cell("delayed_queues/cells/value.html")),
        Column("codec", _("Codec"), Cell("delayed_queues/cells/codec.html", by=(VALUE, "is_hex"))),
        Column("packing", _("Envelope"), Cell("delayed_queues/cells/packing.html", by=(VALUE,))),
        Column("size_bytes", _("Size"), SIZE),
        *file_columns("is_poison"),
    ),
    choice=Choice("handle", "handle", numbered=_("value %(n)s")),
)

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
    """A queue: what Redis holds, and what the transfer service says of it."""

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
        """The number of listeners on its channel: live RDelayedQueues of Java, and services of ours."""
        return self.ours + (self.survey.listeners if self.survey is not None else 0)

    @property
    def is_stuck(self) -> bool:
        """Tell whether something is due and nobody moves it: a second is more than any transfer needs."""
        return self.survey is not None and self.survey.stuck_ms > 1_000

    @property
    def needs_look(self) -> bool:
        """Tell whether something is wrong with it."""
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
    """The queues of the server, a page at a time."""

    table: ClassVar[Table] = QUEUES

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
        """The number of values that wait in the queues of this page."""
        return sum(row.survey.set_size for row in self.rows if row.survey is not None)

    @property
    def overdue(self) -> int:
        """The number of values of this page that are due and still there."""
        return sum(row.survey.overdue for row in self.rows if row.survey is not None)

    @property
    def next_due_ms(self) -> int | None:
        """The next moment of any queue of this page."""
        moments = [row.survey.next_due_ms for row in self.rows if row.survey and row.survey.next_due_ms is not None]
        return min(moments, default=None)

    @property
    def looks(self) -> int:
        """The number of queues of this page with something wrong."""
        return sum(row.needs_look for row in self.rows)

    @property
    def previous(self) -> int | None:
        """The offset of the page before, None on the first."""
        return max(0, self.offset - QUEUES_SHOWN) if self.offset else None

    @property
    def following(self) -> int | None:
        """The offset of the next page, None on the last."""
        return self.offset + QUEUES_SHOWN if self.offset + QUEUES_SHOWN < self.total else None


@dataclass(frozen=True, slots=True)
class ValueRow:
    """A waiting value; `text` is for people, and untrusted."""

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
    """The place that due values go to, if not the plain list."""

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
    """A queue with a page of its values in the order in which they are due."""

    table: ClassVar[Table] = VALUES

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

    @property
    def is_nowhere(self) -> bool:
        """Tell whether Redis has nothing of a queue with this name, and nobody listens to it or watches it."""
        found = self.row.survey if self.row is not None else None
        if self.row is None or found is None or self.row.moved is not None or self.handing is not None:
            return False
        return not (
            found.list_size or found.set_size or found.target_size or found.index_size or found.values_size
            or found.aside or self.row.listeners
        )  # fmt: skip


#: what one value shows in a list
SHOWN_BYTES = 600
#: a repair plan of a page looks for so many of each kind
PLANNED = 200
#: a page does not wait longer for Redis
PATIENCE_S = 3.0

Answer = TypeVar("Answer")


@authorised
def delayed_queues(scope: TopicScope, search: str = "", offset: int = 0) -> QueuesPage:
    """Return queues whose name contains `search`, from the `offset`-th on."""
    return read_queues(search, offset, scope.queue)


@authorised
def delayed_queue(
    scope: TopicScope,
    name: str,
    *,
    cursor: str | None = None,
    from_ms: int | None = None,
    to_ms: int | None = None,
    aside: bool = False,
    codec: str = "",
    with_plan: bool = False,
) -> QueuePage:
    """Return one queue and a page of its values; `codec` reads them (else the one that fits each).

    The topic that it is handed to may be one that is not seen: it has no name then.
    """
    scope.require_queue(name)
    hide = masks()
    found = read_queue(name, cursor=cursor, from_ms=from_ms, to_ms=to_ms, aside=aside, codec=codec, with_plan=with_plan)
    found = replace(found, values=hide.rows(found.values, name), upcoming=hide.rows(found.upcoming, name))
    if found.handing is None or scope.topic(found.handing.topic):
        return found
    return replace(found, handing=replace(found.handing, topic="…"))


def read_queues(search: str = "", offset: int = 0, is_seen: Callable[[str], bool] | None = None) -> QueuesPage:
    """Return queues that are seen (None: all), for callers that decide themselves who may."""
    services = _services()
    found, evidence = ask_redis(lambda: _queues(search, offset, services, is_seen))
    rows, total, server_ms = found or ((), 0, None)
    return QueuesPage(
        evidence=evidence,
        now_ms=server_ms or now_ms(),
        server=address(),
        rows=rows,
        services=tuple(_service(each) for each in services),
        total=total,
        search=search,
        offset=offset,
        read_only=why_locked("") == "read-only",
    )


def read_queue(
    name: str,
    *,
    cursor: str | None = None,
    from_ms: int | None = None,
    to_ms: int | None = None,
    aside: bool = False,
    codec: str = "",
    with_plan: bool = False,
) -> QueuePage:
    """Return one queue as `delayed_queue` does, nothing masked, for callers that decide themselves who may."""
    row = _row(name, _services())

    def values() -> tuple[Page, Page, Mode]:
        queue = queue_named(name, codec=codec)
        found = page(
            queue,
            from_ms=-math.inf if from_ms is None else from_ms,
            to_ms=math.inf if to_ms is None else to_ms,
            limit=VALUES_SHOWN,
            cursor=cursor,
            shown_bytes=SHOWN_BYTES,
            aside=aside,
        )
        return found, page(queue, from_ms=0, limit=UPCOMING, shown_bytes=SHOWN_BYTES), read_mode(queue)

    found, evidence = ask_redis(values)
    reader = queue_named(name, codec=codec).codec if codec else None
    written = row.survey.written if row.survey is not None else None
    return QueuePage(
        evidence=evidence,
        now_ms=found[0].now_ms if found else now_ms(),
        name=name,
        row=row,
        values=tuple(value_row(each, reader, written) for each in found[0].items) if found else (),
        cursor=found[0].cursor if found and len(found[0].items) == VALUES_SHOWN else None,
        aside=aside,
        from_ms=from_ms,
        to_ms=to_ms,
        codec=codec,
        handing=_handing(found[2]) if found else None,
        plan=_plan(name) if with_plan else None,
        locked=why_locked(name),
        upcoming=tuple(value_row(each, reader, written) for each in found[1].items) if found else (),
    )


def value_row(waiting: Waiting, codec: Codec | None = None, written: Packing | None = None) -> ValueRow:
    """Return a value as a row; poison shows the member itself, the unreadable is hex. `written`: what clients write."""
    shown = waiting.shown(codec)
    return ValueRow(
        handle=str(waiting.handle),
        due_ms=int(waiting.due_ms) if math.isfinite(waiting.due_ms) else None,
        text=shown.text,
        codec=shown.codec,
        packing=waiting.packing.value if waiting.packing else "",
        size_bytes=waiting.value_bytes,
        is_hex=shown.is_hex,
        is_whole=waiting.is_whole,
        is_poison=waiting.is_poison,
        is_foreign=written is not None and waiting.packing is not None and waiting.packing is not written,
    )


def _queues(
    search: str, offset: int, services: Sequence[TransferStatus], is_seen: Callable[[str], bool] | None
) -> tuple[tuple[QueueRow, ...], int, int]:
    watched = {each.name for service in services for each in service.queues}
    names = [name for name in queue_names(server(), watched) if search.casefold() in name.casefold()]
    names = [name for name in names if is_seen is None or is_seen(name)]
    rows = tuple(_row(name, services) for name in names[offset : offset + QUEUES_SHOWN])
    server_ms, _ = server().now_ms()
    return rows, len(names), server_ms


def _row(name: str, services: Sequence[TransferStatus]) -> QueueRow:
    """Return a queue's row; a key of the wrong type spoils this one only. The service that moved last speaks for it."""
    said = [(each, service.listening) for service in services for each in service.queues if each.name == name]
    moved = max((each for each, _ in said), key=lambda each: each.last_moved_ms or 0, default=None)
    ours = sum(listening for _, listening in said)
    try:
        return QueueRow(name, survey(queue_named(name)), moved, ours=ours)
    except (RedissonError, RedisError, OSError) as error:
        return QueueRow(name, None, moved, str(error), ours)


def _services() -> list[TransferStatus]:
    """Return the transfer services' own reports; none where their server is away."""
    found, _ = ask_redis(lambda: list(running_services(status_server())))
    return found or []


def _service(status: TransferStatus) -> Service:
    return Service(
        instance=status.instance,
        started_ms=status.started_ms,
        now_ms=status.now_ms,
        state=status.state,
        skew_ms=status.skew_ms,
        problem=status.problem,
        waiting_since_ms=status.waiting_since_ms,
        outages=status.outages,
        listening=status.listening,
    )


def _handing(mode: Mode) -> Handing | None:
    if mode.kind == "plain":
        return None
    return Handing(
        mode.kind, mode.is_on, mode.topic, mode.since_ms, mode.sent, mode.refused, mode.taken_over, mode.sending
    )


def _plan(name: str) -> RepairPlan | None:
    plan, _ = ask_redis(lambda: plan_repair(queue_named(name, to_write=True), limit=PLANNED))
    return plan


_servers = KeptClients(lambda url: Server(connect(url, timeout_s=PATIENCE_S)))


def server() -> Server:
    """Return the server at ESCAPEMENT_REDISSON_URL; safe for threads."""
    return _servers.at(settings.REDISSON_URL)


def status_server() -> Server:
    """Return the server at REDIS_URL, where transfer services report, also while that of the queues is away."""
    return _servers.at(settings.REDIS_URL)


def hang_up() -> None:
    """End all connections; the next question makes new ones."""
    _servers.hang_up()


def address() -> str:
    """Return the address of the server, without user and password."""
    parts = urlsplit(settings.REDISSON_URL)
    return f"{parts.hostname or parts.path}:{parts.port}" if parts.port else parts.hostname or parts.path


def queue_named(name: str, *, codec: str = "", to_write: bool = False) -> DelayedQueue:
    """Return the queue of this name; read-only unless it is to be written, and may be."""
    chosen: Codec | None = codec_named(codec) if codec else None
    locked = bool(why_locked(name)) or not to_write
    return DelayedQueue(name, server().client, codec=chosen, read_only=locked)


def why_locked(name: str) -> str:
    """Return the code of the reason why a queue may not be changed here, empty if it may."""
    if settings.REDISSON_READ_ONLY:
        return "read-only"
    return "" if any(fnmatchcase(name, pattern) for pattern in settings.REDISSON_QUEUES) else "not-listed"


def ask_redis(question: Callable[[], Answer]) -> tuple[Answer | None, Evidence]:
    """Return the answer with its evidence; None and the reason when the server is away or refuses."""
    source = address()
    try:
        answer = question()
    except RedissonError as error:
        return None, Evidence(source, None, True, StaleReason.REDIS_REFUSED, (), str(error))
    except (RedisError, OSError) as error:
        return None, Evidence(source, None, True, StaleReason.REDIS_UNREACHABLE, (), str(error))
    return answer, Evidence(source, now_ms(), True)
