"""What Apache RocketMQ may keep beside the files of this format, and this engine does not read.

With some of its settings Apache RocketMQ 5 keeps tables, queues, timers, halves or popped messages in RocksDB, filter
data of queues in ``consumequeue_ext``, and topics of batches in queues of another form. To open such a store without
them would give messages twice, or never; so it is refused, by the name of what holds them.

    store/consumequeue, consumequeue_rocksdb          queues                    storeType=defaultRocksDB
    store/rocksdbstore                                timers, halves, index     timer-, trans-, indexRocksDBEnable
    store/kvStore                                     popped messages           popConsumerKVServiceEnable
    store/config/topics, subscriptionGroups,
                 consumerOffsets, metadata, rdb       tables                    storeType, configManagerVersion=v2
    store/consumequeue_ext                            filter data of queues     enableConsumeQueueExt
    store/batchconsumequeue                           queues of batches         topics with queue.type=BatchCQ

A directory of RocksDB has a file CURRENT. Apache RocketMQ 5.5.0 makes ``rocksdbstore`` always; nothing is in it as long
as its write-ahead log is empty and there is no table.
"""

from __future__ import annotations

from ..disk.files import Files, join
from ..errors import StoreUnsupported

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


def refuse_outside(files: Files, root: str) -> None:
    """Raise StoreUnsupported where a part of the store is kept in a form that is not read; nothing is changed."""
    for name, what in _ROCKSDB.items():
        if _holds_rocksdb(files, join(root, name)):
            raise StoreUnsupported(f"The store {root} keeps a part in RocksDB: {name} holds {what}. {_DRAIN}")
    if _holds_queues(files, join(root, "batchconsumequeue")):
        raise StoreUnsupported(
            f"The store {root} has batchconsumequeue: queues of batches, of topics with queue.type=BatchCQ. {_DRAIN}"
        )
    if _holds_queues(files, join(root, "consumequeue_ext")):
        raise StoreUnsupported(
            f"The store {root} has consumequeue_ext: filter data of its queues, written by enableConsumeQueueExt=true."
            " This broker does not read it. Move consumequeue and consumequeue_ext out of the store: the queues are"
            " written anew from the log. Nothing was changed."
        )


def _holds_rocksdb(files: Files, directory: str) -> bool:
    names = files.list(directory)
    if "CURRENT" not in names:
        return False
    return not directory.endswith(_ALWAYS_THERE) or any(
        name.endswith(".sst") or (name.endswith(".log") and _size(files, join(directory, name)) > 0) for name in names
    )


def _holds_queues(files: Files, directory: str) -> bool:
    """Tell whether there is a file of some queue, as directory/topic/queue/file."""
    return any(
        files.list(join(directory, topic, queue))
        for topic in files.list(directory)
        for queue in files.list(join(directory, topic))
    )


def _size(files: Files, path: str) -> int:
    file = files.open(path)
    try:
        return file.size()
    finally:
        file.close()
