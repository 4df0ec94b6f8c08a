"""Bodies of requests as far as they name topics and groups; the rest of them is their processor's business."""

from __future__ import annotations

import msgspec


class GroupConfig(msgspec.Struct, rename="camel"):
    """SubscriptionGroupConfig (200)."""

    group_name: str


class GroupList(msgspec.Struct, rename="camel"):
    """SubscriptionGroupList (225)."""

    group_config_list: list[GroupConfig]


class TopicName(msgspec.Struct, rename="camel"):
    """TopicConfig."""

    topic_name: str


class TopicList(msgspec.Struct, rename="camel"):
    """CreateTopicListRequestBody (18)."""

    topic_config_list: list[TopicName]


class Assignment(msgspec.Struct, rename="camel"):
    """QueryAssignmentRequestBody and SetMessageRequestModeRequestBody (400, 401)."""

    topic: str
    consumer_group: str = ""


class Ack(msgspec.Struct):
    """BatchAck."""

    group: str = msgspec.field(name="c")
    topic: str = msgspec.field(name="t")


class AckBatch(msgspec.Struct):
    """BatchAckMessageRequestBody (200151)."""

    acks: list[Ack]
