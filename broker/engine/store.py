"""The store: the log, what is derived from it, the small tables beside it, and the way of a record into them.

A record is given its place in the log, its queue and the index at once, in memory; readers see it when ``synced``
says that the log holds it durably (flush=sync) or at all (flush=async).

One counter tells what changed when of all topics, queues, groups, offsets and levels (``Changes``). A follower keeps
the number it was given and asks for everything newer. Each thing stands once, at its last change. Things that are gone
stand there, too; so those that changed longest ago are forgotten when they are many, and who is further behind than
that is told everything.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Literal

from ..rocketmq.message import Message, encode, pack_host, record_size, string_hash
from ..rocketmq.properties import DELAY
from ..rocketmq.topics import SCHEDULE_TOPIC
from .config import EngineConfig, parse_delay_levels
from .disk import Files, join
from .errors import CorruptRecord, RecordNotFound, StoreBusy
from .log.checkpoint import CheckpointFile, DamagedRange, Derived
from .log.commit_log import CommitLog
from .log.ticket import SyncJob, Ticket
from .message_header import Facts, also_indexed
from .queues.index import Index
from .queues.queues import ConsumeQueue, Queues
from .tables.groups import ConsumerOffsets, Groups
from .tables.key_values import KeyValues
from .tables.topics import Topics

# What changed since when.

#: Remembered at most; a follower asks several times a second.
MOST_MARKS = 100_000

ChangeKind = Literal["topic", "queue", "group", "offset", "level", "broker"]


class Changes:
    """The order of last changes. Deleted things stay marked so that followers hear of it."""

    def __init__(self) -> None:
        self.sequence = 0
        #: nobody who is further behind can be told what changed
        self.oldest_sequence = 0
        self._marks: dict[tuple[ChangeKind, Hashable], int] = {}

    def touch(self, kind: ChangeKind, key: Hashable) -> None:
        """Note that a thing was made, changed or deleted now."""
        self.sequence += 1
        mark = (kind, key)
        self._marks.pop(mark, None)
        self._marks[mark] = self.sequence
        if len(self._marks) > MOST_MARKS:
            # a part of them at once: the front of a table is not looked through for each
            for oldest in list(islice(self._marks, MOST_MARKS // 4)):
                self.oldest_sequence = self._marks.pop(oldest)

    def __len__(self) -> int:
        """Return how many things are remembered."""
        return len(self._marks)

    def knows(self, sequence: int) -> bool:
        """Tell whether ``since`` this number leaves nothing out."""
        return self.oldest_sequence <= sequence <= self.sequence

    def since(self, sequence: int) -> dict[ChangeKind, list[Hashable]]:
        """Return what changed after ``sequence``, by kind."""
        changed: dict[ChangeKind, list[Hashable]] = {}
        for (kind, key), number in reversed(self._marks.items()):
            if number <= sequence:
                break
            changed.setdefault(kind, []).append(key)
        return changed


# The store.

#: Ranges of damage remembered one by one; more are the same news.
_DAMAGE_LIMIT = 1000
_TAG_MEMORY_LIMIT = 4096


class Store:
    """Everything on disk under one root."""

    def __init__(self, config: EngineConfig, files: Files) -> None:
        root = config.root
        self.config = config
        self.files = files
        self.changes = Changes()
        touch = self.changes.touch
        self.log = CommitLog(files, join(root, "commitlog"), config.segment_size_bytes)
        self.queues = Queues(files, join(root, "consumequeue"), config.queue_file_entries)
        self.index = Index(files, join(root, "index"), config.index_slots, config.index_entries)
        settings = join(root, "config")
        files.make_directory(settings)
        self.topics = Topics(files, join(settings, "topics.json"), lambda name: touch("topic", name))
        self.groups = Groups(files, join(settings, "subscriptionGroup.json"), lambda name: touch("group", name))
        self.offsets = ConsumerOffsets(files, join(settings, "consumerOffset.json"), lambda key: touch("offset", key))
        self.key_values = KeyValues(files, join(settings, "kvConfig.json"))
        self.checkpoints = CheckpointFile(files, join(root, "escapement.checkpoint"), join(root, "checkpoint"))
        self.store_host = pack_host(config.host, config.port)
        self.arrivals: set[tuple[str, int]] = set()
        self.damaged: list[DamagedRange] = []
        #: below it nothing points into the log any more; None until retention has looked
        self.trimmed_position: int | None = None
        #: all below it is visible; what a checkpoint may name
        self.visible_position = 0
        self.visible_index_mark = ("", 1)
        self.visible_ms = 0
        self._open_job = SyncJob()
        self._closed_jobs: list[SyncJob] = []
        self._job_out: SyncJob | None = None
        self._pending_bytes = 0
        self._pending_limit_bytes = config.pending_limit_bytes
        self._sync_batch_bytes = config.sync_batch_bytes
        self._delays_ms = parse_delay_levels(config.delay_levels)
        self._tags: dict[str, int] = {}
        self._names: dict[str, bytes] = {}

    # the way in

    def append(
        self,
        topic: str,
        queue_id: int,
        body: bytes,
        facts: Facts,
        tags_code: int,
        flag: int,
        sys_flag: int,
        born_ms: int,
        born_host: bytes,
        store_ms: int,
        reconsume_times: int = 0,
        prepared_position: int = 0,
        *,
        owner: object = None,
        asked_queue_id: int = -1,
        asked_topic: str | None = None,
        due_ms: int | None = None,
        also_key: str | None = None,
    ) -> Ticket:
        """Append one record to a queue that is known to be right. Raises DiskFull, StoreBusy; then nothing changed."""
        if self._pending_bytes > self._pending_limit_bytes:
            raise StoreBusy
        stored, unique_key, tags, keys, _, _, _ = facts
        host = self.store_host
        name = self._names.get(topic) or self.name_of(topic)
        size = record_size(name, body, stored, born_host, host)
        log = self.log
        position = log.place(size)
        queue = self.queues.known.get((topic, queue_id)) or self.queues.ensure(topic, queue_id)
        offset = queue.append(position, size, tags_code)
        log.push(
            encode(
                name, queue_id, offset, position, body, stored, flag, sys_flag, born_ms, born_host, store_ms, host,
                reconsume_times, prepared_position, size,
            ),
            size,
        )  # fmt: skip
        if unique_key:
            self.index.add(f"{topic}#{unique_key}", position, store_ms)
        if keys or tags:
            self._add_to_index(topic, tags, keys, position, store_ms)
        if also_key:
            self.index.add(f"{topic}#{also_key}", position, store_ms)
        queue.last_ms = store_ms
        job = self._open_job
        job.queue_ends[queue] = offset + 1
        job.store_ms = store_ms
        asked = queue_id if asked_queue_id < 0 else asked_queue_id
        ticket = Ticket(owner, asked_topic or topic, asked, offset, position, size, store_ms, host, due_ms, unique_key)
        job.tickets.append(ticket)
        self._pending_bytes += size
        if log.batch.size_bytes >= self._sync_batch_bytes:
            self._seal()
        return ticket

    def appended(
        self, size: int, queues: Iterable[ConsumeQueue], store_ms: int, tickets: Sequence[Ticket] = ()
    ) -> None:
        """Take note of records of ``size`` bytes that were appended together: with tickets, all of them, or without."""
        job = self._open_job
        for queue in queues:
            job.queue_ends[queue] = queue.end_offset
        job.store_ms = store_ms
        job.tickets += tickets
        if not tickets:
            job.bare_bytes += size
        self._pending_bytes += size

    def seal_if_full(self) -> None:
        """Close the batch if it is large enough for a sync of its own."""
        if self.log.batch.size_bytes >= self._sync_batch_bytes:
            self._seal()

    def make_room(self, size: int) -> None:
        """Make sure that records of so many bytes in all can be appended. Raises DiskFull, StoreBusy."""
        if self._pending_bytes > self.config.pending_limit_bytes:
            raise StoreBusy
        self.log.make_room(size)

    def add_to_index(self, topic: str, facts: Facts, position: int, store_ms: int) -> None:
        """Make a record findable by unique id, keys and tags."""
        if facts.unique_key:
            self.index.add(f"{topic}#{facts.unique_key}", position, store_ms)
        self._add_to_index(topic, facts.tags, facts.keys, position, store_ms)

    def _add_to_index(self, topic: str, tags: str | None, keys: str | None, position: int, store_ms: int) -> None:
        for entry in also_indexed(topic, tags, keys):
            self.index.add(entry, position, store_ms)

    def name_of(self, topic: str) -> bytes:
        """Return a topic's name as it stands in records."""
        name = self._names.get(topic)
        if name is None:
            name = self._names[topic] = topic.encode()
        return name

    def tags_code(self, tags: str | None) -> int:
        """Return the tags code of a queue entry: Java's hash of the tags, 0 without."""
        if not tags:
            return 0
        code = self._tags.get(tags)
        if code is None:
            if len(self._tags) >= _TAG_MEMORY_LIMIT:
                self._tags.clear()
            code = self._tags[tags] = string_hash(tags)
        return code

    def tags_code_of(self, message: Message) -> int:
        """Return what the queue entry of a stored record says; for a parked one it is the moment it is due."""
        if message.topic != SCHEDULE_TOPIC:
            return self.tags_code(message.tags)
        level = message.properties.get(DELAY, "")
        number = int(level) if level.isascii() and level.isdigit() and len(level) < 10 else 0
        return message.store_ms + (self._delays_ms[min(number, len(self._delays_ms)) - 1] if number else 1000)

    def note(self, derived: Derived, value: Any) -> None:
        """Have a service told ``value`` when the record just appended is visible."""
        self._notes_of(derived).append(value)

    def note_all(self, derived: Derived, values: Iterable[Any]) -> None:
        """Have a service told these when the records just appended together are visible."""
        self._notes_of(derived).extend(values)

    def _notes_of(self, derived: Derived) -> list[Any]:
        job = self._open_job if self._open_job.queue_ends else self._closed_jobs[-1]
        notes = job.notes.get(derived)
        if notes is None:
            notes = job.notes[derived] = []
        return notes

    # group commit

    def _seal(self) -> None:
        job = self._open_job
        sync = self.config.flush == "sync"
        writes = self.log.take(sync=sync)
        if writes is None:
            return
        job.writes = writes
        job.end_position = writes.end_position
        job.index_mark = self.index.mark()
        job.sync = sync
        self._closed_jobs.append(job)
        self._open_job = SyncJob()

    def take_sync(self) -> SyncJob | None:
        """Return the next batch to write; None while one is out, or when there is nothing."""
        if self._job_out is not None:
            return None
        if not self._closed_jobs:
            self._seal()
            if not self._closed_jobs:
                return None
        self._job_out = self._closed_jobs.pop(0)
        return self._job_out

    def synced(self, job: SyncJob) -> list[Ticket]:
        """Make a written batch visible and return its tickets."""
        self._job_out = None
        if job.sync:
            self.log.durable_position = job.end_position
        self.visible_position = job.end_position
        self.visible_index_mark = job.index_mark
        self.visible_ms = job.store_ms
        touch = self.changes.touch
        for queue, end in job.queue_ends.items():
            queue.max_offset = end
            key = (queue.topic, queue.queue_id)
            self.arrivals.add(key)
            touch("queue", key)
        if job.writes is not None:
            self._pending_bytes -= sum([ticket.size for ticket in job.tickets]) + job.bare_bytes
        return job.tickets

    def join(self, ticket: Ticket) -> bool:
        """Answer a ticket for a record that is there already with what is being written; False if nothing is."""
        job: SyncJob | None = self._open_job
        if not self._open_job.queue_ends:
            job = self._closed_jobs[-1] if self._closed_jobs else self._job_out
        if job is None:
            return False
        job.tickets.append(ticket)
        job.bare_bytes -= ticket.size
        return True

    def unseen(self) -> Iterator[Ticket]:
        """Yield the tickets of what was appended and is not visible yet."""
        out = [self._job_out] if self._job_out is not None else []
        for job in (*out, *self._closed_jobs, self._open_job):
            yield from job.tickets

    def abandon(self) -> list[Ticket]:
        """Return the tickets of everything that was appended and will never be written."""
        jobs = [*self._closed_jobs, self._open_job]
        self._closed_jobs, self._open_job = [], SyncJob()
        return [ticket for job in jobs for ticket in job.tickets]

    @property
    def pending_bytes(self) -> int:
        """Bytes appended that are not visible yet."""
        return self._pending_bytes

    # reading

    def record_at(self, position: int, size: int | None = None) -> bytes:
        """Return one whole visible record. Raises RecordNotFound or CorruptRecord, and remembers the damage."""
        try:
            return self.look_at(position, size)
        except CorruptRecord:
            self.note_damage(position, position + (size or 1))
            raise

    def look_at(self, position: int, size: int | None = None) -> bytes:
        """Return the record as ``record_at`` does, for a position that may be made up: no record there is no damage."""
        if position >= self.visible_position:
            raise RecordNotFound(position)
        return self.log.record_at(position, size)

    def note_damage(self, start: int, end: int) -> None:
        """Remember bytes that cannot be read."""
        if len(self.damaged) < _DAMAGE_LIMIT and not any(known.start <= start < known.end for known in self.damaged):
            self.damaged.append(DamagedRange(start, max(end, start + 1)))
            self.changes.touch("broker", "")

    def close(self) -> None:
        """Close all files; closing twice is fine."""
        self.queues.close()
        self.log.close()
