"""The meaning of each form of a filter expression: three-valued logic over Java's values, and RocketMQ's refusals.

A node is a function from a message's properties to a value (None is "unknown") and a kind, which says where it may
stand. The rules are those of RocketMQ's expressions (its classes are named where a rule is easily taken for a mistake).

A property is a string. A whole number is an Integer if it fits into 32 bits, else a Long: that decides what text is
read for the comparison, and text that is no such number fails the whole expression, as an exception does in Java.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from math import copysign, inf, isnan
from typing import NamedTuple

# Values: Java's types, how it reads them from text, and how it compares them.

INTEGER_RANGE = range(-(1 << 31), 1 << 31)
LONG_RANGE = range(-(1 << 63), 1 << 63)

#: what Double.valueOf reads, but for hexadecimal numbers; blanks are all characters up to the space
_DOUBLE = re.compile(
    r"[\x00-\x20]*([+-]?)(?:(NaN)|(Infinity)|((?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?)[\x00-\x20]*"
)
_HEXADECIMAL = re.compile(
    r"[\x00-\x20]*([+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?[\x00-\x20]*"
)
_MOST_DIGITS = 19


class Long(int):
    """A whole number of 64 bits; a plain int is an Integer."""

    __slots__ = ()


Value = str | bool | int | float | None


class EvaluationFailed(Exception):
    """The expression has no result for this message: it does not match, whatever the rest of it says."""


def read_whole(text: str, allowed: range) -> int:
    """Read a whole number as Integer.valueOf and Long.valueOf do: a sign if wanted, and decimal digits of any
    script."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    counting = digits.lstrip("0")
    if not digits.isdecimal() or len(counting) > _MOST_DIGITS or any(digit > "\uffff" for digit in digits):
        raise EvaluationFailed
    number = int(counting or "0")
    number = -number if text[0] == "-" else number
    if number not in allowed:
        raise EvaluationFailed
    return number


def read_double(text: str) -> float:
    """Read a number as Double.valueOf does."""
    match = _DOUBLE.fullmatch(text)
    if match is None:
        return _read_hexadecimal(text)
    sign, is_nan, is_infinite, number = match.groups()
    value = float("nan") if is_nan else inf if is_infinite else float(number)
    return -value if sign == "-" else value


def _read_hexadecimal(text: str) -> float:
    match = _HEXADECIMAL.fullmatch(text)
    if match is None:
        raise EvaluationFailed
    try:
        return float.fromhex(match[1])
    except OverflowError:
        return -inf if match[1][0] == "-" else inf


def compare(left: str | bool | int | float, right: str | bool | int | float) -> int:
    """Return a number below 0, 0 or above 0, by Java's rules (ComparisonExpression.__compare); raise EvaluationFailed.

    Text is read as what the other side is. What cannot be compared is "less", whichever way it is asked.
    """
    if type(left) is type(right):
        return _order(left, right)
    if isinstance(left, bool):
        if isinstance(right, str):
            raise EvaluationFailed
        return -1
    if isinstance(left, str):
        return _order(_read_as(left, right), right)
    if isinstance(right, str):
        return _order(left, _read_as(right, left))
    if isinstance(right, bool):
        return -1
    if isinstance(left, float) or isinstance(right, float):
        return _order(float(left), float(right))
    return _order(int(left), int(right))


def _read_as(text: str, other: bool | int | float | str) -> bool | int | float:
    if isinstance(other, bool):
        return text.lower() == "true"
    if isinstance(other, Long):
        return read_whole(text, LONG_RANGE)
    if isinstance(other, int):
        return read_whole(text, INTEGER_RANGE)
    return read_double(text)


def _order(left: str | bool | int | float, right: str | bool | int | float) -> int:
    """Compare two values of one type, as compareTo."""
    if isinstance(left, float) and isinstance(right, float):
        return _order_of_doubles(left, right)
    return (left > right) - (left < right)  # type: ignore[operator]  # both are of one type


def _order_of_doubles(left: float, right: float) -> int:
    """Compare as Double.compareTo: minus zero is less than zero, and nothing is above NaN, which equals itself."""
    if isnan(left) or isnan(right):
        return isnan(left) - isnan(right)
    if left == right == 0:
        return int(copysign(1, left) - copysign(1, right))
    return (left > right) - (left < right)


def are_equal(left: str | bool | int | float, right: str | bool | int | float) -> bool:
    """Tell whether two values that are there are equal for `=`; raises EvaluationFailed."""
    return compare(left, right) == 0


def order_of_texts(left: str, right: str) -> int:
    """Compare two properties as `<` does: as numbers, or not at all."""
    return _order_of_doubles(read_double(left), read_double(right))


# Nodes: where each form may stand, and what it works out.

Properties = Mapping[str, str]
Evaluate = Callable[[Properties], Value]


class BadExpression(ValueError):
    """An expression that cannot be understood; the message says where and why."""


class Kind(Enum):
    """The places where a node may stand."""

    CONSTANT = "constant"
    TRUTH_CONSTANT = "TRUE, FALSE or NULL"
    PROPERTY = "property"
    TRUTH = "condition"
    OTHER = "value"


class Node(NamedTuple):
    """A form of an expression; `constant` is its value if it is a constant, `name` that of its property."""

    evaluate: Evaluate
    kind: Kind
    constant: Value = None
    name: str = ""

    @property
    def is_truth(self) -> bool:
        """True for conditions, TRUE, FALSE and NULL."""
        return self.kind in (Kind.TRUTH, Kind.TRUTH_CONSTANT)

    @property
    def is_constant(self) -> bool:
        """True for what is written into the expression; a negative number is not: its minus is worked out."""
        return self.kind in (Kind.CONSTANT, Kind.TRUTH_CONSTANT)


def _truth(evaluate: Evaluate) -> Node:
    return Node(evaluate, Kind.TRUTH)


# what an expression is made of


def constant(value: str | int | float) -> Node:
    """Return the node of a string or a number."""
    return Node(lambda _: value, Kind.CONSTANT, value)


def truth_constant(value: bool | None) -> Node:
    """Return the node of TRUE, FALSE and NULL."""
    return Node(lambda _: value, Kind.TRUTH_CONSTANT, value)


def property_named(name: str) -> Node:
    """Return the node of a property: its text, or unknown."""
    return Node(lambda properties: properties.get(name), Kind.PROPERTY, name=name)


def whole_number(text: str) -> Node:
    """Return the node of a whole number: 32 bits if it fits, else 64."""
    digits = text.rstrip("lL")
    number = int(digits) if len(digits) <= 19 else LONG_RANGE.stop
    if number not in LONG_RANGE:
        raise BadExpression(f"{text[:40]} does not fit into 64 bits.")
    return constant(number if number in INTEGER_RANGE else Long(number))


def floating_number(text: str) -> Node:
    """Return the node of a number with a point or an exponent. RocketMQ takes neither 0.0 nor what is infinite."""
    number = float(text)
    if not 0 < number <= sys.float_info.max:
        raise BadExpression(f"{text[:40]} is not above 0, or too large; write 0 without a point.")
    return constant(number)


# logic


def as_truth(node: Node) -> Node:
    """Return a condition: a lone property is false if there (it is no Boolean), unknown if not (createBooleanCast)."""
    if node.is_truth:
        return node
    if node.kind is not Kind.PROPERTY:
        raise BadExpression(f"A {node.kind.value} stands where a condition is expected.")
    return _truth(lambda properties: None if node.name not in properties else False)


def negation(node: Node) -> Node:
    """Return the node of NOT: unknown stays unknown."""
    inner = as_truth(node).evaluate

    def evaluate(properties: Properties) -> Value:
        value = inner(properties)
        return None if value is None else not value

    return _truth(evaluate)


def all_of(parts: Sequence[Node]) -> Node:
    """Return the node of AND, from left to right: false as soon as one is, else unknown if one is."""
    return _first_that_is(False, parts)


def any_of(parts: Sequence[Node]) -> Node:
    """Return the node of OR, from left to right: true as soon as one is, else unknown if one is."""
    return _first_that_is(True, parts)


def _first_that_is(wanted: bool, parts: Sequence[Node]) -> Node:
    if len(parts) == 1:
        return parts[0]
    conditions = tuple(as_truth(part).evaluate for part in parts)

    def evaluate(properties: Properties) -> Value:
        result: Value = not wanted
        for condition in conditions:
            value = condition(properties)
            if value is wanted:
                return wanted
            if value is None:
                result = None
        return result

    return _truth(evaluate)


def minus(node: Node) -> Node:
    """Return the node of a negative number; of anything else unknown."""
    inner = node.evaluate

    def evaluate(properties: Properties) -> Value:
        value = inner(properties)
        if isinstance(value, (bool, str)) or value is None:
            return None
        return Long(-value) if isinstance(value, Long) else -value

    return Node(evaluate, Kind.OTHER)


# comparisons


def equal(left: Node, right: Node) -> Node:
    """Return the node of `=`."""
    for node in (left, right):
        if node.is_constant and node.constant is None:
            raise BadExpression("NULL cannot be compared; use IS NULL.")
    if left.kind is Kind.TRUTH_CONSTANT and right.kind is Kind.CONSTANT:
        raise BadExpression("TRUE or FALSE cannot be compared with a string or a number.")
    return _equal(left, right)


def _equal(left: Node, right: Node) -> Node:
    """Return the node of equality: unknown if the left side is; a value never equals an absence (doCreateEqual)."""
    first, second = left.evaluate, right.evaluate

    def evaluate(properties: Properties) -> Value:
        one, other = first(properties), second(properties)
        if one is None:
            return True if other is None else None
        return False if other is None else are_equal(one, other)

    return _truth(evaluate)


def is_null(node: Node) -> Node:
    """Return the node of IS NULL."""
    inner = node.evaluate
    return _truth(lambda properties: inner(properties) is None)


_ORDERS: Mapping[str, Callable[[int], bool]] = {
    "<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
    ">": lambda order: order > 0,
    ">=": lambda order: order >= 0,
}


def ordered(left: Node, sign: str, right: Node) -> Node:
    """Return the node of `<`, `<=`, `>`, `>=`: of numbers, and of properties that can be read as numbers."""
    for node in (left, right):
        if node.is_truth or (node.is_constant and isinstance(node.constant, str)):
            raise BadExpression(f"A {node.kind.value} that is no number cannot be compared by {sign}.")
    first, second, holds = left.evaluate, right.evaluate, _ORDERS[sign]

    def evaluate(properties: Properties) -> Value:
        one = first(properties)
        if one is None:
            return None
        other = second(properties)
        if other is None:
            return None
        if isinstance(one, str) and isinstance(other, str):
            return holds(order_of_texts(one, other))
        return holds(compare(one, other))

    return _truth(evaluate)


def between(node: Node, low: Node, high: Node) -> Node:
    """Return the node of BETWEEN: both ends belong to it; ends that are constants must be in order."""
    if low.is_constant and high.is_constant:
        if low.constant is None or high.constant is None:
            raise BadExpression("The ends of BETWEEN cannot be NULL.")
        if _order_of_constants(high.constant, low.constant) < 0:
            raise BadExpression("The first end of BETWEEN is above the second.")
    return all_of((ordered(node, ">=", low), ordered(node, "<=", high)))


def _order_of_constants(left: str | bool | int | float, right: str | bool | int | float) -> int:
    try:
        return compare(left, right)
    except EvaluationFailed:
        return -1


def not_between(node: Node, low: Node, high: Node) -> Node:
    """Return the node of NOT BETWEEN."""
    return any_of((ordered(node, "<", low), ordered(node, ">", high)))


def one_of(node: Node, values: Sequence[str], *, is_not: bool) -> Node:
    """Return the node of IN and NOT IN: a property among strings."""
    if node.kind is not Kind.PROPERTY:
        raise BadExpression("Only a property can be IN a list.")
    name, wanted = node.name, frozenset(values)

    def evaluate(properties: Properties) -> Value:
        value = properties.get(name)
        return None if value is None else (value in wanted) is not is_not

    return _truth(evaluate)


_TEXTS: Mapping[str, Callable[[str, str], bool]] = {
    "CONTAINS": str.__contains__,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
}


def text_test(node: Node, word: str, wanted: str, *, is_not: bool) -> Node:
    """Return the node of CONTAINS, STARTSWITH or ENDSWITH, or of each with NOT: false, not unknown, for what is not
    there or no text, and false for an empty string, with NOT or without (ContainsExpression, NotContainsExpression)."""
    inner, holds = node.evaluate, _TEXTS[word]

    def evaluate(properties: Properties) -> Value:
        value = inner(properties)
        return bool(wanted) and isinstance(value, str) and holds(value, wanted) is not is_not

    return _truth(evaluate)
