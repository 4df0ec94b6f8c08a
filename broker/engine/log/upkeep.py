"""Upkeep: derived files and tables made durable, the checkpoint, the next segment, and the removal of old segments.

This is work beside the path of messages. There is one job at a time; it is put together and taken over by the engine,
and runs in any thread. The order inside a job is the order of durability: log, then queues and index, then the
checkpoint that vouches for them.

A backup that is taken beside the broker keeps checkpoints and the removal of segments waiting while it copies what they
change, by the lock on a file that is there once the first backup was taken. Whoever has it must be quick: after some
minutes it is not waited for any more.

A segment of the log goes when its last record is older than the retention time and nothing in it is still pending:
parked messages that are not released, and (unless switched off) messages that a group has not consumed.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from ...rocketmq.message import decode
from ..disk import NO_DESCRIPTOR, File, Files, join, save_file
from ..errors import CorruptRecord, RecordNotFound, StoreLocked
from ..queues.index import IndexWrite
from ..queues.queues import QueueWrite, write_all_entries
from ..queues.repair import QueueRepair
from ..store import Store
from .checkpoint import Checkpoint, Derived, DerivedWrite

#: The disk has no room; it may have again.
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
_DISK_CHECK_INTERVAL_MS = 1_000
#: On a full disk the next segment is tried again after so long.
_SEGMENT_RETRY_MS = 1_000
#: The file on whose lock backup and checkpoints take turns.
BACKUP_LOCK = "escapement.backup"
_BACKUP_PATIENCE_MS = 600_000


@dataclass(slots=True)
class UpkeepJob:
    """A round of upkeep. ``run`` may be called in any thread; everything else belongs to the engine."""

    store: Store
    files: Files
    sync_positions: list[int] = field(default_factory=list)
    durable_position: int = 0
    queue_writes: list[QueueWrite] = field(default_factory=list)
    index_writes: list[IndexWrite] = field(default_factory=list)
    checkpoint: Checkpoint | None = None
    derived_writes: list[DerivedWrite] = field(default_factory=list)
    saves: list[tuple[str, bytes]] = field(default_factory=list)
    offsets_version: int | None = None
    segment: int | None = None
    disk_ratio: float | None = None
    made_segment: bool = False
    checkpointed: bool = False

    def run(self) -> None:
        """Do the work. Raises OSError; what was done by then stays done."""
        for write in self.index_writes:
            write.copy()
        if self.sync_positions:
            self.store.log.sync_all(self.sync_positions)
        if self.checkpoint is not None:
            self._write_derived()
            for derived in self.derived_writes:
                derived.run(self.files)
            self.store.checkpoints.save(self.checkpoint)
            self.checkpointed = True
        for path, content in self.saves:
            save_file(self.files, path, content)
        self.disk_ratio = self.files.used_ratio(self.store.config.root)
        if self.segment is not None:
            self._make_segment(self.segment)

    def _make_segment(self, position: int) -> None:
        """Make the next segment ahead of its need; no room for it is no reason to refuse what still fits this one."""
        try:
            self.store.log.make_segment(position)
        except OSError as error:
            if error.errno not in NO_ROOM | NO_DESCRIPTOR:
                raise
        else:
            self.made_segment = True

    def _write_derived(self) -> None:
        write_all_entries(self.files, self.queue_writes)
        fresh = [write for write in self.index_writes if not self.files.exists(write.file.path)]
        for index_write in self.index_writes:
            index_write.run(self.files)
        if fresh:
            self.files.sync_directory(self.store.index.directory)


class Upkeep:
    """Decides when what is done, and takes over the results."""

    def __init__(self, store: Store, services: Sequence[Derived]) -> None:
        self._store = store
        self._services = services
        self._out: UpkeepJob | None = None
        self._checkpoint_ms = 0
        self._checkpoint_position = store.visible_position
        self._checkpoint_state: tuple[int, dict[str, Any]] | None = None
        self._save_ms = 0
        self._sync_ms = 0
        self._disk_ms = 0
        self._segment_ms = 0
        self._turns = BackupTurns(store.files, join(store.config.root, BACKUP_LOCK))
        self.disk_ratio = 0.0

    @property
    def is_out(self) -> bool:
        """Tell whether a job was taken and is not done."""
        return self._out is not None

    def take(self, now_ms: int) -> UpkeepJob | None:
        """Return the next job, None while one is out or nothing is to be done."""
        store, config = self._store, self._store.config
        if self._out is not None:
            return None
        job = UpkeepJob(store, store.files)
        wanted = (
            (
                _passed(self._checkpoint_ms, config.checkpoint_interval_ms, now_ms)
                or store.visible_position - self._checkpoint_position >= config.checkpoint_bytes
            )
            and self.may_checkpoint
            and (store.visible_position, self._states()) != self._checkpoint_state
            and self._turns.take(now_ms)
        )
        syncs = config.flush == "async" and store.log.durable_position < store.visible_position
        if syncs and (wanted or _passed(self._sync_ms, config.flush_interval_ms, now_ms)):
            self._add_sync(job)
        if wanted:
            self.add_checkpoint(job, clean=False)
            self._checkpoint_ms = now_ms
        if _passed(self._save_ms, config.save_interval_ms, now_ms):
            self.add_saves(job)
            self._save_ms = now_ms
        if _passed(self._segment_ms, _SEGMENT_RETRY_MS, now_ms):
            job.segment = store.log.wanted_segment()
        checks_disk = _passed(self._disk_ms, _DISK_CHECK_INTERVAL_MS, now_ms)
        if not (job.sync_positions or job.checkpoint or job.saves or job.segment is not None or checks_disk):
            return None
        if job.segment is not None:
            store.log.begin_segment(job.segment)
            self._segment_ms = now_ms
        self._sync_ms = now_ms
        self._disk_ms = now_ms
        self._out = job
        return job

    def may_remove(self, now_ms: int) -> bool:
        """Tell whether no backup is copying what the removal of a segment changes."""
        if self._turns.is_taken:
            return True
        may = self._turns.take(now_ms)
        self._turns.give_back()
        return may

    @property
    def may_checkpoint(self) -> bool:
        """Tell whether every service can be told by a checkpoint what it did."""
        return all(service.may_checkpoint for service in self._services)

    def _states(self) -> dict[str, Any]:
        return {service.name: service.state() for service in self._services}

    def _add_sync(self, job: UpkeepJob) -> None:
        log = self._store.log
        start, size = log.chain.segment_start(log.durable_position), log.chain.segment_size
        job.sync_positions = list(range(start, self._store.visible_position, size))
        job.durable_position = self._store.visible_position

    def add_checkpoint(self, job: UpkeepJob, *, clean: bool) -> None:
        """Add everything derived, and the checkpoint that vouches for it."""
        store = self._store
        if store.config.flush == "async":
            self._add_sync(job)
        writes = [queue.unwritten() for queue in store.queues.all()]
        job.queue_writes = [write for write in writes if write is not None]
        job.index_writes = store.index.take()
        index_name, index_number = store.visible_index_mark
        count, total = store.queues.used()
        writes_of_services = [service.writes(clean=clean) for service in self._services]
        job.derived_writes = [write for write in writes_of_services if write is not None]
        job.checkpoint = Checkpoint(
            position=store.visible_position,
            queue_count=count,
            queue_total=total,
            index_name=index_name,
            index_number=index_number,
            states=self._states(),
            damaged=tuple((known.start, known.end) for known in store.damaged),
            clean=clean,
            segment_size=store.log.chain.segment_size,
            queue_file_entries=store.queues.file_entries,
            index_slots=store.config.index_slots,
            index_entries=store.config.index_entries,
            store_ms=store.visible_ms,
        )

    def add_saves(self, job: UpkeepJob) -> None:
        """Add the tables that changed since they were saved."""
        taken = self._store.offsets.take()
        if taken is not None:
            job.offsets_version, content = taken
            job.saves.append((self._store.offsets.path, content))

    def done(self, job: UpkeepJob, now_ms: int, *, failed: bool) -> None:
        """Take over what a job achieved."""
        store = self._store
        self._out = None
        self._turns.give_back()
        if job.segment is not None:
            store.log.end_segment(made=job.made_segment)
        if job.disk_ratio is not None:
            self.disk_ratio = job.disk_ratio
        if job.checkpointed and job.checkpoint is not None:
            for write in job.queue_writes:
                write.queue.wrote(write)
            for index_write in job.index_writes:
                store.index.wrote(index_write)
            self._checkpoint_state = (job.checkpoint.position, job.checkpoint.states)
            self._checkpoint_position = job.checkpoint.position
        else:
            for index_write in job.index_writes:
                store.index.failed(index_write)
        for derived_write in job.derived_writes:
            derived_write.done(saved=job.checkpointed, now_ms=now_ms)
        if job.sync_positions and (job.checkpointed or not failed):
            store.log.durable_position = max(store.log.durable_position, job.durable_position)
        if job.offsets_version is not None and not failed:
            store.offsets.saved(job.offsets_version)


class BackupTurns:
    """The turns of checkpoints and a backup on one lock; where no backup was ever taken there is nothing to lock."""

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self._path = path
        self._turn: File | None = None
        self._waiting_since_ms: int | None = None

    @property
    def is_taken(self) -> bool:
        """Tell whether it is the broker's turn now."""
        return self._turn is not None

    def take(self, now_ms: int) -> bool:
        """Take the turn, until ``give_back``; False while a backup has it, unless it has had it for too long."""
        if self._turn is not None or not self._files.exists(self._path):
            return True
        try:
            self._turn = self._files.lock(self._path)
        except StoreLocked:
            if self._waiting_since_ms is None or now_ms < self._waiting_since_ms:
                self._waiting_since_ms = now_ms
            return now_ms - self._waiting_since_ms > _BACKUP_PATIENCE_MS
        except OSError:
            # it is another user's, or there is no descriptor for it: no reason to do without checkpoints
            self._turn = None
        self._waiting_since_ms = None
        return True

    def give_back(self) -> None:
        """End the turn; fine if none was taken."""
        if self._turn is not None:
            self._turn.close()
            self._turn = None


def _passed(since_ms: int, interval_ms: int, now_ms: int) -> bool:
    """Tell whether an interval is over; a clock that was set back does not stop upkeep."""
    return not since_ms <= now_ms < since_ms + interval_ms


# Removing old segments.

#: Segments removed in one pass.
_SEGMENTS_PER_PASS = 4


def expire(store: Store, repair: QueueRepair, now_ms: int, services: Sequence[Derived]) -> None:
    """Remove the segments whose time has come, and what points into them. Raises OSError; what is left to do then is
    done by the next call."""
    if store.trimmed_position is None:
        store.trimmed_position = store.log.min_position
    for _ in range(removable(store, repair, now_ms, services)):
        store.log.chain.remove_first()
    if store.trimmed_position != store.log.min_position:
        _trim(store)
        store.trimmed_position = store.log.min_position


def oldest_expired(store: Store, now_ms: int) -> int | None:
    """Return the end of the oldest segment if only what is pending keeps it, None if it is not old enough."""
    segments = store.log.chain.segments()
    if len(segments) < 2:
        return None
    stored_ms = _first_stored_ms(store, segments[1])
    border_ms = now_ms - int(store.config.retention_hours * 3_600_000)
    return segments[1] if stored_ms is not None and stored_ms <= border_ms else None


def removable(store: Store, repair: QueueRepair, now_ms: int, services: Sequence[Derived]) -> int:
    """Return how many of the oldest segments may be removed now. The services are asked only if some are old."""
    border_ms = now_ms - int(store.config.retention_hours * 3_600_000)
    ends = []
    for start, following in pairwise(store.log.chain.segments()):
        # a segment is as old as the record after it
        stored_ms = _first_stored_ms(store, following)
        if stored_ms is None or stored_ms > border_ms or start + store.log.chain.segment_size != following:
            break
        ends.append(following)
    if not ends:
        return 0
    pin = store.visible_position
    for service in services:
        pinned = service.oldest_position()
        pin = pin if pinned is None else min(pin, pinned)
    if store.config.keep_unconsumed:
        pin = min(pin, oldest_unconsumed(store, repair))
    return min(sum(end <= pin for end in ends), _SEGMENTS_PER_PASS)


def oldest_unconsumed(store: Store, repair: QueueRepair) -> int:
    """Return the lowest position that a known group has still to consume."""
    pin = store.visible_position
    for (_, topic), queues in store.offsets.all().items():
        for queue_id, offset in queues.items():
            queue = store.queues.get(topic, queue_id)
            if queue is not None and (position := repair.oldest_position(queue, offset)) is not None:
                pin = min(pin, position)
    return pin


def _trim(store: Store) -> None:
    """Remove what points below the log. Raises OSError."""
    low = store.log.min_position
    store.index.trim(low)
    store.topics.forget_deleted(low)
    store.damaged = [known for known in store.damaged if known.end > low]
    for queue in store.queues.all():
        if queue.trim(low, store.files):
            store.changes.touch("queue", (queue.topic, queue.queue_id))


def _first_stored_ms(store: Store, position: int) -> int | None:
    """Return when the first readable record of the segment at ``position`` was stored, None if none is readable.

    Damaged bytes say nothing about time: read as a moment they would let everything before them go.
    """
    log = store.log
    end = min(store.visible_position, position + log.chain.segment_size)
    try:
        return decode(log.record_at(position), verify=False).store_ms if position < end else None
    except (RecordNotFound, CorruptRecord):
        found = log.next_sound(position, end)
    try:
        return decode(log.record_at(found), verify=False).store_ms if found is not None and found < end else None
    except (RecordNotFound, CorruptRecord):
        return None
