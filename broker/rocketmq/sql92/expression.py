"""A filter expression made ready, and what it says of stored records."""

from __future__ import annotations

from collections.abc import Mapping

from ..layout import BODY_LENGTH_AT, FLAG_BORN_IPV6, FLAG_STORE_IPV6, HEAD, IPV6_MORE, MAGIC_V2, U32
from .grammar import parse
from .tokens import BadExpression
from .values import EvaluationFailed

__all__ = ["BadExpression", "Filter"]

#: expressions kept made ready; a pull that carries its own is read once
_MOST_KEPT = 1_000
#: ... and so many characters of them: ready ones take about 80 times as many bytes
MOST_KEPT_LETTERS = 1 << 19
_kept: dict[str, Filter] = {}


class Filter:
    """One expression. Raises BadExpression if it cannot be understood."""

    __slots__ = ("_evaluate", "expression")

    def __init__(self, expression: str) -> None:
        self.expression = expression
        self._evaluate = parse(expression).evaluate

    @classmethod
    def of(cls, expression: str) -> Filter:
        """Return the filter of an expression, from those that are kept if it is there; raises BadExpression."""
        known = _kept.get(expression)
        if known is None:
            known = cls(expression)
            letters = sum(map(len, _kept)) + len(expression)
            while _kept and (len(_kept) >= _MOST_KEPT or letters > MOST_KEPT_LETTERS):
                oldest = next(iter(_kept))
                letters -= len(oldest)
                del _kept[oldest]
            _kept[expression] = known
        return known

    def matches(self, properties: Mapping[str, str]) -> bool:
        """Tell whether a message with these properties is wanted: neither unknown nor a failure is."""
        try:
            return self._evaluate(properties) is True
        except EvaluationFailed:
            return False

    def matches_record(self, record: bytes) -> bool:
        """Tell whether a stored record is wanted, by its properties."""
        return self.matches(properties_of(record))


def properties_of(record: bytes) -> dict[str, str]:
    """Return the properties of a record that is known to be sound; of one that stands there twice the last."""
    _, magic, _, _, _, _, _, flag, _ = HEAD.unpack_from(record)
    at = BODY_LENGTH_AT + IPV6_MORE * (bool(flag & FLAG_BORN_IPV6) + bool(flag & FLAG_STORE_IPV6))
    at += U32.size + U32.unpack_from(record, at)[0]
    topic_digits = 2 if magic == MAGIC_V2 else 1
    at += topic_digits + int.from_bytes(record[at : at + topic_digits], "big")
    raw = record[at + 2 : at + 2 + int.from_bytes(record[at : at + 2], "big")]
    found: dict[str, str] = {}
    for pair in raw.decode(errors="replace").split("\x02"):
        name, separator, value = pair.partition("\x01")
        if separator:
            found[name] = value
    return found
