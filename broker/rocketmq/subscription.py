"""Subscriptions to topics, as consumers state them in a heartbeat or the fields of a pull (SubscriptionData)."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from .codes import Answer
from .errors import InvalidValue, RequestRefused
from .message import string_hash
from .sql92 import LONGEST_EXPRESSION, Filter
from .sql92_nodes import BadExpression
from .values import LONG_MAX, LONG_MIN, check_text, check_whole, tidy

ALL = "*"
TAG = "TAG"
SQL92 = "SQL92"
_MOST_TAGS = 1000
LONGEST_TOPIC = 255
_LONGEST_KIND = 40


@dataclass(slots=True)
class Subscription:
    """The messages that a group wants of a topic.

    A filter that a heartbeat brought is read at its first use (`read_filter`), as long ones take long to read and only
    one pull of one subscription needs it: until then there is neither a filter nor a flaw, and `selection` must not be
    asked for.
    """

    topic: str
    expression: str
    kind: str
    version: int
    tags: tuple[str, ...]
    codes: tuple[int, ...]
    filter: Filter | None = None
    flaw: str = ""
    """Why its expression cannot be understood; its pulls are refused with that."""

    @property
    def tag_codes(self) -> frozenset[int] | None:
        """Hash codes of the wanted tags (their lower 32 bits stand in the queue entries); None for all."""
        return frozenset(self.codes) if self.codes else None

    @property
    def selection(self) -> Filter | frozenset[int] | None:
        """The filter or tag codes that select the wanted messages of the topic; None for all."""
        assert self.filter is not None or self.kind != SQL92
        return self.filter or self.tag_codes

    def read_filter(self) -> None:
        """Read the filter of one that a heartbeat brought, if nobody has; raises RequestRefused if it has a flaw."""
        if self.kind == SQL92 and self.filter is None and not self.flaw:
            try:
                self.filter = _filter(self.expression)
            except RequestRefused as error:
                self.flaw = error.remark
        if self.flaw:
            raise RequestRefused(Answer.SUBSCRIPTION_PARSE_FAILED, self.flaw)


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
        """Return the subscription meant; raises RequestRefused if its expression is not understood."""
        return build_subscription(self.topic, self.sub_string or ALL, self.expression_type or TAG, self.sub_version)

    def noted(self) -> Subscription:
        """Return the subscription meant, with its flaw if it is not understood: the others of its heartbeat count, and
        its own pulls are told. A filter is not read yet (Subscription.read_filter)."""
        try:
            if self.expression_type == SQL92:
                return _unread(self.topic, self.sub_string or ALL, self.sub_version)
            return self.subscription()
        except RequestRefused as error:
            expression = tidy(self.sub_string or ALL, LONGEST_EXPRESSION)
            kind = tidy(self.expression_type or TAG, _LONGEST_KIND)
            return Subscription(self.topic, expression, kind, self.sub_version, (), (), flaw=error.remark)


def _unread(topic: str, expression: str, version: int) -> Subscription:
    _check_expression(expression)
    return Subscription(topic, expression, SQL92, version, (), ())


def build_subscription(topic: str, expression: str, kind: str, version: int) -> Subscription:
    """Return a subscription from its expression: `*`, tags joined by `||` (FilterAPI.buildSubscriptionData), or SQL92.

    Raises RequestRefused if the expression is too long or not understood.
    """
    _check_expression(expression)
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


def _check_expression(expression: str) -> None:
    """Refuse what could not be told to whoever asks what a group subscribes to."""
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
    """Return SubscriptionData as answers carry it in JSON."""
    return {
        "classFilterMode": False,
        "codeSet": list(subscription.codes),
        "expressionType": subscription.kind,
        "subString": subscription.expression,
        "subVersion": subscription.version,
        "tagsSet": list(subscription.tags),
        "topic": subscription.topic,
    }
