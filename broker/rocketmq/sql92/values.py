"""The values of filter expressions: Java's types, how it reads them from text, and how it compares them.

A property is a string. A whole number is an Integer if it fits into 32 bits, else a Long: that decides what text is
read for the comparison, and text that is no such number fails the whole expression, as an exception does in Java.
"""

from __future__ import annotations

import re
from math import copysign, inf, isnan

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
    """Below 0, 0 or above 0, by Java's rules (ComparisonExpression.__compare); raises EvaluationFailed.

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
    """compareTo of two values of one type."""
    if isinstance(left, float) and isinstance(right, float):
        return _order_of_doubles(left, right)
    return (left > right) - (left < right)  # type: ignore[operator]  # both are of one type


def _order_of_doubles(left: float, right: float) -> int:
    """Double.compareTo: minus zero is less than zero, and nothing is above NaN, which equals itself."""
    if isnan(left) or isnan(right):
        return isnan(left) - isnan(right)
    if left == right == 0:
        return int(copysign(1, left) - copysign(1, right))
    return (left > right) - (left < right)


def are_equal(left: str | bool | int | float, right: str | bool | int | float) -> bool:
    """Tell whether two values that are there are equal for `=`; raises EvaluationFailed."""
    return compare(left, right) == 0


def order_of_texts(left: str, right: str) -> int:
    """How `<` compares two properties: as numbers, or not at all."""
    return _order_of_doubles(read_double(left), read_double(right))
