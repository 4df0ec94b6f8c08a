"""What a consumer wants of a topic: a tag expression, as RocketMQ's FilterAPI reads it, or a filter in SQL92."""

from __future__ import annotations

import time
from dataclasses import dataclass

from ..rocketmq.message import string_hash
from . import names
from .errors import InvalidArgument

ALL = "*"
TAG, SQL92 = "TAG", "SQL92"
LONGEST_FILTER = 8_192
"""Characters; brokers read less."""


class Sql(str):
    """A filter over a message's properties, in place of tags: ``Sql("amount > 100 AND country IN ('DE', 'FR')")``.

    The broker reads it: one that it does not understand is refused when the consumer asks. A property is text; beside a
    number it is read as one, and a message that lacks it, or holds no number there, is not wanted.
    """

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Subscription:
    """One topic and what is wanted of it: tags (none: all) or a filter. `version` is the ms at which it was made."""

    topic: str
    expression: str
    tags: frozenset[str]
    version: int
    kind: str = TAG

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
            "expressionType": self.kind,
            "classFilterMode": False,
        }


def subscription(topic: str, expression: str = ALL) -> Subscription:
    """Read ``a || b`` (or ``*`` for all tags), or take a Sql as it is; raises InvalidArgument."""
    names.check_topic(topic)
    version = time.time_ns() // 1_000_000
    if isinstance(expression, Sql):
        if not 0 < len(expression) <= LONGEST_FILTER:
            raise InvalidArgument(f"a filter has 1 to {LONGEST_FILTER:,} characters.", field="expression")
        return Subscription(topic, str(expression), frozenset(), version, SQL92)
    text = expression.strip()
    if text in ("", ALL):
        return Subscription(topic, ALL, frozenset(), version)
    tags = [part.strip() for part in text.split("||")]
    for tag in tags:
        if not tag:
            raise InvalidArgument(f"expression {expression!r} has an empty tag.", field="expression")
        names.check_tag(tag)
    return Subscription(topic, " || ".join(tags), frozenset(tags), version)
