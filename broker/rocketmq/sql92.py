"""SQL92 filters over the properties of messages, with the results of Apache RocketMQ 5.5.0.

    or          = and { OR and }
    and         = equality { AND equality }
    equality    = comparison { "=" comparison | "<>" comparison | IS NULL | IS NOT NULL }
    comparison  = unary { ( ">" | ">=" | "<" | "<=" ) unary
                        | [ NOT ] BETWEEN unary AND unary
                        | [ NOT ] IN "(" string { "," string } ")"
                        | [ NOT ] ( CONTAINS | STARTSWITH | ENDSWITH ) string }
    unary       = ( "+" | "-" | NOT ) unary | string | number | TRUE | FALSE | NULL | name | "(" or ")"

So NOT binds tighter than a comparison: NOT a = 'x' asks whether (NOT a) is 'x', as in RocketMQ; write NOT (a = 'x').
What each form means stands in ``sql92_nodes.py``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from . import sql92_nodes as nodes
from .layout import BODY_LENGTH_AT, FLAG_BORN_IPV6, FLAG_STORE_IPV6, HEAD, IPV6_MORE, MAGIC_V2, U32
from .sql92_nodes import BadExpression, EvaluationFailed, Node

# Words.

LONGEST_EXPRESSION = 65_536
MOST_TOKENS = 10_000

KEYWORDS = frozenset(
    {"NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "NULL", "IS", "CONTAINS", "STARTSWITH", "ENDSWITH"}
)
FLOAT, WHOLE, STRING, NAME, END = "number", "whole number", "string", "name", "the end"

_TOKEN = re.compile(
    r"""
    (?P<blank> [ \t\n\r\f]+ | --[^\n\r]* | /\*.*?\*/ )
  | (?P<float> [0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)? | \.[0-9]+(?:[eE][+-]?[0-9]+)? | [0-9]+[eE][+-]?[0-9]+ )
  | (?P<whole> 0 | [1-9][0-9]*[lL]? )
  | (?P<string> '(?:''|[^'])*' )
  | (?P<name> [a-zA-Z_$][a-zA-Z0-9_$]* )
  | (?P<sign> <> | <= | >= | [=<>(),+-] )
    """,
    re.VERBOSE | re.DOTALL,
)
_KINDS = {"float": FLOAT, "whole": WHOLE, "string": STRING, "name": NAME}


class Token(NamedTuple):
    """A single word: its kind (of keywords and signs the word itself, in capitals), its text and where it begins."""

    kind: str
    text: str
    at: int


def tokens(expression: str) -> list[Token]:
    """Return all words, and an END. Raises BadExpression."""
    if len(expression) > LONGEST_EXPRESSION:
        raise BadExpression(f"The expression has more than {LONGEST_EXPRESSION:,} characters.")
    found: list[Token] = []
    at = 0
    while at < len(expression):
        match = _TOKEN.match(expression, at)
        if match is None:
            raise BadExpression(f"{expression[at : at + 20]!r} at character {at + 1} is no part of an expression.")
        if match[0] == "0" and expression[match.end() : match.end() + 1].isdigit():
            raise BadExpression(f"{expression[at : at + 20]!r} at character {at + 1}: a number does not begin with 0.")
        if match.lastgroup != "blank":
            found.append(_token(match.lastgroup or "", match[0], at))
            if len(found) > MOST_TOKENS:
                raise BadExpression(f"The expression has more than {MOST_TOKENS:,} words.")
        at = match.end()
    found.append(Token(END, "", at))
    return found


def _token(group: str, text: str, at: int) -> Token:
    upper = text.upper()
    if group == "sign" or (group == "name" and upper in KEYWORDS):
        return Token(upper, text, at)
    return Token(_KINDS[group], text[1:-1].replace("''", "'") if group == "string" else text, at)


# Grammar.

MOST_NESTED = 100
_ORDERS = frozenset({"<", "<=", ">", ">="})
_TEXT_WORDS = frozenset({"CONTAINS", "STARTSWITH", "ENDSWITH"})
_WORDS = _TEXT_WORDS | {"NOT", "BETWEEN", "IN"}


def parse(expression: str) -> Node:
    """Return the condition that an expression says. Raises BadExpression."""
    reader = _Reader(tokens(expression))
    node = nodes.as_truth(reader.alternatives())
    reader.take(END)
    return node


class _Reader:
    def __init__(self, words: list[Token]) -> None:
        self._words = words
        self._at = 0
        self._depth = 0

    @property
    def _kind(self) -> str:
        return self._words[self._at].kind

    def take(self, kind: str) -> Token:
        """Return the next word, which must be of this kind."""
        token = self._words[self._at]
        if token.kind != kind:
            found = f"{token.text[:40]!r}" if token.kind != END else END
            raise BadExpression(f"{kind} is expected at character {token.at + 1}, not {found}.")
        self._at += 1
        return token

    def _accept(self, kind: str) -> bool:
        if self._kind != kind:
            return False
        self._at += 1
        return True

    def alternatives(self) -> Node:
        """Parse the rule `or` of the grammar."""
        parts = [self._conjunction()]
        while self._accept("OR"):
            parts.append(self._conjunction())
        return nodes.any_of(parts)

    def _conjunction(self) -> Node:
        parts = [self._equality()]
        while self._accept("AND"):
            parts.append(self._equality())
        return nodes.all_of(parts)

    def _equality(self) -> Node:
        left = self._comparison()
        for _ in range(MOST_NESTED):
            if self._accept("="):
                left = nodes.equal(left, self._comparison())
            elif self._accept("<>"):
                left = nodes.negation(nodes.equal(left, self._comparison()))
            elif self._accept("IS"):
                is_not = self._accept("NOT")
                self.take("NULL")
                left = nodes.is_null(left)
                left = nodes.negation(left) if is_not else left
            else:
                return left
        raise _too_deep()

    def _comparison(self) -> Node:
        left = self._unary()
        for _ in range(MOST_NESTED):
            if self._kind in _ORDERS:
                sign = self.take(self._kind).kind
                left = nodes.ordered(left, sign, self._unary())
            elif self._kind in _WORDS:
                left = self._word_test(left, is_not=self._accept("NOT"))
            else:
                return left
        raise _too_deep()

    def _word_test(self, left: Node, *, is_not: bool) -> Node:
        if self._accept("BETWEEN"):
            low = self._unary()
            self.take("AND")
            return (nodes.not_between if is_not else nodes.between)(left, low, self._unary())
        if self._accept("IN"):
            return nodes.one_of(left, self._strings(), is_not=is_not)
        if self._kind in _TEXT_WORDS:
            word = self.take(self._kind).kind
            return nodes.text_test(left, word, self.take(STRING).text, is_not=is_not)
        self.take("BETWEEN, IN, CONTAINS, STARTSWITH or ENDSWITH")
        raise AssertionError("no word is of that kind")

    def _strings(self) -> list[str]:
        self.take("(")
        found = [self.take(STRING).text]
        while self._accept(","):
            found.append(self.take(STRING).text)
        self.take(")")
        return found

    def _unary(self) -> Node:
        self._depth += 1
        if self._depth > MOST_NESTED:
            raise _too_deep()
        try:
            if self._accept("+"):
                return self._unary()
            if self._accept("-"):
                return nodes.minus(self._unary())
            if self._accept("NOT"):
                return nodes.negation(self._unary())
            return self._primary()
        finally:
            self._depth -= 1

    def _primary(self) -> Node:
        token = self._words[self._at]
        self._at += 1
        match token.kind:
            case "(":
                node = self.alternatives()
                self.take(")")
                return node
            case "TRUE" | "FALSE":
                return nodes.truth_constant(token.kind == "TRUE")
            case "NULL":
                return nodes.truth_constant(None)
            case kind if kind == STRING:
                return nodes.constant(token.text)
            case kind if kind == WHOLE:
                return nodes.whole_number(token.text)
            case kind if kind == FLOAT:
                return nodes.floating_number(token.text)
            case kind if kind == NAME:
                return nodes.property_named(token.text)
        self._at -= 1
        self.take("A value, a name or (")
        raise AssertionError("no word is of that kind")


def _too_deep() -> BadExpression:
    return BadExpression(f"The expression is nested more than {MOST_NESTED} deep.")


# Expressions made ready.

#: expressions kept made ready; a pull that carries its own is read once
_MOST_KEPT = 1_000
#: ... and so many characters of them: ready ones take about 80 times as many bytes
MOST_KEPT_LETTERS = 1 << 19
_kept: dict[str, Filter] = {}


class Filter:
    """A filter expression. Raises BadExpression if it cannot be understood."""

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
