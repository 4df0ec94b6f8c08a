"""The engine: everything a broker does with messages, as one object that is driven from outside.

    append(...) -> Ticket             in memory, nobody sees it yet
    take_sync() -> SyncJob            its run() writes and syncs, in any thread, while appends go on
    synced(job, error) -> tickets     durable and visible: answer the senders, wake the readers (take_arrivals)
    tick(now_ms) -> next moment       releases what is due (again through append)
    take_upkeep() / upkept()          checkpoint, tables, the next segment

Only one thread may call it; time comes in as ``now_ms``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .config import EngineConfig
from .disk import NO_DESCRIPTOR, File, Files, join
from .errors import DiskFull, StoreBusy, StoreClosed, StoreFailed
from .intake import Intake
from .log.append import Encoded, Sends
from .log.checkpoint import Derived, admit_clock
from .log.recovery import Recovery
from .log.ticket import BatchTicket, Stored, SyncJob, Ticket
from .log.upkeep import NO_ROOM, Upkeep, UpkeepJob, expire, oldest_expired
from .outside import refuse_outside
from .pop.service import Pops
from .queues.queues import QueueEntry
from .queues.reader import Pulled, Reader, Selection
from .queues.repair import QueueRepair
from .schedule import Schedule
from .status import Health, assess, changes_since, level_json, token_of
from .store import Store
from .tables.topics import Pending
from .timer.pace import SCRATCH, Measured, Quiet
from .timer.service import Timers
from .timer.steer import Action, Outcome, Target
from .topic_backlog import Waiting
from .transaction.service import Transactions

#: How often segments are looked for whose time is over.
_RETENTION_INTERVAL_MS = 10_000


class Engine:
    """An open store directory and all that is done in it.

    Questions that concern one part alone are put to that part: ``topics``, ``groups``, ``offsets``, ``key_values``,
    ``schedule``, ``timers``, ``transactions``, ``pops``.
    """

    # The life of a store: it is opened and recovered, may fail for good, and is closed.

    def __init__(self, config: EngineConfig, files: Files, lock: File, now_ms: int) -> None:
        """Make an engine that is not recovered yet; everybody else uses ``Engine.open``."""
        self.config = config
        self._files = files
        self._lock = lock
        self._store = Store(config, files)
        self._repair = repair = QueueRepair(self._store, files)
        self._reader = Reader(self._store, repair)
        self.schedule = Schedule(self._store, repair, lambda *release: self._intake.release(*release))
        self.transactions = Transactions(
            self._store,
            config,
            lambda half, at_ms: self._intake.commit_half(half, at_ms),
            lambda halves: self._intake.plan_copies(halves),
        )
        self.timers = Timers(self._store, repair, lambda topic, queue_id: self._intake.place(topic, queue_id))
        self.pops = Pops(self._store, self._reader, repair)
        self._intake = Intake(self._store, self.schedule, self.transactions, self.timers.parking, self.timers.acts)
        #: each hears of its records, keeps its progress with the checkpoint, and acts when the time comes
        self._services: tuple[Derived, ...] = (self.schedule, self.timers, self.transactions, self.pops)
        self._upkeep = Upkeep(self._store, self._services)
        self._started_ms = now_ms
        self._failure: str | None = None
        self._closed = self._is_syncing = False
        self._retention_ms = now_ms
        self._quiet = Quiet(now_ms)
        self._records_recovered = 0
        self.topics = self._store.topics
        self.groups = self._store.groups
        self.offsets = self._store.offsets
        self.key_values = self._store.key_values

    @classmethod
    def open(cls, config: EngineConfig, files: Files, now_ms: int) -> Engine:
        """Lock, open and recover a store; make it if it is new. Raises StoreLocked, StoreUnsupported, OSError."""
        files.make_directory(config.root)
        lock = files.lock(join(config.root, "lock"))
        try:
            refuse_outside(files, config.root)
            admit_clock(files, config.root, now_ms, is_simulated=config.is_simulated)
            engine = cls(config, files, lock, now_ms)
            engine._recover(now_ms)
        except BaseException:
            lock.close()
            raise
        return engine

    def _recover(self, now_ms: int) -> None:
        """Bring the store and its services to the state the log says: the marks of the last stop, the tables, what the
        log says since, then the services. Raises StoreUnsupported, OSError."""
        store, files = self._store, self._files
        abort = join(self.config.root, "abort")
        checkpoint = store.checkpoints.load()
        was_clean = checkpoint is not None and checkpoint.clean and not files.exists(abort)
        if not files.exists(abort):
            files.open(abort, create=True).close()
            files.sync_directory(self.config.root)
        if files.exists(scratch := join(self.config.root, SCRATCH)):
            files.remove_directory(scratch)
        topics_known = store.topics.load()
        store.groups.load()
        store.offsets.load()
        store.key_values.load()
        recovery = Recovery(store, self._services)
        recovery.run(checkpoint, was_clean=was_clean, topics_known=topics_known)
        for service in self._services:
            service.start(now_ms)
        self._records_recovered = recovery.records_walked

    def check_open(self) -> None:
        """Raise StoreFailed or StoreClosed if nothing can be written any more."""
        if self._failure is not None or self._closed:
            self._refuse()

    @property
    def is_open(self) -> bool:
        """Tell whether messages can still be written."""
        return self._failure is None and not self._closed

    def _fail(self, error: OSError) -> None:
        self._failure = self._failure or error.strerror or str(error)

    def close(self, now_ms: int) -> None:
        """Stop cleanly: everything is written, and the next start need not look. Closing twice is fine."""
        if self._closed:
            return
        try:
            if self._failure is None:
                self._close_cleanly(now_ms)
        finally:
            self._closed = True
            self.timers.close()
            self._store.close()
            self._lock.close()

    def _close_cleanly(self, now_ms: int) -> None:
        while (job := self.take_sync(now_ms)) is not None:
            job.run()
            self.synced(job, None, now_ms)
        last = UpkeepJob(self._store, self._files)
        if self._upkeep.may_checkpoint:
            self._upkeep.add_checkpoint(last, clean=True)
        self._upkeep.add_saves(last)
        self._add_pace(last, now_ms, is_last=True)
        failed = False
        try:
            last.run()
        except OSError as error:
            # without room or descriptors for it the next start finds by the log what this one could not keep
            failed = True
            if error.errno not in NO_ROOM | NO_DESCRIPTOR:
                raise
        self._upkeep.done(last, now_ms, failed=failed)
        self.timers.kept_pace.done(failed=failed)
        if last.checkpointed:
            self._files.remove(join(self.config.root, "abort"))
            self._files.sync_directory(self.config.root)

    # Sending: a message is taken or refused, and nothing of it is visible yet.

    def append(
        self,
        topic: str,
        queue_id: int,
        body: bytes,
        properties: bytes,
        *,
        flag: int = 0,
        sys_flag: int = 0,
        born_ms: int,
        born_host: bytes,
        reconsume_times: int = 0,
        now_ms: int,
        owner: object = None,
    ) -> Ticket:
        """Take one message of a client; ``properties`` in stored form, ``born_host`` 4|16 address bytes and 4 of port.

        Raises InvalidMessage, TopicNotFound, TopicNotWritable, StoreRefused; then nothing was written.
        """
        self._check_room()
        return self._intake.take(
            topic, queue_id, body, properties, flag, sys_flag, born_ms, born_host, reconsume_times, now_ms, owner
        )

    def append_batch(
        self,
        topic: str,
        queue_id: int,
        parts: list[tuple[bytes, bytes, int]],
        *,
        sys_flag: int = 0,
        born_ms: int,
        born_host: bytes,
        now_ms: int,
        owner: object = None,
    ) -> BatchTicket:
        """Take all of (body, properties, flag), or none of them. Raises as ``append``."""
        self._check_room()
        return self._intake.take_batch(topic, queue_id, parts, sys_flag, born_ms, born_host, now_ms, owner)

    def append_encoded(
        self, topic: str, batches: Sequence[Encoded], *, sys_flag: int = 0, born_host: bytes, now_ms: int
    ) -> list[BatchTicket] | None:
        """Take batches as they were sent, each with a ticket, as ``append_batch`` takes their messages but in less
        time; None, and nothing was written, if they are to be taken that way, one by one. Raises as ``append`` if one
        would be refused."""
        self._check_room()
        return self._intake.take_encoded(topic, batches, sys_flag, born_host, now_ms)

    def append_together(self, topic: str, sends: Sends, *, born_host: bytes, now_ms: int) -> list[Ticket] | None:
        """Take messages that came together, each with a ticket of its own, as ``append`` does but in less time; None,
        and nothing was written, if they are to be taken one by one. Raises as ``append`` if one would be refused."""
        self._check_room()
        return self._intake.take_together(topic, sends, born_host, now_ms)

    def append_halves(self, topic: str, sends: Sends, *, born_host: bytes, now_ms: int) -> list[Ticket] | None:
        """Take half messages that came together, as ``append_together`` takes others: their system flag says so."""
        self._check_room()
        return self._intake.take_halves(topic, sends, born_host, now_ms)

    def send_back(
        self, position: int, group: str, delay_level: int, max_reconsume_times: int, now_ms: int, owner: object = None
    ) -> Ticket:
        """Give a message back that a consumer could not handle: again later, or to the dead letters.

        Raises RecordNotFound, CorruptRecord, InvalidGroupName, StoreRefused.
        """
        self.check_open()
        return self._intake.send_back(position, group, delay_level, max_reconsume_times, now_ms, owner)

    def _check_room(self) -> None:
        if self._failure is not None or self._closed or self._upkeep.disk_ratio > self.config.disk_refuse_ratio:
            self._refuse()

    def _refuse(self) -> None:
        if self._failure is not None:
            raise StoreFailed(f"Writing to disk failed ({self._failure}); restart the broker, it will check its log.")
        if self._closed:
            raise StoreClosed
        raise DiskFull(
            f"The disk is {self._upkeep.disk_ratio:.1%} full, the limit is {self.config.disk_refuse_ratio:.0%}; "
            "sends are refused, consumers still drain. Free space, sends resume by themselves."
        )

    # What is durable: batches go out to be written and come back as tickets.

    def take_sync(self, now_ms: int) -> SyncJob | None:
        """Return the batch to write now; None while one is out, when nothing waits, or after a failure."""
        if self._failure is not None or self._is_syncing:
            return None
        self.transactions.before_sync(now_ms)
        self.pops.before_sync(now_ms)
        job = self._store.take_sync()
        self._is_syncing = job is not None
        return job

    def synced(self, job: SyncJob, error: OSError | None, now_ms: int, stored: Stored | None = None) -> list[Ticket]:
        """Take over a written batch: its tickets are durable and visible. After an error the store is FAILED for good:
        a second sync may succeed although the data is gone. ``stored`` hears of the tickets before the services do."""
        self._is_syncing = False
        if error is not None:
            self._fail(error)
        if self._failure is not None:
            return []
        tickets = self._store.synced(job)
        try:
            if stored is not None and tickets:
                stored(tickets)
        finally:
            for service, notes in job.notes.items():
                service.synced(notes, now_ms)
        return tickets

    def abandoned(self) -> list[Ticket]:
        """Return the tickets that a failed store will never write, once: their senders are to be told."""
        return self._store.abandon() if self._failure is not None else []

    def take_arrivals(self) -> set[tuple[str, int]]:
        """Return (topic, queue id) of the queues that became longer since the last call."""
        arrivals = self._store.arrivals
        if arrivals:
            self._store.arrivals = set()
        return arrivals

    # Time: what is due goes on, and what is to be done beside the messages is done.

    def tick(self, now_ms: int) -> int | None:
        """Release what is due; return the moment of the next release, None if nothing waits."""
        if self._failure is not None or self._closed:
            return None
        if self._store.pending_bytes > 2 * self.config.sync_batch_bytes:
            return now_ms + 1
        moments = [moment for service in self._services if (moment := service.tick(now_ms)) is not None]
        return min(moments, default=None)

    def take_upkeep(self, now_ms: int) -> UpkeepJob | None:
        """Return work to do beside the messages; call this every few hundred ms."""
        if self._failure is not None or self._closed:
            return None
        is_time = not self._retention_ms <= now_ms < self._retention_ms + _RETENTION_INTERVAL_MS
        if is_time and self._upkeep.may_remove(now_ms):
            self._retention_ms = now_ms
            try:
                expire(self._store, self._repair, now_ms, self._services)
            except OSError as error:
                if error.errno not in NO_DESCRIPTOR:
                    raise
            if (end_position := oldest_expired(self._store, now_ms)) is not None:
                self.timers.compaction.move(end_position, now_ms)
        job = self._upkeep.take(now_ms)
        if job is not None:
            self._add_pace(job, now_ms)
        return job

    def _add_pace(self, job: UpkeepJob, now_ms: int, *, is_last: bool = False) -> None:
        save = self.timers.kept_pace.take(now_ms, is_last=is_last)
        if save is not None:
            job.saves.append(save)

    @property
    def is_upkeeping(self) -> bool:
        """Tell whether an upkeep job is out: what it writes must not be removed meanwhile."""
        return self._upkeep.is_out

    def upkept(self, job: UpkeepJob, error: OSError | None, now_ms: int) -> None:
        """Take over what an upkeep job did. A full disk is waited out, and so is a want of descriptors: what needed one
        was not begun, and the next job does all anew. Any other error is final."""
        self._upkeep.done(job, now_ms, failed=error is not None)
        self.timers.kept_pace.done(failed=error is not None)
        if error is not None and error.errno in NO_ROOM:
            self._upkeep.disk_ratio = 1.0
        elif error is not None and error.errno not in NO_DESCRIPTOR:
            self._fail(error)

    # Reading: what stands in queues, records and keys. It changes nothing.

    def queue_bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """Return (min, max) offset of a queue. Raises TopicNotFound."""
        return self._reader.bounds(topic, queue_id)

    def queue_end(self, topic: str, queue_id: int) -> int:
        """Return the offset that the next message of a queue will have. Raises TopicNotFound."""
        return self._reader.bounds(topic, queue_id)[1]

    def queue_growth(self, topic: str, queue_id: int) -> tuple[int, int]:
        """Return the end of a queue, as ``queue_end``, and the bytes of all records that it took since it was opened
        (of some that are not to be seen yet, too). Raises TopicNotFound."""
        queue = self._store.queues.get(topic, queue_id)
        return self._reader.bounds(topic, queue_id)[1], queue.taken_bytes if queue is not None else 0

    def pull(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int,
        max_bytes: int,
        tags_codes: Selection = None,
    ) -> Pulled:
        """Return records from an offset on. Raises TopicNotFound."""
        return self._reader.pull(topic, queue_id, offset, max_count, max_bytes, tags_codes)

    def entries(self, topic: str, queue_id: int, offset: int, count: int) -> list[QueueEntry]:
        """Return queue entries; their tags code is the due time in SCHEDULE_TOPIC_XXXX. Raises TopicNotFound."""
        return self._reader.entries(topic, queue_id, offset, count)

    def record_at(self, position: int) -> bytes:
        """Return a whole verified record. Raises RecordNotFound, CorruptRecord."""
        return self._store.record_at(position)

    def look_at(self, position: int) -> bytes:
        """Return the record as ``record_at`` does, for a position that may be made up: none there is no damage."""
        return self._store.look_at(position)

    def offset_at_time(self, topic: str, queue_id: int, timestamp_ms: int) -> int:
        """Return the first offset stored at or after a moment. Raises TopicNotFound."""
        return self._reader.offset_at_time(topic, queue_id, timestamp_ms)

    def store_ms(self, topic: str, queue_id: int, offset: int) -> int | None:
        """Return when a message was stored, None if it is gone. Raises TopicNotFound."""
        return self._reader.store_ms(topic, queue_id, offset)

    def find(self, topic: str, key: str, *, begin_ms: int, end_ms: int, max_count: int, now_ms: int) -> list[int]:
        """Return positions of messages with a key or unique id, newest first.

        Messages stored before the clock was set back lie in the future, so ``now_ms`` sets no limit.
        """
        return self._reader.find(topic, key, begin_ms=begin_ms, end_ms=end_ms, max_count=max_count)

    # Timers that wait: one is steered, or all are paused. What waits is asked of `timers` itself.

    def steer_timer(
        self,
        action: Action,
        target: Target,
        *,
        due_ms: int | None = None,
        reason: str = "",
        now_ms: int,
        owner: object = None,
    ) -> Outcome:
        """Cancel, reschedule (to ``due_ms``) or deliver one timer now (14005, 370).

        The outcome may be told when all its ``tickets`` are durable; without any it is already. Raises StoreRefused.
        """
        self.check_open()
        return self.timers.steering.steer(action, target, due_ms, reason, now_ms, owner)

    def recall_timer(
        self, topic: str, unique_key: str, moment_ms: int, *, now_ms: int, owner: object = None
    ) -> Outcome:
        """Take back what waits with a unique key, or comes with it before the moment of its handle is over (370).

        Told as ``steer_timer``'s. Raises StoreRefused.
        """
        self.check_open()
        return self.timers.steering.recall(topic, unique_key, moment_ms, now_ms, owner)

    def pause_timers(self, paused: bool, now_ms: int) -> dict[str, Any]:
        """Stop releasing or go on (14006); durable when it returns. Raises OSError."""
        self.check_open()
        self.timers.pause(paused, now_ms)
        return {"paused": paused, "pending": self.timers.states.pending, "backlog": self.timers.backlog(now_ms)}

    # How fast timers can be released: measured under load, and where nothing was, by an engine beside this one.

    def wants_self_test(self, now_ms: int) -> bool:
        """Tell whether nothing was measured and nobody would notice if it were: ask this every second or so."""
        is_quiet = self._quiet.saw(self._store.log.end_position, now_ms)
        has_room = self.is_open and self._upkeep.disk_ratio <= self.config.disk_refuse_ratio
        return is_quiet and has_room and self.timers.pace.measured is None

    def admit_self_test(self) -> None:
        """Raise StoreFailed, StoreClosed or DiskFull where a self-test cannot write, as no send can."""
        self._check_room()

    def self_tested(self, per_s: float, now_ms: int) -> Measured:
        """Take over what a self-test measured; return the figure as it is told from now on."""
        measured = self.timers.pace.measured = Measured(round(per_s, 1), now_ms, "self_test")
        return measured

    # Topics that go, and what waits for them.

    def delete_topic(self, topic: str, pending: Pending | None = None) -> None:
        """Forget a topic, its queues and what groups consumed of it. Raises TopicNotFound, InvalidValue, OSError.

        ``pending``: ``cancel`` what waits for it (timers, delayed messages, halves), so that it never comes out, or
        ``keep`` it: the first that is due makes the topic anew, with None with the queues of a new one.
        Raises StoreBusy while an upkeep job is out: it may be writing these queues.
        """
        if self.is_upkeeping:
            raise StoreBusy
        was_used = any(name == topic for name, _ in self._store.queues.known)
        self.topics.delete(topic, self._store.log.end_position, pending, was_used=was_used)
        self._store.queues.remove(topic)
        self.offsets.remove_topic(topic)
        # made again, the topic must not be consumed from where the old one ended
        self.offsets.save()
        self.pops.forget_topic(topic)
        if pending == "cancel":
            self.timers.drop(topic)

    def cancel_waiting(self, topic: str) -> None:
        """Have nothing come out that waits for a topic now, whether the topic is there or not. Raises InvalidTopicName,
        InvalidValue, OSError."""
        self.topics.cancel_waiting(topic, self._store.log.end_position)
        self.timers.drop(topic)

    def waiting_for(self, topic: str) -> Waiting:
        """Return a count of what waits for a topic, to be driven on a portion at a time."""
        return Waiting(self._store, self.schedule, self.transactions.table, self.timers.states, topic)

    # Settings, and how the store is.

    def reconfigure(self, config: EngineConfig) -> None:
        """Take over changed settings: topics made at their first message, retention, disk limit, sizes, timers,
        transactions.

        The others must be what they were. A half message that is open keeps the moment at which it is due.
        """
        self.config = self._store.config = config
        table = self.transactions.table
        table.timeout_ms, table.interval_ms = config.transaction_timeout_ms, config.transaction_interval_ms
        table.most_checks = config.transaction_checks
        self._intake.reconfigure(config)

    def expire_soon(self) -> None:
        """Have the next upkeep look for segments whose time has come."""
        self._retention_ms = -_RETENTION_INTERVAL_MS

    def health(self) -> Health:
        """Return how the store is: its state, what is damaged, how full the disk is."""
        return assess(
            self._store,
            failure=self._failure,
            closed=self._closed,
            disk_ratio=self._upkeep.disk_ratio,
            started_ms=self._started_ms,
            records_recovered=self._records_recovered,
            unreadable=self.schedule.unreadable(),
        )

    def changes_token(self) -> str:
        """Return the token that 14000 would give now: while it is the same, nothing has changed."""
        return token_of(self._store, self._started_ms)

    def changes_since(self, token: str, now_ms: int) -> dict[str, Any]:
        """Return the body of request 14000 (see status.py)."""
        changes = changes_since(self._store, self.schedule, self.health(), token, now_ms)
        return changes | {"transactions": self.transactions.summary()}

    def schedule_json(self, now_ms: int) -> dict[str, Any]:
        """Return the body of request 14001."""
        return {"nowMs": now_ms, "levels": [level_json(level) for level in self.schedule.status(now_ms)]}
