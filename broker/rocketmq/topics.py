"""Names that RocketMQ gives a meaning: its own topics and groups, prefixes of topics, and what a name may be."""

from __future__ import annotations

import re
from collections.abc import Mapping

from .errors import InvalidGroupName, InvalidTopicName

SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
#: How long each of its queues delays, level 1 first, where nobody has set anything else (``messageDelayLevel``).
DELAY_LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
TIMER_TOPIC = "rmq_sys_wheel_timer"
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
#: Where Apache RocketMQ keeps both if its transactions are in RocksDB.
ROCKSDB_HALF_TOPIC = "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC"
ROCKSDB_OP_TOPIC = "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC"
#: Halves whose producer was asked as often as allowed.
PARKED_HALF_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
#: Ours: how often producers were asked (transaction/records.py).
CHECKS_TOPIC = "rmq_sys_esc_checks"
#: Ours: what was popped and acknowledged (pop/records.py).
POP_TOPIC = "rmq_sys_esc_pops"
TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
#: Stands for topics that are made by the first send (TopicValidator.AUTO_CREATE_TOPIC_KEY_TOPIC).
TEMPLATE_TOPIC = "TBW102"
BENCHMARK_TOPIC = "BenchmarkTest"
SELF_TEST_TOPIC = "SELF_TEST_TOPIC"
OFFSET_MOVED_TOPIC = "OFFSET_MOVED_EVENT"

RETRY_PREFIX = "%RETRY%"
DLQ_PREFIX = "%DLQ%"
#: Topics that belong to a consumer group begin so.
GROUP_PREFIXES = (RETRY_PREFIX, DLQ_PREFIX)
SYSTEM_PREFIX = "rmq_sys_"
#: RocketMQ's older topics have it in capitals.
OLD_SYSTEM_PREFIX = "RMQ_SYS_"
#: Topics in which Apache RocketMQ writes down pops begin so (PopAckConstants.REVIVE_TOPIC).
REVIVE_PREFIX = "rmq_sys_REVIVE_LOG_"
#: What stands between group and topic in the names of topics of tries that are popped (KeyBuilder, both forms).
POP_SEPARATORS = "_+"

#: TopicValidator.SYSTEM_TOPIC_SET with the number of queues each has, where the broker makes it itself.
SYSTEM_TOPICS: Mapping[str, int] = {
    TEMPLATE_TOPIC: 8,
    SCHEDULE_TOPIC: 18,
    BENCHMARK_TOPIC: 1024,
    HALF_TOPIC: 1,
    OP_TOPIC: 1,
    PARKED_HALF_TOPIC: 1,
    CHECKS_TOPIC: 1,
    POP_TOPIC: 1,
    SELF_TEST_TOPIC: 1,
    OFFSET_MOVED_TOPIC: 1,
    TRACE_TOPIC: 1,
    TIMER_TOPIC: 1,
}
#: TopicValidator.NOT_ALLOWED_SEND_TOPIC_SET: parked messages are the broker's own business.
NOT_FOR_CLIENTS = frozenset(
    {
        SCHEDULE_TOPIC,
        HALF_TOPIC,
        OP_TOPIC,
        PARKED_HALF_TOPIC,
        CHECKS_TOPIC,
        POP_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
        TIMER_TOPIC,
    }
)
#: The group of what a client sends on its own behalf (MixAll.CLIENT_INNER_PRODUCER_GROUP).
INNER_GROUP = "CLIENT_INNER_PRODUCER"
TOOLS_GROUP = "TOOLS_CONSUMER"
#: Groups of tools that every broker knows without keeping them (SubscriptionGroupManager.init of Apache RocketMQ).
SYSTEM_GROUPS = frozenset(
    {
        TOOLS_GROUP,
        "FILTERSRV_CONSUMER",
        "SELF_TEST_C_GROUP",
        "CID_ONS-HTTP-PROXY",
        "CID_ONSAPI_PULL",
        "CID_ONSAPI_PERMISSION",
        "CID_ONSAPI_OWNER",
    }
)
SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"
#: MixAll.PREDEFINE_GROUP_SET: groups of RocketMQ's own tools, and how further ones begin.
PREDEFINED_GROUPS = frozenset(
    {"DEFAULT_CONSUMER", "DEFAULT_PRODUCER", TOOLS_GROUP, "SCHEDULE_CONSUMER", "FILTERSRV_CONSUMER",
     "__MONITOR_CONSUMER", INNER_GROUP, "SELF_TEST_P_GROUP", "SELF_TEST_C_GROUP"}
)  # fmt: skip
PREDEFINED_GROUP_PREFIXES = ("CID_ONS", SYSTEM_GROUP_PREFIX)

#: TopicValidator.TOPIC_MAX_LENGTH, for the names people choose; retry and dead letter topics add a prefix to a group.
MAX_NAME_LENGTH = 127
_NAME = re.compile(r"[%|a-zA-Z0-9_-]{1,255}")


def retry_topic(group: str, topic: str) -> str:
    """Return the topic in which messages of a topic wait for another try of a group (KeyBuilder, form 1)."""
    return f"{RETRY_PREFIX}{group}_{topic}"


def retry_topics(group: str, topic: str) -> tuple[str, str]:
    """Return the topics in which another try of a topic's messages may arrive for a group that pops."""
    return f"{RETRY_PREFIX}{group}_{topic}", RETRY_PREFIX + group


def origin_topic(group: str, topic: str) -> str:
    """Return the topic that a pop was asked for: itself, or that of which it is the retry topic."""
    return topic.removeprefix(f"{RETRY_PREFIX}{group}_")


def reply_topic(cluster: str) -> str:
    """Return the topic that answers to questions are sent to (MixAll.getReplyTopic)."""
    return f"{cluster}_REPLY_TOPIC"


def is_of_group(name: str) -> bool:
    """Tell whether a topic is the retry or dead letter topic of a group."""
    return name.startswith(GROUP_PREFIXES)


def is_of_tools(name: str) -> bool:
    """Tell whether a group is one that every broker knows."""
    return name in SYSTEM_GROUPS or name.startswith(SYSTEM_GROUP_PREFIX)


def check_topic_name(name: str) -> None:
    """Raise InvalidTopicName unless the name is allowed."""
    limit = 255 if is_of_group(name) else MAX_NAME_LENGTH
    if not _NAME.fullmatch(name) or len(name) > limit:
        raise InvalidTopicName(name)


def check_group_name(name: str) -> None:
    """Raise InvalidGroupName unless the name is allowed."""
    if not _NAME.fullmatch(name):
        raise InvalidGroupName(name)
