"""Reading what a consumer subscribes to: from a heartbeat, or from a pull's own fields."""

from __future__ import annotations

import msgspec

from ..engine.filter.expression import BadExpression, Filter
from ..engine.message import string_hash
from .clients import Subscription
from .codes import Answer
from .errors import RequestRefused

ALL = "*"
TAG = "TAG"
SQL92 = "SQL92"
_MOST_TAGS = 1000


class SubscriptionBody(msgspec.Struct, rename="camel"):
    """SubscriptionData as clients write it; what they derive from the expression (tagsSet, codeSet) is not read: the Go
    client writes the codes as strings."""

    topic: str
    sub_string: str | None = ALL
    sub_version: int = 0
    class_filter_mode: bool = False
    expression_type: str | None = TAG

    def subscription(self) -> Subscription:
        """The subscription meant; refused if its expression is not understood."""
        return build_subscription(self.topic, self.sub_string or ALL, self.expression_type or TAG, self.sub_version)

    def noted(self) -> Subscription:
        """As `subscription`, but one that is not understood is kept with its flaw: the others of its heartbeat count,
        and its own pulls are told."""
        try:
            return self.subscription()
        except RequestRefused as error:
            expression, kind = self.sub_string or ALL, self.expression_type or TAG
            return Subscription(self.topic, expression, kind, self.sub_version, (), (), flaw=error.remark)


def build_subscription(topic: str, expression: str, kind: str, version: int) -> Subscription:
    """A subscription from its expression: `*`, tags joined by `||` (FilterAPI.buildSubscriptionData), or SQL92."""
    if kind == SQL92:
        return Subscription(topic, expression, SQL92, version, (), (), _filter(expression))
    if kind != TAG:
        raise RequestRefused(
            Answer.SYSTEM_ERROR,
            f"The broker does not support consumer to filter message by {kind[:40]}: subscribe by TAG or by SQL92.",
        )
    if expression.strip() in {"", ALL}:
        return Subscription(topic, ALL, TAG, version, (), ())
    tags = [tag for tag in (part.strip() for part in expression.split("||")) if tag]
    if not tags or len(tags) > _MOST_TAGS:
        raise RequestRefused(
            Answer.SUBSCRIPTION_PARSE_FAILED,
            f"The expression {expression[:80]!r} names no tag, or more than {_MOST_TAGS}.",
        )
    return Subscription(topic, expression, TAG, version, tuple(tags), tuple({string_hash(tag) for tag in tags}))


def _filter(expression: str) -> Filter:
    try:
        return Filter.of(expression)
    except BadExpression as error:
        raise RequestRefused(Answer.SUBSCRIPTION_PARSE_FAILED, f"The filter is not understood: {error}") from None


def subscription_body(subscription: Subscription) -> dict[str, object]:
    """SubscriptionData as answers carry it."""
    return {
        "classFilterMode": False,
        "codeSet": list(subscription.codes),
        "expressionType": subscription.kind,
        "subString": subscription.expression,
        "subVersion": subscription.version,
        "tagsSet": list(subscription.tags),
        "topic": subscription.topic,
    }
