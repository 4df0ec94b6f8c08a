"""What a consumer wants of a topic: a tag expression, as RocketMQ's FilterAPI reads it."""

from __future__ import annotations

import time
from dataclasses import dataclass

from ..engine.message import string_hash
from . import names
from .errors import InvalidArgument

ALL = "*"


@dataclass(frozen=True, slots=True)
class Subscription:
    """One topic and the tags wanted of it (none: all). `version` is the ms at which it was made."""

    topic: str
    expression: str
    tags: frozenset[str]
    version: int

    def wants(self, tag: str | None) -> bool:
        """Whether a message with `tag` is wanted: the broker compares only hash codes, which two tags may share."""
        return not self.tags or tag in self.tags

    def about(self) -> dict[str, object]:
        """As heartbeats carry it (SubscriptionData)."""
        ordered = sorted(self.tags)
        return {
            "topic": self.topic,
            "subString": self.expression,
            "tagsSet": ordered,
            "codeSet": [string_hash(tag) for tag in ordered],
            "subVersion": self.version,
            "expressionType": "TAG",
            "classFilterMode": False,
        }


def subscription(topic: str, expression: str = ALL) -> Subscription:
    """Read ``a || b`` (or ``*`` for all tags); raises InvalidArgument."""
    names.check_topic(topic)
    version = time.time_ns() // 1_000_000
    text = expression.strip()
    if text in ("", ALL):
        return Subscription(topic, ALL, frozenset(), version)
    tags = [part.strip() for part in text.split("||")]
    for tag in tags:
        if not tag:
            raise InvalidArgument(f"expression {expression!r} has an empty tag.", field="expression")
        names.check_tag(tag)
    return Subscription(topic, " || ".join(tags), frozenset(tags), version)
