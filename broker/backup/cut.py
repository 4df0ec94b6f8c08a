"""Cutting a restored store back to an earlier moment: the log ends before the first record that was stored then.

What is made from the log follows from it: queues, keys, timers, halves, pops are as the log says. The rest is taken
from the moment of the backup and fitted:

    consumer offsets      not beyond the new end of their queue; what was consumed after the moment stays consumed
    deleted topics        what was deleted after the moment counts as not deleted; its settings are those of a new one
    delayOffset.json, timercheck, index, files of timers, halves and pops, checkpoints
                          kept if the last checkpoint is before the cut, else removed: the broker makes them anew

Queues are kept in any case: the broker cuts them itself, and where all of a queue has expired only its file says at
which offset it goes on.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from ..engine.disk import Files, join, load_file, replace_file
from ..engine.log.checkpoint import NO_INDEX, Checkpoint, CheckpointFile
from ..engine.log.commit_log import CommitLog
from ..engine.tables import json_file
from ..engine.tables.topics import Topic
from ..rocketmq.errors import CorruptRecord
from ..rocketmq.layout import store_ms_of
from ..rocketmq.message import Message, decode
from .errors import BackupRefused
from .manifest import Manifest

_DELETIONS = ("escapementDeletedTopics", "escapementCancelledTopics")
_KEPT = "consumequeue/"


@dataclass(frozen=True, slots=True)
class Cut:
    """Where a log was cut and what that means; nothing, if ``records`` is 0. ``revived_topics`` were deleted later."""

    position: int
    last_ms: int
    records: int
    is_rebuilt: bool
    offsets_cut: int
    revived_topics: list[str] = field(default_factory=list)


def cut_store(files: Files, root: str, manifest: Manifest, until_ms: int) -> Cut:
    """Cut a store that no broker has open. Raises BackupRefused if nothing would be left, OSError."""
    log = CommitLog(files, join(root, "commitlog"), manifest.segment_size_bytes)
    try:
        position, last_ms = _place_of(log, manifest, until_ms)
        if position == manifest.position:
            return Cut(position, last_ms, 0, False, 0)
        behind = 0
        ends: dict[tuple[str, int], int] = {}
        for _, record in _records(log, position, manifest.position):
            behind += 1
            with suppress(CorruptRecord):
                message = decode(record, verify=False)
                ends.setdefault((message.topic, message.queue_id), message.queue_offset)
        lives = _lives(log, manifest, position, _fit_topics(files, join(root, "config"), position))
        revived = _bring_back(files, join(root, "config", "topics.json"), lives)
        log.chain.clear_from(position)
    finally:
        log.close()
    is_rebuilt = manifest.checkpoint_position is None or position < manifest.checkpoint_position
    if is_rebuilt:
        _remove_derived(files, root, manifest)
    offsets_cut = _fit_offsets(files, join(root, "config"), ends)
    return Cut(position, last_ms, behind, is_rebuilt, offsets_cut, revived)


def _remove_derived(files: Files, root: str, manifest: Manifest) -> None:
    """Remove what says more than the log does now, but for the queues; a checkpoint that vouches for nothing stays, as
    it says of which sizes the store is."""
    paths = join(root, "escapement.checkpoint"), join(root, "checkpoint")
    known = CheckpointFile(files, *paths).load()
    for part in manifest.parts:
        if part.kind == "derived" and not part.path.startswith(_KEPT):
            files.remove(join(root, part.path))
    if known is not None:
        of_nothing = Checkpoint(
            position=-1, index_name=NO_INDEX, segment_size=known.segment_size,
            queue_file_entries=known.queue_file_entries, index_slots=known.index_slots,
            index_entries=known.index_entries,
        )  # fmt: skip
        CheckpointFile(files, *paths).save(of_nothing)
        files.remove(paths[1])
    files.sync_directory(root)
    files.sync_directory(join(root, "config"))


def _place_of(log: CommitLog, manifest: Manifest, until_ms: int) -> tuple[int, int]:
    """Return where the first record stands that was stored at the moment or later, and when the one before it was."""
    last_ms = 0
    for position, record in _records(log, manifest.min_position, manifest.position):
        stored_ms = store_ms_of(record)
        if stored_ms >= until_ms:
            if not last_ms:
                raise BackupRefused("Nothing was stored before that time; use an older backup, or a later time.")
            return position, last_ms
        last_ms = stored_ms
    return manifest.position, last_ms


def _records(log: CommitLog, position: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Yield every sound record from a position on, past what is damaged."""
    while True:
        for reached, record in log.walk(position, end):
            position = reached
            if record is not None:
                yield position, record
        following = log.next_sound(position, end)
        if following is None or following >= end:
            return
        position = following


def _fit_offsets(files: Files, directory: str, ends: dict[tuple[str, int], int]) -> int:
    """Have no group stand beyond the end of a queue; return how many offsets were changed."""
    changed = 0
    for path in _versions(directory, "consumerOffset.json"):
        if (value := _table(files, path)) is None:
            continue
        changed_here = 0
        for name, queues in (value.get("offsetTable") or {}).items():
            topic = str(name).partition("@")[0]
            for queue_id, offset in queues.items():
                end = ends.get((topic, int(queue_id)), int(offset))
                if end < int(offset):
                    queues[queue_id] = end
                    changed_here += 1
        if changed_here:
            _save(files, path, value)
        changed = changed or changed_here
    return changed


def _fit_topics(files: Files, directory: str, position: int) -> list[str]:
    """Forget deletions that came later; return the topics that were deleted so. One right at the cut may have come
    before the moment or after it: then messages are there rather than not."""
    deleted: set[str] = set()
    for path in _versions(directory, "topics.json"):
        if (value := _table(files, path)) is None:
            continue
        later = [
            (key, name) for key in _DELETIONS for name, at in (value.get(key) or {}).items() if int(at) >= position
        ]
        for key, name in later:
            del value[key][name]
        if later:
            deleted |= {name for key, name in later if key == _DELETIONS[0]}
            _save(files, path, value)
    return sorted(deleted)


@dataclass(slots=True)
class _Life:
    """What the log tells of a topic that was deleted later: how many queues it must have, and a position below which
    all is of an earlier life. Only the last deletion is remembered, but offsets begin anew with each life."""

    queues: int = 1
    void_below: int = 0
    #: last offset and its position, by queue
    last: dict[int, tuple[int, int]] = field(default_factory=dict)

    def see(self, message: Message) -> None:
        """Take note of the next of its records."""
        offset, position = self.last.get(message.queue_id, (-1, -1))
        if message.queue_offset <= offset:
            self.void_below = max(self.void_below, position + 1)
        self.last[message.queue_id] = (message.queue_offset, message.position)
        self.queues = max(self.queues, message.queue_id + 1)


def _lives(log: CommitLog, manifest: Manifest, position: int, topics: list[str]) -> dict[str, _Life]:
    """Return what there is below the position of each of these topics that has a record there."""
    found: dict[str, _Life] = {}
    for _, record in _records(log, manifest.min_position, position) if topics else ():
        with suppress(CorruptRecord):
            message = decode(record, verify=False)
            if message.topic in topics:
                found.setdefault(message.topic, _Life()).see(message)
    return found


def _bring_back(files: Files, path: str, lives: dict[str, _Life]) -> list[str]:
    """Put the topics that are missing into the table as new ones, and return them."""
    if not lives:
        return []
    value = _table(files, path) or {}
    table = value.setdefault("topicConfigTable", {})
    missing = sorted(name for name in lives if name not in table)
    for name in missing:
        table[name] = Topic(name, lives[name].queues, lives[name].queues).to_json()
    deleted = value.setdefault(_DELETIONS[0], {})
    deleted.update((name, life.void_below) for name, life in lives.items() if life.void_below)
    _save(files, path, value)
    return missing


def _versions(directory: str, name: str) -> tuple[str, str]:
    return join(directory, name), join(directory, f"{name}.bak")


def _table(files: Files, path: str) -> dict[str, Any] | None:
    """Return the content of a table, None where there is none that can be read."""
    content = load_file(files, path)
    try:
        return json_file.parse(content) if content else None
    except ValueError:
        return None


def _save(files: Files, path: str, value: dict[str, Any]) -> None:
    replace_file(files, path, json_file.dump(value))
    files.sync_directory(path.rpartition("/")[0])
