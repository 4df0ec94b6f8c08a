"""What Apache RocketMQ 5.5.0 may keep in a form that is not read here: such a store is refused by the name of it.

To open a store without a part of it would give messages twice, or never. So it is refused before anything is written:

    store/consumequeue, consumequeue_rocksdb          queues                    storeType=defaultRocksDB
    store/rocksdbstore                                timers, halves, index     timer-, trans-, indexRocksDBEnable
    store/kvStore                                     popped messages           popConsumerKVServiceEnable
    store/config/topics, subscriptionGroups,
                 consumerOffsets, metadata, rdb       tables                    storeType, configManagerVersion=v2
    store/consumequeue_ext                            filter data of queues     enableConsumeQueueExt
    store/batchconsumequeue                           queues of batches         topics with queue.type=BatchCQ
    store/compaction/compactionLog                    the newest of each key    topics with cleanup.policy=COMPACTION
    store/dledger-<id>/data                           the log itself            enableDLegerCommitLog
    store/epochFileCheckpoint                         epochs of a controller    enableControllerMode
    store/config/tieredStoreMetadata.json             where older messages are  messageStorePlugIn=TieredMessageStore
    store/timerwheel                                  slots of 100 to 500 ms    timerPrecisionMs

A directory of RocksDB has a file CURRENT. Apache RocketMQ 5.5.0 always makes ``rocksdbstore``; nothing is in it as long
as its write-ahead log is empty and there is no table. Directories of the others that hold no file are no hindrance.

The same holds for a store that a backup was not restored to as a whole, and for one of a newer version of this broker.

A wheel has as many slots whatever its precision is, so its size says nothing. A slot begins with its moment divided by
the precision: of a moment some days from when the wheel was last read, which ``timercheck`` says in ms.
"""

from __future__ import annotations

import struct

from .disk import Files, join, load_file
from .errors import StoreUnsupported
from .tables import json_file
from .timer.checkpoint import check_of_rocketmq, is_foreign
from .timer.wheel import SLOT_SIZE

_QUEUES = "its queues, written by storeType=defaultRocksDB"
_TABLES = "its topics, groups or offsets, written by storeType=defaultRocksDB or configManagerVersion=v2"
_ROCKSDB = {
    "consumequeue": _QUEUES,
    "consumequeue_rocksdb": _QUEUES,
    "rocksdbstore": "timers, halves or its index, written by timer-, trans- or indexRocksDBEnable",
    "kvStore": "popped messages, written by popConsumerKVServiceEnable",
    "config/topics": _TABLES,
    "config/subscriptionGroups": _TABLES,
    "config/consumerOffsets": _TABLES,
    "config/metadata": _TABLES,
    "config/rdb": _TABLES,
}
_ALWAYS_THERE = "/rocksdbstore"
_DRAIN = (
    "This broker does not read that, and without it messages would be lost or come twice. Let Apache RocketMQ serve the"
    " store until it is drained, and give this broker a directory of its own. Nothing was changed."
)
#: What setTimerPrecisionMs of Apache RocketMQ lets through; the last is ours.
_PRECISIONS_MS = (100, 200, 500, 1000)
#: Bytes of the wheel read at once, a whole number of slots.
_WINDOW_BYTES = SLOT_SIZE << 13
_MOMENT = struct.Struct(">q")
#: The mark of a store that a backup is being restored to (broker/backup): half of it may be there.
RESTORING = "escapement.restoring"
#: A number in a file of the store: what a program must know to read it. Without the file it is 1; a version that writes
#: what older ones would misread writes a higher one first.
FORMAT_FILE, FORMAT = "escapement.format", 1


def refuse_outside(files: Files, root: str) -> None:
    """Raise StoreUnsupported where a part of the store is kept in a form that is not read; nothing is changed."""
    for reason in reasons_outside(files, root):
        raise StoreUnsupported(reason)


def reasons_outside(files: Files, root: str) -> list[str]:
    """Return a sentence or two for each part of the store that is kept in a form that is not read."""
    found = [
        f"The store {root} keeps a part in RocksDB: {name} holds {what}. {_DRAIN}"
        for name, what in _ROCKSDB.items()
        if holds_rocksdb(files, join(root, name))
    ]
    if _holds_queues(files, join(root, "batchconsumequeue")):
        found.append(
            f"The store {root} has batchconsumequeue: queues of batches, of topics with queue.type=BatchCQ. {_DRAIN}"
        )
    if _holds_queues(files, join(root, "consumequeue_ext")):
        found.append(
            f"The store {root} has consumequeue_ext: filter data of its queues, written by enableConsumeQueueExt=true."
            " This broker does not read it. Move consumequeue and consumequeue_ext out of the store: the queues are"
            " written anew from the log. Nothing was changed."
        )
    if files.exists(join(root, RESTORING)):
        found.append(
            f"The store {root} was not restored to its end ({RESTORING} is there): restore the backup again, to the"
            " same directory. Nothing was changed."
        )
    return (
        found
        + _of_newer_versions(files, root)
        + _of_replicas(files, root)
        + _of_older_messages(files, root)
        + _of_timers(files, root)
    )


def _of_newer_versions(files: Files, root: str) -> list[str]:
    """Return what is to be said about a store that a newer version of this broker has written."""
    written = load_file(files, join(root, FORMAT_FILE))
    if written is None or (written.strip().isdigit() and int(written) <= FORMAT):
        return []
    said = written[:20].decode(errors="replace").strip()
    reason = (
        f"The store {root} was written by a newer Escapement: {FORMAT_FILE} says {said!r}, this version reads up to"
        f" {FORMAT}. Start that version again; to go back to this one, restore a backup that was taken before the"
        " upgrade. Nothing was changed."
    )
    return [reason]


def _of_replicas(files: Files, root: str) -> list[str]:
    """Return what is to be said about a store that is one of several alike."""
    found = [
        f"The store {root} has {name}: its log is DLedger's, written by enableDLegerCommitLog=true. {_DRAIN}"
        for name in files.list(root)
        if name.startswith("dledger-") and any(part.isdigit() for part in files.list(join(root, name, "data")))
    ]
    # the head of the file says how many epochs follow; each of them is "epoch-position"
    if b"-" in (load_file(files, join(root, "epochFileCheckpoint")) or b""):
        found.append(
            f"The store {root} has epochFileCheckpoint: a controller keeps it like others (enableControllerMode=true),"
            " and this broker is in no such group. Take the store of the master when the slaves have all of it, stop"
            " the whole group, and move epochFileCheckpoint, its .bak and brokerIdentity out of the store. Nothing was"
            " changed."
        )
    return found


def _of_older_messages(files: Files, root: str) -> list[str]:
    """Return what is to be said about messages that are not, or no more, in the log."""
    found = []
    if _holds_queues(files, join(root, "compaction", "compactionLog")):
        found.append(
            f"The store {root} has compaction: the newest message of each key, of topics with"
            f" cleanup.policy=COMPACTION. {_DRAIN}"
        )
    if holds_entries(files, join(root, "config", "tieredStoreMetadata.json")):
        found.append(
            f"The store {root} has config/tieredStoreMetadata.json: older messages are in another tier, written by"
            f" messageStorePlugIn=TieredMessageStore. {_DRAIN}"
        )
    return found


def _of_timers(files: Files, root: str) -> list[str]:
    """Return what is to be said about a timer wheel."""
    precision_ms = timer_precision_ms(files, root)
    if precision_ms in (None, _PRECISIONS_MS[-1]):
        return []
    reason = (
        f"The store {root} has a timerwheel of {precision_ms} ms a slot, written by timerPrecisionMs={precision_ms};"
        " this broker reads 1000. Let Apache RocketMQ serve the store until no timer waits (getTimerMetrics of mqadmin"
        " says), stop it, and move timerwheel, timerlog and config/timercheck out of the store. Nothing was changed."
    )
    return [reason]


def timer_precision_ms(files: Files, root: str) -> int | None:
    """Return the precision of the wheel that Apache RocketMQ wrote last; None without one, or without a timer in it."""
    check = join(root, "config", "timercheck")
    read_ms = check_of_rocketmq(files, check) if is_foreign(files, check) else 0
    number = _first_moment(files, join(root, "timerwheel")) if read_ms > 0 else None
    if number is None:
        return None
    return min(_PRECISIONS_MS, key=lambda precision_ms: abs(number * precision_ms - read_ms))


def _first_moment(files: Files, path: str) -> int | None:
    """Return the number that the first used slot of a wheel begins with."""
    if not files.exists(path):
        return None
    file = files.open(path)
    try:
        for at in range(0, file.size(), _WINDOW_BYTES):
            window = file.read(_WINDOW_BYTES, at)
            if window.count(0) == len(window):
                continue
            for start in range(0, len(window) - SLOT_SIZE + 1, SLOT_SIZE):
                number: int = _MOMENT.unpack_from(window, start)[0]
                if number > 0:
                    return number
        return None
    finally:
        file.close()


def holds_entries(files: Files, path: str, key: str | None = None) -> bool:
    """Tell whether a file of JSON says anything: in one of its tables, or under a key. What cannot be read may."""
    content = load_file(files, path)
    if not content:
        return False
    try:
        value = json_file.parse(content)
    except ValueError:
        return True
    if key is not None:
        return bool(value.get(key))
    return any(isinstance(table, dict) and table for table in value.values())


def holds_rocksdb(files: Files, directory: str) -> bool:
    """Tell whether there is a RocksDB with something in it."""
    names = files.list(directory)
    if "CURRENT" not in names:
        return False
    return not directory.endswith(_ALWAYS_THERE) or any(
        name.endswith(".sst") or (name.endswith(".log") and _has_bytes(files, join(directory, name))) for name in names
    )


def _holds_queues(files: Files, directory: str) -> bool:
    """Tell whether there is a file of some queue, as directory/topic/queue/file."""
    return any(
        files.list(join(directory, topic, queue))
        for topic in files.list(directory)
        for queue in files.list(join(directory, topic))
    )


def _has_bytes(files: Files, path: str) -> bool:
    file = files.open(path)
    try:
        return file.size() > 0
    finally:
        file.close()
