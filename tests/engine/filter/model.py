"""What a filter expression means: slowly, straight from the rules, sharing nothing with the engine.

Forms are those of forms.py. Values are (type, value) with Java's types: S string, B boolean, I 32 bits, L 64 bits,
D double; None is unknown.
"""

from __future__ import annotations

import struct
import unicodedata
from decimal import Decimal, InvalidOperation
from typing import Any

from .forms import Form

Typed = tuple[str, Any] | None


class Refused(Exception):
    """The expression is not taken."""


class Failed(Exception):
    """It has no result for this message."""


# what is refused before any message is looked at


def check(form: Form, *, as_condition: bool = True) -> str:
    """What kind of form this is: condition, truth (constant), constant, name, other; raises Refused."""
    kind = _checked(form)
    if as_condition and kind not in {"condition", "truth", "name"}:
        raise Refused(f"no condition: {form}")
    return kind


def _checked(form: Form) -> str:
    word = form[0]
    if word in {"and", "or"}:
        for part in form[1]:
            check(part)
    elif word == "not":
        check(form[1])
    elif word in {"=", "<>"}:
        _check_equal(form[1], form[2])
    elif word == "order":
        _check_numbers(form[2], form[3])
    elif word == "between":
        _check_between(form)
    elif word == "in":
        if check(form[1], as_condition=False) != "name":
            raise Refused("only a property is in a list")
    elif word in {"text", "null"}:
        check(form[2] if word == "text" else form[1], as_condition=False)
    else:
        return _checked_operand(form)
    return "condition"


def _checked_operand(form: Form) -> str:
    match form:
        case ("minus", inner):
            check(inner, as_condition=False)
            return "other"
        case ("plus", inner):
            return check(inner, as_condition=False)
        case ("truth", _):
            return "truth"
        case ("name", _):
            return "name"
        case ("whole", text) if int(text.rstrip("L")) >= 2**63:
            raise Refused("too large")
        case ("float", text) if not 0 < float(text) < float("inf"):
            raise Refused("0.0 and what is infinite")
    return "constant"


def constant_of(form: Form) -> Typed:
    """The value of a constant, through any plus."""
    return constant_of(form[1]) if form[0] == "plus" else result(form, {})


def _check_equal(left: Form, right: Form) -> None:
    kinds = [check(side, as_condition=False) for side in (left, right)]
    for side, kind in zip((left, right), kinds, strict=True):
        if kind in {"truth", "constant"} and constant_of(side) is None:
            raise Refused("NULL")
    if kinds == ["truth", "constant"]:
        raise Refused("a truth with a value")


def _check_numbers(*sides: Form) -> None:
    for side in sides:
        kind = check(side, as_condition=False)
        if kind in {"condition", "truth"} or (kind == "constant" and constant_of(side)[0] == "S"):  # type: ignore[index]  # a constant has a value
            raise Refused("no number")


def _check_between(form: Form) -> None:
    _, value, low, high, is_not = form
    for side in (value, low, high):
        check(side, as_condition=False)
    kinds = {check(low, as_condition=False), check(high, as_condition=False)}
    if not is_not and kinds <= {"truth", "constant"}:
        first, second = constant_of(low), constant_of(high)
        if first is None or second is None:
            raise Refused("NULL")
        try:
            in_order = compared(second, first) >= 0
        except Failed:
            in_order = False
        if not in_order:
            raise Refused("not in order")
    _check_numbers(value, low, high)


# what it says of a message


def matches(form: Form, properties: dict[str, str]) -> bool:
    """Whether the message is wanted."""
    try:
        return truth(form, properties) is True
    except Failed:
        return False


def truth(form: Form, properties: dict[str, str]) -> bool | None:
    """The value of a form that stands where a condition is expected."""
    if form[0] == "plus":
        return truth(form[1], properties)
    value = result(form, properties)
    if form[0] == "name":
        return None if value is None else False
    return None if value is None else value[1]  # type: ignore[no-any-return]  # a condition is a truth


def result(form: Form, properties: dict[str, str]) -> Typed:
    match form:
        case ("and" | "or" as word, parts):
            return _truth_value(_folded(word, parts, properties))
        case ("not", inner):
            value = truth(inner, properties)
            return None if value is None else ("B", not value)
        case ("=" | "<>" as sign, left, right):
            value = _equal(result(left, properties), result(right, properties))
            return None if value is None else ("B", value == (sign == "="))
        case ("order", sign, left, right):
            return _truth_value(_ordered(sign, result(left, properties), right, properties))
        case ("between", value, low, high, False):
            return result(("and", [("order", ">=", value, low), ("order", "<=", value, high)]), properties)
        case ("between", value, low, high, True):
            return result(("or", [("order", "<", value, low), ("order", ">", value, high)]), properties)
        case ("in", value, strings, is_not):
            found = result(value, properties)
            return None if found is None else ("B", (found[1] in strings) != is_not)
        case ("text", word, value, string, is_not):
            return ("B", _text_test(word, result(value, properties), string, is_not))
        case ("null", value, is_not):
            return ("B", (result(value, properties) is None) != is_not)
        case ("minus", inner):
            value = result(inner, properties)
            return None if value is None or value[0] in "SB" else (value[0], -value[1])
        case ("plus", inner):
            return result(inner, properties)
        case ("name", name):
            return ("S", properties[name]) if name in properties else None
        case ("truth", value):
            return None if value is None else ("B", value)
        case ("string", value):
            return ("S", value)
        case ("float", text):
            return ("D", float(text))
        case ("whole", text):
            number = int(text.rstrip("L"))
            return ("I" if number < 2**31 else "L", number)
    raise AssertionError(form)


def _truth_value(value: bool | None) -> Typed:
    return None if value is None else ("B", value)


def _folded(word: str, parts: list[Form], properties: dict[str, str]) -> bool | None:
    """Two at a time, as it is written: the second is not looked at if the first decides."""
    rank = {False: 0, None: 1, True: 2}
    decides = word == "or"
    value = truth(parts[0], properties)
    for part in parts[1:]:
        if value is not decides:
            other = truth(part, properties)
            value = (max if decides else min)([value, other], key=lambda one: rank[one])
    return value


def _equal(left: Typed, right: Typed) -> bool | None:
    if left is None:
        return True if right is None else None
    return False if right is None else compared(left, right) == 0


def _ordered(sign: str, left: Typed, right_form: Form, properties: dict[str, str]) -> bool | None:
    if left is None:
        return None
    right = result(right_form, properties)
    if right is None:
        return None
    if left[0] == right[0] == "S":
        left, right = ("D", double(left[1])), ("D", double(right[1]))
    order = compared(left, right)
    return {"<": order < 0, "<=": order <= 0, ">": order > 0, ">=": order >= 0}[sign]


def _text_test(word: str, value: Typed, string: str, is_not: bool) -> bool:
    if value is None or value[0] != "S" or not string:
        return False
    text = value[1]
    pieces = {
        "CONTAINS": {text[start:end] for start in range(len(text)) for end in range(start, len(text) + 1)},
        "STARTSWITH": {text[:end] for end in range(len(text) + 1)},
        "ENDSWITH": {text[start:] for start in range(len(text) + 1)},
    }
    return (string in pieces[word]) != is_not


def compared(left: tuple[str, Any], right: tuple[str, Any]) -> int:
    """Below, at or above 0."""
    types = left[0] + right[0]
    if types[0] == types[1]:
        return _order(types[0], left[1], right[1])
    if types == "BS":
        raise Failed
    if types[0] == "S":
        return _order(types[1], text_as(types[1], left[1]), right[1])
    if types[1] == "S":
        return _order(types[0], left[1], text_as(types[0], right[1]))
    if "B" in types:
        return -1
    return _order("D", float(left[1]), float(right[1])) if "D" in types else _order("I", left[1], right[1])


def text_as(kind: str, text: str) -> Any:
    """Text read as a boolean, a whole number or a double."""
    if kind == "B":
        return text in {"true", "TRUE"}
    return double(text) if kind == "D" else whole(text, 31 if kind == "I" else 63)


def _order(kind: str, left: Any, right: Any) -> int:
    if kind == "D":
        left, right = bits(left), bits(right)
    return -1 if left < right else int(left > right)


def bits(value: float) -> int:
    """Doubles in Java's order are their bits in order, the negative ones backwards."""
    raw = int(struct.unpack(">q", struct.pack(">d", value))[0]) if value == value else 0x7FF8 << 48
    return raw if raw >= 0 else -(raw & (1 << 63) - 1) - 1


def whole(text: str, size: int) -> int:
    digits = text[1:] if text[:1] in {"+", "-"} else text
    value = 0
    for letter in digits:
        digit = unicodedata.decimal(letter, None)
        if digit is None:
            raise Failed
        value = value * 10 + digit
    value = -value if text[:1] == "-" else value
    if not digits or not -(1 << size) <= value < 1 << size:
        raise Failed
    return value


def double(text: str) -> float:
    core = text.strip("".join(map(chr, range(33))))
    if core == "0x1p3":
        return 8.0
    if core.lstrip("+-") in {"NaN", "Infinity"} and len(core) - len(core.lstrip("+-")) < 2:
        return float(core)
    core = core[:-1] if core[-1:] in {"d", "f"} else core
    if not core or set(core) - set("0123456789+-.eE"):
        raise Failed
    try:
        return float(Decimal(core))
    except InvalidOperation:
        raise Failed from None
