"""The mirror of one broker: the one writer of its rows. It follows the broker through remoting, like any client.

A round = ask for what changed since the token, write rows and token in one transaction, tell the pages. Whatever
happens in between, the next round begins at the token that is in the database: a crash repeats, it never loses. Our own
broker is not asked again and again: it waits for news before it answers. A round in which nothing moved writes nothing,
but every other second how far it is.

While the broker's master is away and the name service lists a slave, that one is read, by standard requests.
A lock (lock.py) makes one mirror the only one of its broker; cluster.py has one for each broker of a cluster.

When a reading has brought many rows, PostgreSQL is made to look at them (`Statistics`), so that it plans joins by what
is there. Its own daemon looks once a minute, or not at all where it is switched off: until then it plans for few rows,
and a page that sums over a thousand groups pays for that.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db import DatabaseError, InterfaceError, connections, transaction

from ..client import Admin
from ..client.errors import BrokerUnreachable, ClientError, NotSupported
from ..rocketmq.topics import SCHEDULE_TOPIC
from .announcer import Announcer, now_us
from .changes import Changes, Poller, UnreadableChangesError, read_changes
from .clock_file import broker_now_ms, clock_file
from .halves import HalfFollower
from .lock import Lock
from .lock import MirrorBusyError as MirrorBusyError
from .models import (
    Broker,
    ConsumerGroup,
    ConsumerOffset,
    MirrorRow,
    MirrorState,
    Queue,
    RateHistory,
    Topic,
    row_name,
)
from .watch import Mark, Range, Watch
from .writer import KEYS, Flaws, clear, fit, note_error, storable, write, write_broker, write_state

logger = logging.getLogger(__name__)

#: pause after a round that wrote, and how long our own broker waits for a change in a round that has none
FOLLOW_INTERVAL_S = 0.2
WAIT_MS = 2_000
#: pause between two rounds of a broker that is polled
POLL_INTERVAL_S = 1.0
#: a round that writes much is followed by a pause of so many times its length, up to POLL_INTERVAL_S: with topics of a
#: thousand queues that all move it would take a tenth of a core from whoever sends
PAUSE_RATIO = 30
#: how often it is written how far a broker is that is quiet; pages take rows of 5 s ago for old ones
STATE_INTERVAL_MS = 2_000
#: pause after a failed round, and while another mirror has the lock
RETRY_INTERVAL_S = 1.0
#: entries of a lane read at once where its marks are missing, and probes where there are more
SAMPLE_ENTRIES = 256
SAMPLE_PROBES = 33


@dataclass(frozen=True, slots=True)
class Round:
    """The outcome of one round."""

    sequence: int
    as_of_ms: int
    kinds: frozenset[str]
    polling: bool
    #: everything was read, not only changes
    full: bool
    #: without what the broker waited for news
    took_s: float


class Mirror:
    """The mirror of the broker that `source` speaks with. One thread uses it; `close` gives up the lock."""

    def __init__(
        self,
        source: Admin,
        broker: str | None = None,
        *,
        entry: str = "",
        sets_clock: bool = True,
        announcer: Announcer | None = None,
        database: str = "default",
        clock: Callable[[], int] = broker_now_ms,
    ) -> None:
        """`broker`: the one that `source` is for; without it the first that it knows, by name. `entry`: that of the
        broker's cluster. `sets_clock`: the console's idea of the time follows this broker's clock."""
        self._source = source
        self._entry = entry
        self._sets_clock = sets_clock
        self._announcer = announcer
        self._database = database
        self._clock = clock
        self._lock: Lock | None = None if broker is None else Lock(row_name(entry, broker), database)
        self._told = Told()
        self._state: MirrorState | None = None
        self._watch: Watch | None = None
        self._flaws = Flaws()
        self._poller: Poller | None = None
        self._halves = HalfFollower(source, database)
        self._statistics = Statistics(database)

    def run(self, stop: threading.Event) -> None:
        """Do rounds until `stop`; errors of broker and database are recorded and tried again."""
        try:
            while not stop.is_set():
                stop.wait(self._attempt())
        finally:
            self.close()

    def run_once(self, wait_ms: int = 0) -> Round:
        """Do one round, or change nothing and raise MirrorBusyError, ClientError, UnreadableChangesError,
        DatabaseError. A broker without news may wait for them for `wait_ms`."""
        self._hold()
        try:
            return self._round(wait_ms)
        except BaseException:
            # memory may be ahead of the rows: read them again next time
            self._forget()
            raise

    def rebuild(self) -> Round:
        """Drop every mirror row of the broker and read everything again."""
        lock = self._hold()
        with transaction.atomic(using=self._database):
            clear(lock.name)
        self._forget()
        self._statistics.forget()
        return self.run_once()

    def close(self) -> None:
        """Give up the lock; twice is fine."""
        if self._lock is not None:
            self._lock.release()

    def _hold(self) -> Lock:
        if self._lock is None:
            self._lock = Lock(row_name(self._entry, self._source.asked().name), self._database)
        self._lock.hold()
        return self._lock

    def _forget(self) -> None:
        self._state = self._watch = self._poller = None
        self._told = Told()
        self._halves.forget()

    def _attempt(self) -> float:
        """Do one round with its errors handled; return the pause after it in seconds."""
        try:
            done = self.run_once(WAIT_MS)
        except MirrorBusyError:
            return RETRY_INTERVAL_S
        except (ClientError, UnreadableChangesError) as error:
            self._record(error)
            return RETRY_INTERVAL_S
        except (DatabaseError, InterfaceError) as error:
            logger.warning("The mirror cannot write: %s", error)
            # the lock dies with the session
            if self._lock is not None:
                self._lock.forget()
            connections[self._database].close()
            return RETRY_INTERVAL_S
        except Exception as error:
            # whatever a broker told that nobody thought of: the next reading may be another, and pages say it
            logger.exception("The mirror met something unexpected")
            self._record(error)
            return RETRY_INTERVAL_S
        if done.polling:
            return POLL_INTERVAL_S
        return max(FOLLOW_INTERVAL_S, min(PAUSE_RATIO * done.took_s, POLL_INTERVAL_S))

    def _round(self, wait_ms: int) -> Round:
        known, state, watch = self._resume(self._clock())
        body = self._ask(known, state, wait_ms)
        begin_ms, begin_s = self._clock(), time.monotonic()
        if body is not None and self._told.is_quiet(body, begin_ms):
            state.token = str(body["token"])
            return self._end(known, state, begin_ms, set(), begin_s)
        changes = self._read(body, known, watch)
        self._hear_clock(changes)
        samples = {level: self._sample(level, missing) for level, missing in watch.unmarked(changes).items()}
        with transaction.atomic(using=self._database):
            with connections[self._database].cursor() as cursor:
                # rows and token go together; losing the last of them in a power cut only repeats
                cursor.execute("SET LOCAL synchronous_commit TO off")
            histories = watch.observe(changes, samples)
            self._advance(state, watch, changes, begin_s)
            moved = watch.without_still_levels(changes)
            write_broker(changes.broker)
            kinds, left_out = write(moved, histories, watch.meet(moved))
            if self._flaws.take(moved, left_out):
                state.flaws = self._flaws.listed()
                kinds.add("mirror")
            write_state(state)
        self._told.note(body, begin_ms)
        self._statistics.look(watch.rows())
        return self._end(known, state, changes.as_of_ms, kinds, begin_s, is_full="queues" in changes.complete)

    def _end(
        self, known: Broker, state: MirrorState, as_of_ms: int, kinds: set[str], begin_s: float, *,
        is_full: bool = False,
    ) -> Round:  # fmt: skip
        if not state.polling and self._halves.look(known.name, self._clock()):
            kinds.add("transactions")
        if kinds:
            self._announce(kinds)
        took_s = time.monotonic() - begin_s
        return Round(state.sequence, as_of_ms, frozenset(kinds), state.polling, is_full, took_s)

    def _resume(self, now_ms: int) -> tuple[Broker, MirrorState, Watch]:
        """Return the broker that answers, the position kept for it, and what is remembered."""
        if self._state is not None and self._watch is not None and not self._is_served_otherwise():
            return self._state.broker, self._state, self._watch
        self._forget()
        process = self._source.asked()
        name = row_name(self._entry, process.name)
        known = Broker(name=name, entry=self._entry, cluster=process.cluster, address=process.address)
        kept = MirrorState.objects.filter(broker=known.name).first()
        self._state = kept or MirrorState(broker_id=known.name)
        self._state.broker = known
        self._state.slave_number = process.broker_id or None
        if process.broker_id:
            logger.warning("master of %s unreachable: reading slave %d at %s", name, process.broker_id, process.address)
            self._poller = Poller(self._source, is_slave=True)
        self._flaws = Flaws(self._state.flaws)
        self._watch = Watch.load(known.name, now_ms)
        return known, self._state, self._watch

    def _is_served_otherwise(self) -> bool:
        """Tell whether another process of the broker answers now than the one that was read: its master is back, or
        went, perhaps without a request to it that failed."""
        return self._state is not None and self._source.asked().broker_id != (self._state.slave_number or 0)

    def _ask(self, known: Broker, state: MirrorState, wait_ms: int) -> dict[str, Any] | None:
        """Return what changed, as the broker tells it; None of one that has to be polled."""
        if self._poller is None:
            try:
                return self._source.changes(state.token, wait_ms=wait_ms)
            except NotSupported:
                logger.info("%s has no request 14000: it is polled by standard requests", known.name)
                self._poller = Poller(self._source)
        return None

    def _read(self, body: dict[str, Any] | None, known: Broker, watch: Watch) -> Changes:
        if body is not None:
            return watch.with_empty_queues(fit(read_changes(body, known, self._clock()), KEYS))
        assert self._poller is not None, "made by _ask"
        found = self._poller.read(known, self._clock())
        if self._is_served_otherwise():
            raise BrokerUnreachable(known.address, "another process of the broker answers since the reading began")
        return fit(found, KEYS)

    def _hear_clock(self, changes: Changes) -> None:
        """Have every process here know how the broker's clock runs."""
        if not self._sets_clock:
            return
        try:
            clock_file().write(changes.clock)
        except OSError as error:
            logger.warning("How the broker's clock runs cannot be written: %s", error)

    def _sample(self, level: int, missing: Range) -> list[Mark]:
        """Return due times of some entries of a lane, from its queue."""
        begin, end = missing
        if end - begin <= SAMPLE_ENTRIES:
            probes, count = [begin], end - begin
        else:
            probes, count = (
                [begin + (end - 1 - begin) * step // (SAMPLE_PROBES - 1) for step in range(SAMPLE_PROBES)],
                1,
            )
        read = (self._source.queue_entries(SCHEDULE_TOPIC, level - 1, probe, count) for probe in probes)
        return [(entry.offset, entry.tags_code) for page in read for entry in page.entries]

    def _advance(self, state: MirrorState, watch: Watch, changes: Changes, begin_s: float) -> None:
        state.token = changes.token
        state.sequence += 1
        state.polling = changes.polling
        state.as_of_ms = changes.as_of_ms
        state.following_since_ms = watch.following_since_ms()
        if "queues" in changes.complete:
            state.full_ms = changes.as_of_ms
        state.took_ms = (time.monotonic() - begin_s) * 1000
        state.error = ""

    def _record(self, error: Exception) -> None:
        """Say in the broker's rows that it could not be read, once for each new reason."""
        reason = storable(str(error))
        if self._lock is None:
            logger.warning("The mirror finds no broker: %r", reason)
            return
        name = self._lock.name
        try:
            with transaction.atomic(using=self._database):
                is_news = note_error(name, reason)
        except (DatabaseError, InterfaceError) as failure:
            logger.warning("The mirror cannot write: %s", failure)
            return
        if is_news:
            logger.warning("The mirror cannot read %s: %r", name, reason)
            self._announce({"mirror"})

    def _announce(self, kinds: set[str]) -> None:
        if self._announcer is not None:
            self._announcer.announce(now_us(), kinds)


class Told:
    """What a broker told last, to know whether anything moved since but the time."""

    #: lists of an answer 14000 that are empty where nothing changed
    _CHANGES = ("topics", "queues", "groups", "offsets", "deletedTopics", "deletedGroups")

    def __init__(self) -> None:
        self._levels: object = None
        self._members: object = None
        self._written_ms: int | None = None

    def note(self, body: Mapping[str, Any] | None, now_ms: int) -> None:
        """Remember an answer whose rows are written."""
        if body is not None:
            self._levels, self._members, self._written_ms = body.get("levels"), body.get("members"), now_ms

    def is_quiet(self, body: Mapping[str, Any], now_ms: int) -> bool:
        """Tell whether this answer has nothing new, so shortly after the last that was written that it need not be."""
        if self._written_ms is None or not 0 <= now_ms - self._written_ms < STATE_INTERVAL_MS or body.get("full"):
            return False
        if any(body.get(name) for name in self._CHANGES):
            return False
        return bool("token" in body and body.get("levels") == self._levels and body.get("members") == self._members)


# What PostgreSQL knows of the mirror's rows.

#: tables that grow with the broker; all others have a bounded number of rows
TABLES: tuple[type[MirrorRow], ...] = (Topic, Queue, ConsumerGroup, ConsumerOffset, RateHistory)
#: fewer rows are planned well enough unseen
FEW_ROWS = 200
#: so many times the rows of the last look are another table
GROWTH = 2


class Statistics:
    """The planner's statistics: `look` after each transaction; it remembers how many rows it saw last, in this life."""

    def __init__(self, database: str = "default") -> None:
        self._database = database
        self._seen: dict[type[MirrorRow], int] = {}

    def forget(self) -> None:
        """Look again when the next rows were written."""
        self._seen.clear()

    def look(self, rows: Mapping[type[MirrorRow], int]) -> bool:
        """ANALYZE all tables where one of them has multiplied; return whether it did. Call outside of a transaction."""
        if not any(count >= max(FEW_ROWS, GROWTH * self._seen.get(table, 0)) for table, count in rows.items()):
            return False
        names = ", ".join(table._meta.db_table for table in TABLES)
        with connections[self._database].cursor() as cursor:
            cursor.execute(f"ANALYZE {names}")
        self._seen = dict(rows)
        return True
