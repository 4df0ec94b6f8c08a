"""Java values that Python has no own type for, and how Java writes a number."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal

INT_MIN, INT_MAX = -(2**31), 2**31 - 1
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1
#: The class that a plain Python dict has in Java: it keeps the order, as a dict does.
MAP_CLASS = "java.util.LinkedHashMap"
LIST_CLASS = "java.util.ArrayList"
#: How Java names the class of byte[].
BYTES_CLASS = "[B"


class Long(int):
    """A java.lang.Long that would fit into an Integer: JSON for Java writes the two differently."""


class JavaObject(dict[str, object]):
    """A map or an object of a Java class other than LinkedHashMap: its entries, and `java_class`."""

    def __init__(self, java_class: str, entries: Mapping[str, object]) -> None:
        super().__init__(entries)
        self.java_class = java_class

    @property
    def is_map(self) -> bool:
        """Whether this is one of Java's own maps: entries keep their order, and a Long says that it is one."""
        return self.java_class.startswith("java.util.")

    def __repr__(self) -> str:
        return f"JavaObject({self.java_class!r}, {super().__repr__()})"


class JavaValue(tuple[str, object]):
    """A value that JSON holds as [class, value] and Python has no type for, such as java.time.Duration."""

    def __new__(cls, java_class: str, value: object) -> JavaValue:
        """A value of this class."""
        return super().__new__(cls, (java_class, value))

    @property
    def java_class(self) -> str:
        """The Java class."""
        return self[0]

    @property
    def value(self) -> object:
        """What JSON holds for it."""
        return self[1]


def double_text(number: float) -> str:
    """A double as Java's Double.toString writes it: 19.9, 1.0E7, 1.0E-5; NaN and Infinity by name."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    if number == 0:
        return "-0.0" if math.copysign(1, number) < 0 else "0.0"
    if 1e-3 <= abs(number) < 1e7:
        text = format(Decimal(repr(number)), "f")
        return text if "." in text else text + ".0"
    sign, digits, _ = Decimal(repr(number)).as_tuple()
    kept = "".join(map(str, digits)).rstrip("0")
    exponent = Decimal(repr(number)).adjusted()
    return f"{'-' if sign else ''}{kept[0]}.{kept[1:] or '0'}E{exponent}"
