"""Reading what a consumer subscribes to: from a heartbeat, or from a pull's own fields."""

from __future__ import annotations

import msgspec

from ..engine.errors import InvalidValue
from ..rocketmq.codes import Answer
from ..rocketmq.errors import RequestRefused
from ..rocketmq.message import string_hash
from ..rocketmq.sql92.expression import BadExpression, Filter
from ..rocketmq.values import LONG_MAX, LONG_MIN, check_text, check_whole, tidy
from .clients import SQL92, Subscription

ALL = "*"
TAG = "TAG"
_MOST_TAGS = 1000
LONGEST_TOPIC = 255
LONGEST_EXPRESSION = 65_536
_LONGEST_KIND = 40


class SubscriptionBody(msgspec.Struct, rename="camel"):
    """SubscriptionData as clients write it; what they derive from the expression (tagsSet, codeSet) is not read: the Go
    client writes the codes as strings."""

    topic: str
    sub_string: str | None = ALL
    sub_version: int = 0
    class_filter_mode: bool = False
    expression_type: str | None = TAG

    def check(self) -> None:
        """Raise InvalidValue if it cannot be kept. An expression that is not understood can, see `noted`."""
        check_text("The topic of a subscription", self.topic, most=LONGEST_TOPIC)
        check_whole("The field 'subVersion'", self.sub_version, LONG_MIN, LONG_MAX)

    def subscription(self) -> Subscription:
        """The subscription meant; refused if its expression is not understood."""
        return build_subscription(self.topic, self.sub_string or ALL, self.expression_type or TAG, self.sub_version)

    def noted(self) -> Subscription:
        """As `subscription`, but one that is not understood is kept with its flaw: the others of its heartbeat count,
        and its own pulls are told. A filter is not read yet, see `understand`."""
        try:
            if self.expression_type == SQL92:
                return _unread(self.topic, self.sub_string or ALL, self.sub_version)
            return self.subscription()
        except RequestRefused as error:
            expression = tidy(self.sub_string or ALL, LONGEST_EXPRESSION)
            kind = tidy(self.expression_type or TAG, _LONGEST_KIND)
            return Subscription(self.topic, expression, kind, self.sub_version, (), (), flaw=error.remark)


def understand(subscription: Subscription) -> None:
    """Read the filter of one that a heartbeat brought, if nobody has; refused if it is not understood.

    Long filters take long to read. So each is read for the one pull that needs it, not all of a heartbeat at once.
    """
    if subscription.kind == SQL92 and subscription.filter is None and not subscription.flaw:
        try:
            subscription.filter = _filter(subscription.expression)
        except RequestRefused as error:
            subscription.flaw = error.remark
    if subscription.flaw:
        raise RequestRefused(Answer.SUBSCRIPTION_PARSE_FAILED, subscription.flaw)


def _unread(topic: str, expression: str, version: int) -> Subscription:
    _check_expression(expression)
    return Subscription(topic, expression, SQL92, version, (), ())


def build_subscription(topic: str, expression: str, kind: str, version: int) -> Subscription:
    """A subscription from its expression: `*`, tags joined by `||` (FilterAPI.buildSubscriptionData), or SQL92."""
    if kind == SQL92:
        subscription = _unread(topic, expression, version)
        subscription.filter = _filter(expression)
        return subscription
    _check_expression(expression)
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


def _check_expression(expression: str) -> None:
    """What is kept of a group is told to whoever asks for it: bounded, and text."""
    try:
        check_text("The filter", expression, most=LONGEST_EXPRESSION, breaks=True)
    except InvalidValue as error:
        raise RequestRefused(Answer.SUBSCRIPTION_PARSE_FAILED, str(error)) from None


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
