"""The mirror: the one writer of the mirror rows. It follows one broker through remoting, like any client.

That is the first master by name, where a name service knows several. A round = ask for what changed since the token,
write rows and token in one transaction, tell the pages. Whatever happens in between, the next round begins at the token
that is in the database: a crash repeats, it never loses.

An advisory lock makes one mirror the only one. It belongs to the database session: whoever dies lets it go.

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

from django.db import DatabaseError, InterfaceError, connections, transaction

from ..client import Admin
from ..client.errors import ClientError, NotSupported
from ..rocketmq.topics import SCHEDULE_TOPIC
from .announcer import Announcer
from .changes import Changes, Poller, UnreadableChangesError, read_changes
from .clock_file import broker_now_ms, clock_file
from .halves import HalfFollower
from .models import Broker, ConsumerGroup, ConsumerOffset, MirrorRow, MirrorState, Queue, RateHistory, Topic
from .watch import Mark, Range, Watch
from .writer import KEYS, Flaws, clear, fit, storable, write, write_state

logger = logging.getLogger(__name__)

#: pause between two rounds: our own broker, and one that is polled
FOLLOW_INTERVAL_S = 0.2
#: a round that writes much is followed by a pause of so many times its length
PAUSE_RATIO = 3
POLL_INTERVAL_S = 1.0
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


def follow(namesrv: str, stop: threading.Event) -> None:
    """Mirror the broker of this name service, and tell the pages, until `stop`."""
    announcer = Announcer()
    try:
        with Admin(namesrv) as admin:
            Mirror(admin, announcer=announcer).run(stop)
    finally:
        announcer.close()
        connections.close_all()


class Mirror:
    """The mirror of the broker that `source` speaks with. One thread uses it; `close` gives up the lock."""

    def __init__(
        self,
        source: Admin,
        *,
        announcer: Announcer | None = None,
        database: str = "default",
        clock: Callable[[], int] = broker_now_ms,
    ) -> None:
        self._source = source
        self._announcer = announcer
        self._database = database
        self._clock = clock
        #: the database session that holds the lock
        self._locked_by: int | None = None
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

    def run_once(self) -> Round:
        """Do one round, or change nothing and raise MirrorBusyError, ClientError, UnreadableChangesError,
        DatabaseError."""
        self._hold()
        try:
            return self._round()
        except BaseException:
            # memory may be ahead of the rows: read them again next time
            self._state = self._watch = self._poller = None
            self._halves.forget()
            raise

    def rebuild(self) -> Round:
        """Drop every mirror row and read everything again."""
        self._hold()
        with transaction.atomic(using=self._database):
            clear()
        self._state = self._watch = self._poller = None
        self._halves.forget()
        self._statistics.forget()
        return self.run_once()

    def close(self) -> None:
        """Give up the lock and the connection; twice is fine."""
        if self._locked_by is not None:
            self._locked_by = None
            try:
                unlock(self._database)
            except (DatabaseError, InterfaceError):
                logger.info("The lock went with its connection")

    def _hold(self) -> None:
        if self._locked_by is None or self._locked_by != session(self._database):
            if not try_lock(self._database):
                raise MirrorBusyError
            self._locked_by = session(self._database)

    def _attempt(self) -> float:
        """Do one round with its errors handled; return the pause after it in seconds."""
        begin_s = time.monotonic()
        try:
            done = self.run_once()
        except MirrorBusyError:
            return RETRY_INTERVAL_S
        except (ClientError, UnreadableChangesError) as error:
            self._record(error)
            return RETRY_INTERVAL_S
        except (DatabaseError, InterfaceError) as error:
            logger.warning("The mirror cannot write: %s", error)
            # the lock dies with the session
            self._locked_by = None
            connections[self._database].close()
            return RETRY_INTERVAL_S
        except Exception as error:
            # whatever a broker told that nobody thought of: the next reading may be another, and pages say it
            logger.exception("The mirror met something unexpected")
            self._record(error)
            return RETRY_INTERVAL_S
        if done.polling:
            return POLL_INTERVAL_S
        return max(FOLLOW_INTERVAL_S, min(PAUSE_RATIO * (time.monotonic() - begin_s), POLL_INTERVAL_S))

    def _round(self) -> Round:
        begin_ms, begin_s = self._clock(), time.monotonic()
        known, state, watch = self._resume(begin_ms)
        changes = self._read(known, state, watch)
        self._hear_clock(changes)
        samples = {level: self._sample(level, missing) for level, missing in watch.unmarked(changes).items()}
        with transaction.atomic(using=self._database):
            with connections[self._database].cursor() as cursor:
                # rows and token go together; losing the last of them in a power cut only repeats
                cursor.execute("SET LOCAL synchronous_commit TO off")
            histories = watch.observe(changes, samples)
            self._advance(state, watch, changes, begin_s)
            moved = watch.without_still_levels(changes)
            kinds, left_out = write(moved, histories, watch.meet(moved))
            if self._flaws.take(moved, left_out):
                state.flaws = self._flaws.listed()
                kinds.add("mirror")
            write_state(state)
        self._statistics.look(watch.rows())
        if not changes.polling and self._halves.look(known.name, begin_ms):
            kinds.add("transactions")
        if kinds and self._announcer is not None:
            self._announcer.announce(state.sequence, kinds)
        return Round(state.sequence, changes.as_of_ms, frozenset(kinds), changes.polling, "queues" in changes.complete)

    def _resume(self, now_ms: int) -> tuple[Broker, MirrorState, Watch]:
        """Return the broker that answers, the position kept for it, and what is remembered."""
        if self._state is not None and self._watch is not None:
            return self._state.broker, self._state, self._watch
        brokers = [broker for broker in self._source.brokers() if broker.broker_id == 0]
        if not brokers:
            raise UnreadableChangesError("the name service knows no broker")
        first = min(brokers, key=lambda broker: broker.name)
        known = Broker(name=first.name, cluster=first.cluster, address=first.address)
        kept = MirrorState.objects.filter(broker=known.name).first()
        self._state = kept or MirrorState(broker_id=known.name)
        self._state.broker = known
        self._flaws = Flaws(self._state.flaws)
        self._watch = Watch.load(known.name, now_ms)
        return known, self._state, self._watch

    def _read(self, known: Broker, state: MirrorState, watch: Watch) -> Changes:
        if self._poller is None:
            try:
                body = self._source.changes(state.token)
                return watch.with_empty_queues(fit(read_changes(body, known, self._clock()), KEYS))
            except NotSupported:
                logger.info("%s has no request 14000: it is polled by standard requests", known.name)
                self._poller = Poller(self._source)
        return fit(self._poller.read(known, self._clock()), KEYS)

    def _hear_clock(self, changes: Changes) -> None:
        """Have every process here know how the broker's clock runs."""
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
        """Say in the rows that the broker could not be read, once for each new reason."""
        reason = storable(str(error))
        logger.warning("The mirror cannot read the broker: %r", reason)
        try:
            stale = list(MirrorState.objects.exclude(error=reason))
            for state in stale:
                state.error, state.sequence = reason, state.sequence + 1
            with transaction.atomic(using=self._database):
                MirrorState.upsert(stale, ("broker",))
        except (DatabaseError, InterfaceError) as failure:
            logger.warning("The mirror cannot write: %s", failure)
            return
        if stale and self._announcer is not None:
            self._announcer.announce(stale[0].sequence, {"mirror"})


# The lock that makes one mirror the only one.

#: first key "Escapement", second "mirror"; any two numbers that nobody else uses in this database
LOCK_KEYS = (0x45534341, 0x4D495252)


class MirrorBusyError(RuntimeError):
    """Another mirror follows the broker already."""

    def __init__(self) -> None:
        super().__init__("Another mirror holds the lock of this database; stop its worker first, or leave it the work.")


def try_lock(database: str) -> bool:
    """Take the lock for this session without waiting; return whether it is ours. Taking it twice counts twice."""
    with connections[database].cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s, %s)", LOCK_KEYS)
        row = cursor.fetchone()
    return bool(row and row[0])


def session(database: str) -> int | None:
    """Return the process id of this thread's database session; None while there is none."""
    here = connections[database].connection
    return None if here is None else int(here.info.backend_pid)


def unlock(database: str) -> None:
    """Let the lock go; nothing happens when it is not ours."""
    with connections[database].cursor() as cursor:
        cursor.execute("SELECT pg_advisory_unlock(%s, %s)", LOCK_KEYS)


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
