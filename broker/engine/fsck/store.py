"""The check of a whole store."""

from __future__ import annotations

from ...rocketmq.message import Message, decode, string_hash
from ...rocketmq.properties import REAL_TOPIC, TAGS
from ..disk import atomic
from ..disk.files import Files, join
from ..errors import CorruptRecord
from ..log.checkpoint import Checkpoint, CheckpointFile
from ..log.unsupported_files import refuse_outside
from ..message_header import extra_key_of
from ..tables import json_file
from ..tables.topics import SCHEDULE_TOPIC, TIMER_TOPIC
from .index import IndexCheck
from .log import LogCheck
from .queues import QueueCheck
from .report import Damage, Report
from .timers import TimerCheck
from .transactions import TransactionCheck

_CHECKPOINT = "escapement.checkpoint"
_TABLES = ("topics.json", "subscriptionGroup.json", "consumerOffset.json", "delayOffset.json")


def check_store(files: Files, root: str) -> Report:
    """Check everything under ``root``; raises FileNotFoundError where no store is, StoreUnsupported."""
    directory = join(root, "commitlog")
    if not files.exists(directory):
        raise FileNotFoundError(directory)
    refuse_outside(files, root)
    report = Report()
    log = LogCheck(files, directory)
    queues = QueueCheck(files, join(root, "consumequeue"), report)
    checkpoint = CheckpointFile(files, join(root, _CHECKPOINT), join(root, "checkpoint")).load()
    sizes = (checkpoint.index_slots, checkpoint.index_entries) if checkpoint and checkpoint.index_slots else None
    index = IndexCheck(files, join(root, "index"), sizes, report)
    transactions = TransactionCheck(directory, report)
    timers = TimerCheck(files, root, report)
    for position, record in log.records():
        report.counts["records"] += 1
        report.counts["record bytes"] += len(record)
        try:
            message = decode(record, verify=False)
        except CorruptRecord as error:
            report.damages.append(Damage(directory, position, position + len(record), error.why))
            continue
        entry = (position, len(record), _tags_code(message))
        queues.expect(message.topic, message.queue_id, message.queue_offset, entry)
        index.expect(position, _index_hashes(message))
        if message.topic == TIMER_TOPIC:
            timers.expect(message.queue_offset, position, len(record), message.properties.get(REAL_TOPIC, ""))
        transactions.see(message)
    report.counts["segments"] = len(log.segments)
    report.damages += [Damage(*damage) for damage in log.damaged]
    queues.finish(log.min_position, [(start, end) for _, start, end, _ in log.damaged])
    index.finish(log.end_position)
    timers.finish()
    transactions.finish()
    _check_end(files, root, checkpoint, log, report)
    _check_tables(files, root, report)
    if not files.exists(join(root, "abort")):
        # it was stopped cleanly, so nothing may be left to do
        report.damages += report.unfinished
        report.unfinished = []
    return report


def _tags_code(message: Message) -> int | None:
    """Return what the queue entry must say; None for parked messages, whose entry says when they are due."""
    if message.topic == SCHEDULE_TOPIC:
        return None
    return string_hash(message.tags) if message.tags else 0


def _index_hashes(message: Message) -> list[int]:
    """Return the index hash of each key: unique id, keys, tag."""
    names = [*([message.unique_key] if message.unique_key else []), *message.keys]
    if tags := message.properties.get(TAGS):
        names.append(f"T#{tags}")
    if extra_key := extra_key_of(message.topic, message.properties):
        names.append(extra_key)
    hashes = [abs(string_hash(f"{message.topic}#{name}")) for name in names]
    return [value if value < 1 << 31 else 0 for value in hashes]


def _check_end(files: Files, root: str, checkpoint: Checkpoint | None, log: LogCheck, report: Report) -> None:
    """Compare the end of the log with what the checkpoint promises."""
    if log.loose is not None:
        path, start, end = log.loose
        report.unfinished.append(Damage(path, start, end, "bytes behind the last record"))
    path = join(root, _CHECKPOINT)
    if checkpoint is None and files.exists(path):
        report.damages.append(Damage(path, 0, 0, "neither slot can be read"))
    elif checkpoint is not None and checkpoint.position > log.end_position:
        why = f"the log ends here, the checkpoint says {checkpoint.position:,}"
        report.damages.append(Damage(join(root, "commitlog"), log.end_position, checkpoint.position, why))


def _check_tables(files: Files, root: str, report: Report) -> None:
    for name in _TABLES:
        for path in (join(root, "config", name), join(root, "config", f"{name}.bak")):
            content = atomic.load(files, path)
            if content is None:
                continue
            report.counts["tables"] += 1
            try:
                json_file.parse(content)
            except ValueError as error:
                report.damages.append(Damage(path, 0, len(content), f"not readable: {error}"))
