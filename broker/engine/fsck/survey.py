"""What is in a store, whose broker is stopped, and what can be had of it: before it moves from one broker to another.

    look = survey(OsFiles(), root, now_ms)

The counts are those of an engine that opened the store, on files whose writes stay in memory (``unwritten.py``): so
what is counted is what a broker would serve. Nothing is locked or changed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ...rocketmq.topics import POP_TOPIC, REVIVE_PREFIX
from ..config import EngineConfig
from ..disk import Files, join
from ..engine import Engine
from ..errors import StoreUnsupported
from ..log.checkpoint import CheckpointFile
from ..outside import holds_entries, holds_rocksdb, reasons_outside
from ..queues.queues import ENTRY_SIZE
from ..timer.checkpoint import is_foreign
from .derived import index_sizes
from .unwritten import UnwrittenFiles

#: Two numbers of EngineConfig and what they are called in broker.conf.
_BROKER_CONF = {
    "segment_size_bytes": ("mappedFileSizeCommitLog", 1),
    "queue_file_entries": ("mappedFileSizeConsumeQueue", ENTRY_SIZE),
    "index_slots": ("maxHashSlotNum", 1),
    "index_entries": ("maxIndexNum", 1),
}
#: What a checkpoint calls by another name.
_KEPT_AS = {"segment_size_bytes": "segment_size"}


@dataclass(frozen=True, slots=True)
class Survey:
    """What was found: ``refused`` says why the store cannot be taken at all, ``lost`` what would stay behind."""

    writer: str
    was_stopped: bool
    sizes: dict[str, int]
    counts: dict[str, int] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)

    def broker_conf(self) -> dict[str, int]:
        """Return what Apache RocketMQ must be told of the sizes, by the names in its ``broker.conf``."""
        return {name: self.sizes[size] * by for size, (name, by) in _BROKER_CONF.items() if size in self.sizes}


def sizes_of(files: Files, root: str) -> dict[str, int]:
    """Return the sizes that a store was made with, by their names in EngineConfig; none of one that is new.

    They cannot be changed, so who opens the store gives them to its EngineConfig. Our checkpoint says them; of a store
    that only Apache RocketMQ has written its files do.
    """
    kept = CheckpointFile(files, join(root, "escapement.checkpoint"), join(root, "checkpoint")).load()
    if kept is not None:
        return {name: size for name in _BROKER_CONF if (size := getattr(kept, _KEPT_AS.get(name, name)))}
    if not _is_of_apache(files, root):
        return {}
    found = {"segment_size_bytes": _segment_size(files, join(root, "commitlog"))}
    found["queue_file_entries"] = _queue_file_size(files, join(root, "consumequeue")) // ENTRY_SIZE
    names = [name for name in files.list(join(root, "index")) if name.isdigit()]
    if sizes := index_sizes(files, [join(root, "index", name) for name in names]):
        found["index_slots"], found["index_entries"] = sizes
    return {name: size for name, size in found.items() if size}


def survey(files: Files, root: str, now_ms: int) -> Survey:
    """Look through a store. Raises FileNotFoundError where none is."""
    if not any(name.isdigit() for name in files.list(join(root, "commitlog"))) and not _is_elsewhere(files, root):
        raise FileNotFoundError(join(root, "commitlog"))
    refused = reasons_outside(files, root)
    look = Survey(
        writer="Apache RocketMQ" if _is_of_apache(files, root) else "Escapement",
        was_stopped=not files.exists(join(root, "abort")),
        sizes=sizes_of(files, root),
        refused=refused,
    )
    return look if refused else _opened(look, files, root, now_ms)


def _opened(look: Survey, files: Files, root: str, now_ms: int) -> Survey:
    """Return the survey with what an engine says that has opened the store."""
    unwritten = UnwrittenFiles(files)
    try:
        config: dict[str, Any] = {"root": root, **look.sizes}
        engine = Engine.open(EngineConfig(**config), unwritten, now_ms)
        look.counts.update(counts_of(engine, now_ms))
        look.lost.extend(_left_behind(engine, files, root))
    except StoreUnsupported as error:
        look.refused.append(str(error))
    finally:
        unwritten.close()
    return look


def counts_of(engine: Engine, now_ms: int) -> dict[str, int]:
    """Return what is in an open store, in the order in which it is told."""
    told = engine.changes_since("", now_ms)
    own = {topic.name: topic for topic in engine.topics.all() if not topic.is_system}
    counts = {
        "topics": len(own),
        "messages": sum(row["max"] - row["min"] for row in told["queues"] if row["topic"] in own),
        "consumer groups": len(engine.groups.all()),
        "consumer offsets": sum(len(offsets) for offsets in engine.offsets.all().values()),
    }
    for level in engine.schedule.status(now_ms):
        if waiting := level.max_offset - level.offset:
            counts[f"waiting in delay level {level.number}"] = waiting
    counts["timers waiting"] = engine.timers.states.pending
    counts["half messages open"] = engine.transactions.summary()["open"]
    counts["half messages parked"] = engine.transactions.summary()["parked"]
    popped = sum(len(queue.open_offsets()) for queue in engine.pops.table.queues.values())
    return {**counts, "popped, not acknowledged": popped}


def _left_behind(engine: Engine, files: Files, root: str) -> list[str]:
    """Return what the next broker does not read, whichever of the two it is, as sentences."""
    found = []
    points = sum(n for topic, n in engine.timers.states.by_topic.items() if topic.startswith(REVIVE_PREFIX))
    if points:
        found.append(
            f"{points:,} check points and acknowledgements of POP: what was popped and not acknowledged is not"
            " redelivered here. Stop the popping consumers, wait until their invisible time ends, then stop the broker."
        )
    if holds_entries(files, join(root, "config", "consumerOrderInfo.json")):
        found.append("config/consumerOrderInfo.json: what was popped in order is redelivered from the group's offset.")
    if any(holds_rocksdb(files, join(root, "config", name)) for name in ("users", "acls")):
        found.append("users and access rules (config/users, config/acls): create them again with mqadmin.")
    if holds_entries(files, join(root, "config", "lmqConsumerOffset.json")):
        found.append("config/lmqConsumerOffset.json: offsets of light message queues.")
    return found


def way_back(look: Survey, files: Files, root: str) -> list[str]:
    """Return what Apache RocketMQ makes of what only Escapement knows, as sentences."""
    counts = look.counts
    said = []
    if counts.get("timers waiting"):
        said.append("timers are released at the full second after their due time, not at the ms.")
    if counts.get("half messages open"):
        said.append("open half messages are checked again, counting from 0.")
    if counts.get("popped, not acknowledged"):
        said.append(f"what was popped is redelivered from the group's offset on ({POP_TOPIC} is not read).")
    if files.exists(join(root, "config", "access.json")):
        said.append("users and access rules (config/access.json) are not read: create them again with mqadmin.")
    if holds_entries(files, join(root, "config", "topics.json"), "escapementCancelledTopics"):
        said.append("pending messages cancelled with their topic (escapementCancelledTopics) are delivered.")
    if holds_entries(files, join(root, "config", "escapementTimers.json"), "paused"):
        said.append("timers are paused here and not there: all that are due are released immediately.")
    return said


def _is_of_apache(files: Files, root: str) -> bool:
    """Tell whether Apache RocketMQ wrote the store last."""
    if is_foreign(files, join(root, "config", "timercheck")):
        return True
    return files.exists(join(root, "checkpoint")) and not files.exists(join(root, "escapement.checkpoint"))


def _is_elsewhere(files: Files, root: str) -> bool:
    """Tell whether the log is DLedger's."""
    return any(name.startswith("dledger-") for name in files.list(root))


def _segment_size(files: Files, directory: str) -> int:
    """Return the size of a segment, 0 without one that holds a record."""
    names = [name for name in files.list(directory) if name.isdigit()]
    if not names:
        return 0
    file = files.open(join(directory, names[0]))
    try:
        return file.size() if file.read(8, 0).strip(b"\0") else 0
    finally:
        file.close()


def _queue_file_size(files: Files, directory: str) -> int:
    """Return the size of the first file of a queue, 0 without one: Apache RocketMQ makes it as long as it will be."""
    queues = (
        join(directory, topic, queue) for topic in files.list(directory) for queue in files.list(join(directory, topic))
    )
    for path in (join(queue, name) for queue in queues for name in files.list(queue) if name.isdigit()):
        file = files.open(path)
        try:
            return file.size()
        finally:
            file.close()
    return 0
